"""A real browser. Arguments of the program: URLs of live pages, and a directory for the browser."""

import sys

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

*pages, profile = sys.argv[1:]
options = webdriver.ChromeOptions()
options.binary_location = "/usr/bin/chromium"
without_a_screen = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--window-size=1280,1000",
]
for argument in [*without_a_screen, f"--user-data-dir={profile}"]:
    options.add_argument(argument)
options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
browser = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)


def text(at):
    return browser.execute_script("return document.querySelector(arguments[0]).innerText", at)


def wait(what, ready):
    """Waits until the condition holds, at most for a minute."""
    try:
        WebDriverWait(browser, 60, poll_frequency=0.2).until(lambda _: ready())
    except Exception as error:
        raise SystemExit(f"the page never had {what}:\n{text('body')}\n{browser.get_log('browser')}") from error
