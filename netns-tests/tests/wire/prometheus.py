"""Asks a real Prometheus, which scrapes two switches, what the dashboard asks; see prometheus.rs."""

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

# What has no data where a switch does not halt its pipeline, or nothing of the kind has happened yet.
MAY_BE_EMPTY = ("xoff_pipeline_halted", "xoff_qcn_cnm_feedback", "xoff_pfc_culprit_bytes")
# What has to be above zero while a host holds its switch, and that holds its senders.
IS_ABOVE_ZERO = (
    "xoff_sent_bytes_total",
    "xoff_received_bytes_total",
    "xoff_pfc_pause_seconds_total",
    "xoff_pfc_xoff_received_total",
    "xoff_watchdog_storm_seconds_total",
)


def get(path):
    # Nobody stands between a test and its own Prometheus.
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
    """With every variable as the dashboard has it at first."""
    for variable in ("switch", "port", "class"):
        expression = expression.replace(f'"${variable}"', '".*"')
    expression = expression.replace("$__rate_interval", RANGE)
    assert "$" not in expression, expression
    return expression


def lint():
    """Metrics as they are scraped: promtool has nothing to say of them."""
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
        said = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
        assert (said.returncode, said.stdout, said.stderr) == (0, b"", b""), said
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
    # Ports of the same name are two.
    of_p1 = ask('sum by (switch, port) (rate(xoff_received_bytes_total{port="p1"}[10s]))')
    assert sorted(sample["metric"]["switch"] for sample in of_p1) == ["far", "near"], of_p1
finally:
    prometheus.terminate()
    prometheus.wait()
