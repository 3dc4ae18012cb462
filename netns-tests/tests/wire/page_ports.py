"""Checks the live page of a switch with 64 ports in a real browser for a few seconds; see page_ports.rs."""

from browser import browser, pages, text, wait

[near] = pages
ASKED = "return performance.getEntriesByType('resource').filter(it => it.name.endsWith('/status?addresses=0')).length"


def row(port):
    rows = browser.execute_script(
        "return [...document.querySelectorAll('#rows tr')].map(it => [...it.children].map(of => of.innerText))"
    )
    return next((cells for cells in rows if cells[0] == port), None)


def is_loaded(source, sink):
    idle = row("p3")
    return row(source)[2] != idle[2] and row(sink)[3] != idle[3]


try:
    browser.get(near)
    wait("all ports", lambda: text("#rows").count("\n") >= 63 and row("p64") is not None)
    assert len(browser.execute_script("return [...document.querySelectorAll('#rows tr')]")) == 64
    wait("three answers", lambda: browser.execute_script(ASKED) >= 3)
    wait("the rate of the first load", lambda: is_loaded("p1", "p2"))
    wait("the rate of the last load", lambda: is_loaded("p63", "p64"))
    assert "nothing lossless was lost" in text("#verdict"), text("#verdict")
    assert not text("#trouble"), text("#trouble")
    said = [line["message"] for line in browser.get_log("browser") if near in line["message"]]
    assert not said, said
finally:
    browser.quit()
