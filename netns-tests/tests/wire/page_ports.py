"""Looks at the live page of a switch with 64 ports in a real browser, for a few of its seconds; see page_ports.rs. What is in browser.py
goes before it."""

[near] = pages
ASKED = "return performance.getEntriesByType('resource').filter(it => it.name.endsWith('/status?addresses=0')).length"


def row(port):
    rows = browser.execute_script("return [...document.querySelectorAll('#rows tr')].map(it => [...it.children].map(of => of.innerText))")
    return next((cells for cells in rows if cells[0] == port), None)


try:
    browser.get(near)
    wait("all ports", lambda: text("#rows").count("\n") >= 63 and row("p64") is not None)
    assert len(browser.execute_script("return [...document.querySelectorAll('#rows tr')]")) == 64
    wait("three answers", lambda: browser.execute_script(ASKED) >= 3)
    for source, sink in [("p1", "p2"), ("p63", "p64")]:
        wait("the rate of the load", lambda: row(source)[2] != row("p3")[2] and row(sink)[3] != row("p3")[3])
    assert "nothing lossless was lost" in text("#verdict"), text("#verdict")
    assert not text("#trouble"), text("#trouble")
    said = [line["message"] for line in browser.get_log("browser") if near in line["message"]]
    assert not said, said
finally:
    browser.quit()
