"""Looks at the live page of a switch with 64 ports in a real browser, for a few of its seconds; see page_ports.rs."""

import sys

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

near, profile = sys.argv[1:3]
options = webdriver.ChromeOptions()
options.binary_location = "/usr/bin/chromium"
without_a_screen = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,1000"]
for argument in [*without_a_screen, f"--user-data-dir={profile}"]:
    options.add_argument(argument)
options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
browser = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
ASKED = "return performance.getEntriesByType('resource').filter(it => it.name.endsWith('/status?addresses=0')).length"


def text(at):
    return browser.execute_script("return document.querySelector(arguments[0]).innerText", at)


def wait(what, ready):
    """Waits for as long as the test runs: how long it takes is no promise."""
    try:
        WebDriverWait(browser, 60, poll_frequency=0.2).until(lambda _: ready())
    except Exception as error:
        raise SystemExit(f"the page never had {what}:\n{text('body')}\n{browser.get_log('browser')}") from error


def row(port):
    rows = browser.execute_script("return [...document.querySelectorAll('#rows tr')].map(it => [...it.children].map(of => of.innerText))")
    return next((cells for cells in rows if cells[0] == port), None)


try:
    browser.get(near)
    wait("all ports", lambda: text("#rows").count("\n") >= 63 and row("p64") is not None)
    assert len(browser.execute_script("return [...document.querySelectorAll('#rows tr')]")) == 64
    wait("three answers", lambda: browser.execute_script(ASKED) >= 3)
    wait("the rate of the load", lambda: row("p1")[2] != row("p64")[2] and row("p2")[3] != row("p64")[3])
    assert "nothing lossless was lost" in text("#verdict"), text("#verdict")
    assert not text("#trouble"), text("#trouble")
    said = [line["message"] for line in browser.get_log("browser") if near in line["message"]]
    assert not said, said
finally:
    browser.quit()
