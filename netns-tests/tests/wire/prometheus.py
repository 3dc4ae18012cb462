"""Runs the dashboard's queries on a real Prometheus that scrapes two switches; see prometheus.rs."""

import json
import re
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

dashboard, directory, *switches = sys.argv[1:]
directory = Path(directory)
AT = "127.0.0.1:9090"
RANGE = "10s"

# Queries without data until a pipeline halts, a CNM is sent, or a culprit queue exists.
MAY_BE_EMPTY = ("xoff_pipeline_halted", "xoff_qcn_cnm_feedback", "xoff_pfc_culprit_bytes")
# Queries above zero while a host pauses its switch, and the switch its senders.
IS_ABOVE_ZERO = (
    "xoff_sent_bytes_total",
    "xoff_received_bytes_total",
    "xoff_pfc_pause_seconds_total",
    "xoff_pfc_xoff_received_total",
    "xoff_watchdog_storm_seconds_total",
)


def get(path):
    # Without a proxy: Prometheus runs on this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{AT}{path}", timeout=10) as answer:
        return json.load(answer)


def ask(expression):
    try:
        answer = get("/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{expression}: {error.read().decode()}") from error
    assert answer["status"] == "success" and not answer.get("warnings"), f"{expression}: {answer}"
    return answer["data"]["result"]


def filled(expression):
    """Returns an expression with the initial value of each dashboard variable."""
    for variable in ("switch", "port", "class"):
        expression = expression.replace(f'"${variable}"', '".*"')
    expression = expression.replace("$__rate_interval", RANGE)
    assert "$" not in expression, expression
    return expression


def lint():
    """Checks the metrics with promtool, which must report nothing."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for switch in switches:
        url = f"http://{switch}/metrics"
        with opener.open(url, timeout=10) as answer:
            text = answer.read()
        openmetrics = urllib.request.Request(url, headers={"Accept": "application/openmetrics-text"})
        with opener.open(openmetrics, timeout=10) as answer:
            media_type = answer.headers["Content-Type"]
            assert media_type.startswith("application/openmetrics-text; version=1.0.0"), media_type
            assert answer.read().endswith(b"\n# EOF\n")
        checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b""), checked
        breached = subprocess.run(
            ["promtool", "check", "metrics"], input=text + b"xoff_bits 1\n", capture_output=True, check=False
        )
        assert breached.returncode != 0, "promtool finds nothing at all"


def look(panels):
    asked = 0
    for panel in panels:
        for target in panel.get("targets", []):
            asked += 1
            expression = filled(target["expr"])
            found = ask(expression)
            everything = re.sub(r" > 0\b", "", expression)
            names = re.findall(r"xoff_\w+", expression)
            if not any(name.startswith(MAY_BE_EMPTY) for name in names):
                assert found or ask(everything), f"{panel['title']} has no data: {everything}"
            if names and names[0] in IS_ABOVE_ZERO:
                assert any(float(sample["value"][1]) > 0 for sample in found), (
                    f"{panel['title']}: nothing in {expression}"
                )
            if "{{switch}}" in target.get("legendFormat", "") and ask(everything):
                labels = {sample["metric"].get("switch") for sample in ask(everything)}
                assert labels <= {"near", "far"}, f"{expression} has lost whose it is: {labels}"
    assert asked > 50, f"{asked} queries"


config = {
    "global": {"scrape_interval": "1s"},
    "scrape_configs": [{"job_name": "xoff", "static_configs": [{"targets": switches}]}],
}
(directory / "prometheus.yml").write_text(json.dumps(config))
command = [
    "prometheus",
    f"--config.file={directory}/prometheus.yml",
    f"--storage.tsdb.path={directory}/data",
    f"--web.listen-address={AT}",
]
with open(directory / "log", "wb") as log:
    prometheus = subprocess.Popen(command, stdout=log, stderr=log)
try:
    scraped = f"min(count_over_time(up[5m])) >= 8 and sum(up) == {len(switches)}"
    while True:
        assert prometheus.poll() is None, (directory / "log").read_text()
        try:
            if ask(scraped):
                break
        except OSError:
            pass
        time.sleep(0.5)
    lint()
    with open(dashboard, encoding="utf-8") as file:
        look(json.load(file)["panels"])
    # Ports with the same name at two switches are different.
    of_p1 = ask('sum by (switch, port) (rate(xoff_received_bytes_total{port="p1"}[10s]))')
    assert sorted(sample["metric"]["switch"] for sample in of_p1) == ["far", "near"], of_p1
finally:
    prometheus.terminate()
    prometheus.wait()
