"""Measures how soon a Linux host with `xoff nic` stops a class that its switch has paused, idle and under load: half a
minute.

    host h1: agent, programs -- veth -- s1, which pauses class 3 each millisecond, and receives

The agent measures itself: from the kernel's time stamp of the pause frame to the kernel's answer that the queue is
stopped, in steps of an eighth of a doubling. The printed value is the upper end of the step that holds the quantile."""

import contextlib
import json
import sys
import time

from benchmarks import arguments, build
from benchmarks.lab import Lab
from benchmarks.process import run, stop

SUMMARY = "Measure how soon a host with `xoff nic` obeys a pause"
ROOT_FOR = "network namespaces and queueing disciplines"
AGENT_CORE, PEER_CORE = 0, 1
HOST, PEER = "10.0.0.1", "10.0.0.2"
CLASS_3 = 24 << 2
# Senders of both classes run on the agent's core, as fast as the kernel permits.
LOADS = ("idle", "senders")

SENDER = f"""
import socket
import sys
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
out.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, int(sys.argv[1]))
while True:
    try:
        out.sendto(bytes(1400), ("{PEER}", 9))
    except OSError:
        pass
"""


def add_arguments(parser):
    arguments.add_json(parser)
    parser.add_argument(
        "--pauses", type=arguments.positive(int), default=8000, metavar="N", help="pauses for each load [%(default)s]"
    )
    parser.add_argument("--speed", default="1G", help="the line's rate [%(default)s]")
    arguments.add_xoff(parser)


def main(options):
    options.xoff = build.xoff(options)
    measured = {}
    for load in LOADS:
        with wire() as lab:
            measured[load] = measure(lab, options, load)
    if options.json:
        return print(json.dumps(measured))
    print("load       pauses   p50, us   p99, us   longest, us   peer_response, us")
    for load, one in measured.items():
        print(
            f"{load:<8} {one['count']:>8} {one['p50_us']:>9} {one['p99_us']:>9}"
            f" {one['longest_us']:>13} {one['peer_response_us']:>19}"
        )


@contextlib.contextmanager
def wire():
    with Lab() as lab:
        lab.wire("h1", "s1", "02:00:00:00:00:01")
        lab.ip(lab.hosts, f"addr add {HOST}/24 dev h1")
        lab.ip(lab.switch, f"addr add {PEER}/24 dev s1")
        lab.ip(lab.switch, "link set s1 address 02:00:00:00:00:02")
        lab.ip(lab.hosts, f"neigh add {PEER} lladdr 02:00:00:00:00:02 dev h1")
        yield lab


def measure(lab, options, load):
    """Returns the number of pauses, and the quantiles of reaction times in microseconds."""
    on_core = ("taskset", "--cpu-list", str(AGENT_CORE))
    agent_command = ("nic", "--device", "h1", "--speed", options.speed)
    agent = lab.start(lab.hosts, *on_core, options.xoff, *agent_command, ready="obeying")
    classes = (CLASS_3, 0) if load == "senders" else ()
    senders = [lab.start(lab.hosts, *on_core, sys.executable, "-c", SENDER, str(tos)) for tos in classes]
    time.sleep(0.5)
    pauses = ("--device", "s1", "--pause", "3=500", "--every", "1ms", "--count", str(options.pauses))
    peer = ("taskset", "--cpu-list", str(PEER_CORE), options.xoff, "traffic", "pause", *pauses)
    run("ip", "netns", "exec", lab.switch, *peer, timeout_s=60 + options.pauses / 1000)
    status = json.loads(run("ip", "netns", "exec", lab.hosts, options.xoff, "nic", "status", "--json"))
    for process in (*senders, agent):
        stop(process)
    spread = status["obey_reaction"]
    quantiles = {f"{name}_us": round((spread[f"{name}_nanos"] or 0) / 1e3, 1) for name in ("p50", "p99")}
    return {
        "count": spread["count"],
        **quantiles,
        "longest_us": round(status["obey_reaction_max_nanos"] / 1e3, 1),
        "peer_response_us": round(status["peer_response_nanos"] / 1e3, 1),
        "real_time": status["real_time"],
        "leaf": status["leaf"],
    }
