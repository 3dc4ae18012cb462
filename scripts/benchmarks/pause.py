"""Measures how fast a running switch sends and obeys pauses: a quarter of a minute.

    senders g1, g2 (class 3) -- s1, s2 -- switch -- s3 -- g3, which pauses class 3 each millisecond

The switch obeys g3, fills up, and so pauses g1 and g2 again and again. It measures itself, in steps of an eighth of a
doubling; the printed value is the upper end of the step that holds the quantile."""

import json
import time

from benchmarks import arguments, build
from benchmarks.lab import Lab
from benchmarks.process import run, stop

SUMMARY = "Measure how fast a switch sends and obeys pauses"
ROOT_FOR = "network namespaces and AF_XDP sockets"
SWITCH_CORE, HOST_CORE = 0, 1
RECEIVER = "02:00:00:00:00:03"
WARM_UP_S = 0.5
REACTIONS = ("send", "obey")

CONFIG = f"""
[switch]
log = "info"
stall_budget = "1ms"
workers = [{{ core = {SWITCH_CORE}, ports = ["one", "two", "three"] }}]

[defaults]
speed = "1G"
lossless = [3]

[[port]]
name = "one"
device = "s1"

[[port]]
name = "two"
device = "s2"

[[port]]
name = "three"
device = "s3"

[[fdb.static]]
mac = "{RECEIVER}"
port = "three"
"""


def add_arguments(parser):
    arguments.add_json(parser)
    arguments.add_seconds(parser, 10.0)
    parser.add_argument("--rate", default="450M", help="rate of each sender, bits per second [%(default)s]")
    arguments.add_xoff(parser)


def main(options):
    options.xoff = build.xoff(options)
    with Lab() as lab:
        measured = measure(lab, options)
    if options.json:
        return print(json.dumps(measured))
    print("reaction    pauses   p50, us   p99, us")
    for name, one in measured.items():
        print(f"{name:<8} {one['count']:>9} {one['p50_us']!s:>9} {one['p99_us']!s:>9}")


def measure(lab, options):
    """Returns the number of reactions by direction, and their quantiles in microseconds."""
    for n in (1, 2, 3):
        lab.wire(f"g{n}", f"s{n}", f"02:00:00:00:00:{n:02x}")
    lab.start_switch(options.xoff, CONFIG)

    def host(*arguments):
        command = ("taskset", "--cpu-list", str(HOST_CORE), options.xoff, "traffic", *arguments)
        return lab.start(lab.hosts, *command)

    duration = f"{round((options.seconds + WARM_UP_S) * 1000)}ms"
    hosts = [host("pause", "--device", "g3", "--pause", "3=1000", "--every", "1ms", "--duration", duration)]
    for n in (1, 2):
        stream = f"class=3,dst={RECEIVER},size=1000,rate={options.rate}"
        hosts.append(host("--device", f"g{n}", "--speed", "1G", "--duration", duration, "--stream", stream))
    time.sleep(options.seconds)
    status = json.loads(run("ip", "netns", "exec", lab.switch, options.xoff, "status", "--json"))
    for process in hosts:
        stop(process)
    [worker] = status["workers"]
    return {name: reaction(worker[f"{name}_reaction"]) for name in REACTIONS}


def reaction(spread):
    def microseconds(quantile):
        nanos = spread[f"{quantile}_nanos"]
        return None if nanos is None else round(nanos / 1e3, 3)

    return {"count": spread["count"], "p50_us": microseconds("p50"), "p99_us": microseconds("p99")}
