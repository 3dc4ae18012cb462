"""How soon a Linux host with `xoff nic` stops a class that its switch has paused. See docs/benchmarks.md.

    host h1: agent, programs -- veth -- s1, who pauses class 3 each millisecond, and takes what comes

The agent measures itself: from the kernel's stamp on the pause frame to the kernel's answer that the queue is stopped, in steps
of an eighth of a doubling. What is printed is the upper end of the step that holds the quantile.
"""

import argparse
import contextlib
import json
import sys
import time
from pathlib import Path

from bench_lab import Lab, end, run

AGENT_CORE, PEER_CORE = 0, 1
HOST, PEER = "10.0.0.1", "10.0.0.2"
CLASS_3 = 24 << 2
LOADS = ("idle", "senders")
"""Senders of both classes on the agent's own core, as fast as the kernel lets them."""

SENDER = f"""
import socket
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
out.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, int(__import__("sys").argv[1]))
while True:
    try:
        out.sendto(bytes(1400), ("{PEER}", 9))
    except OSError:
        pass
"""


def measure(lab, options, load):
    """How many pauses, and the quantiles of what each took, in microseconds."""
    agent = lab.start(
        lab.hosts, "taskset", "--cpu-list", str(AGENT_CORE), options.xoff,
        "nic", "--device", "h1", "--speed", options.speed, ready="obeying",
    )  # fmt: skip
    senders = [
        lab.start(lab.hosts, "taskset", "--cpu-list", str(AGENT_CORE), sys.executable, "-c", SENDER, str(tos))
        for tos in (CLASS_3, 0)
        if load == "senders"
    ]
    time.sleep(0.5)
    run("ip", "netns", "exec", lab.switch, "taskset", "--cpu-list", str(PEER_CORE), options.xoff, "traffic", "pause",
        "--device", "s1", "--pause", "3=500", "--every", "1ms", "--count", str(options.pauses))  # fmt: skip
    status = json.loads(run("ip", "netns", "exec", lab.hosts, options.xoff, "nic", "--status", "--json"))
    for one in (*senders, agent):
        end(one)
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


@contextlib.contextmanager
def wire(options):
    with Lab() as lab:
        lab.wire("h1", "s1", "02:00:00:00:00:01")
        run("ip", "-n", lab.hosts, "addr", "add", f"{HOST}/24", "dev", "h1")
        run("ip", "-n", lab.switch, "addr", "add", f"{PEER}/24", "dev", "s1")
        run("ip", "-n", lab.switch, "link", "set", "s1", "address", "02:00:00:00:00:02")
        run("ip", "-n", lab.hosts, "neigh", "add", PEER, "lladdr", "02:00:00:00:00:02", "dev", "h1")
        yield lab


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--pauses", type=int, default=8000, help="how many pauses for each load")
    parser.add_argument("--speed", default="1G", help="the line's rate")
    parser.add_argument("--xoff", default="target/dist/xoff", help="the binary; it is the peer, too")
    options = parser.parse_args()
    options.xoff = str(Path(options.xoff).resolve())
    measured = {}
    for load in LOADS:
        with wire(options) as lab:
            measured[load] = measure(lab, options, load)
    if options.json:
        return print(json.dumps(measured))
    print("load       pauses   p50, us   p99, us   longest, us   peer_response, us")
    for load, one in measured.items():
        print(f"{load:<8} {one['count']:>8} {one['p50_us']:>9} {one['p99_us']:>9} {one['longest_us']:>13} {one['peer_response_us']:>19}")


if __name__ == "__main__":
    main()
