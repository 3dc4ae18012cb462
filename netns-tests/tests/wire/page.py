"""Uses the live page in a real browser by keyboard only; see page.rs."""

import os
import time

from browser import browser, pages, text, wait
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

near, far = pages


def press(*keys):
    for key in keys:
        browser.switch_to.active_element.send_keys(key)


def tab_to(wanted):
    """Moves the focus to an element by the Tab key."""
    for _ in range(60):
        if browser.execute_script("return document.activeElement.matches(arguments[0])", wanted):
            return
        press(Keys.TAB)
    raise SystemExit(f"no key leads to {wanted}")


def resize(width):
    """Sets the width of the page, also below the minimum of a window."""
    metrics = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def check_widths():
    """Checks that the document fits the window, and at 1280 pixels all columns with a port's classes and long drops."""
    for width in (320, 390, 768, 1280):
        resize(width)
        assert browser.execute_script("return innerWidth") == width
        needed = browser.execute_script("return document.documentElement.scrollWidth")
        assert needed <= width, f"the document takes {needed} of {width} pixels"
    right = browser.execute_script("""
        const last = [...document.querySelectorAll("#rows tr.class td:last-child")];
        last.forEach(it => it.textContent = "headroom_exhausted 1,234,567,\\negress_full 1,234,567");
        return Math.max(...last.map(it => it.getBoundingClientRect().right))
    """)
    assert 0 < right <= 1280, f"the last column ends at {right}"


def picture(name):
    directory = os.environ.get("XOFF_PICTURES")
    if directory:
        browser.save_screenshot(f"{directory}/{name}.png")


try:
    browser.get(near)
    wait("the switch's name", lambda: text("h1") == "near")
    wait("a paused peer", lambda: "near pauses the peer of p1, class 3" in text("#causes"))
    assert "egress queue near p3, class 3" in text("#causes")
    assert "paused by: station" in text("#causes"), text("#causes")
    wait("pauses", lambda: "p1, class 3: pauses its peer" in text("#pauses"))
    assert browser.title == "near – xoff" and "nothing lossless was lost" in text("#verdict")

    tab_to("#which")
    press("congested")
    wait("only congested or paused ports", lambda: "p2" in text("#rows") and "p4" not in text("#rows"))
    tab_to("#rows button")
    press(Keys.ENTER)
    wait("classes", lambda: "class 3, lossless" in text("#rows"))
    heads = browser.execute_script("return [...document.querySelectorAll('th')].map(it => [it.innerText, it.title])")
    assert ["Headroom left", "Minimum of the last five minutes"] in heads, heads
    assert browser.switch_to.active_element.get_attribute("aria-expanded") == "true"
    tab_to("#log")
    assert "running" in text("#log"), text("#log")

    browser.execute_script("document.activeElement.blur()")
    tab_to("#url")
    press(far, Keys.ENTER)
    wait("the other switch", lambda: "paused by: far pauses the peer of p2, class 3" in text("#causes"))
    assert "paused by: station" in text("#causes") and browser.current_url.endswith(
        "#join=" + far.replace(":", "%3A").replace("/", "%2F")
    )
    assert len(browser.find_elements(By.CSS_SELECTOR, "#graph rect")) >= 5
    check_widths()
    picture("light")
    browser.execute_script("document.activeElement.blur()")
    tab_to("#theme")
    before = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    press(Keys.ENTER)
    assert browser.execute_script("return getComputedStyle(document.body).backgroundColor") != before
    time.sleep(1)
    picture("dark")

    tab_to("#joined button")
    press(Keys.ENTER)
    wait("the other switch gone", lambda: "far pauses" not in text("#causes"))
    browser.get(near + "/#join=http://127.0.0.1:1")
    browser.refresh()
    wait("the switch that does not answer", lambda: "http://127.0.0.1:1 does not answer" in text("#trouble"))
    assert "near pauses the peer of p1, class 3" in text("#causes")

    asked = browser.execute_script("return performance.getEntriesByType('resource').map(it => it.name)")
    foreign = [name for name in asked if not name.startswith((near, far, "http://127.0.0.1:1/", "data:"))]
    assert not foreign, foreign
    said = [line["message"] for line in browser.get_log("browser")]
    unexpected = [line for line in said if "http://127.0.0.1:1/" not in line]
    assert not unexpected, unexpected
finally:
    browser.quit()
