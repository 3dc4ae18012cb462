"""Measures how much of a core an idle switch takes, how long it takes to start, and its memory: half a minute."""

import json
import time
from pathlib import Path

from benchmarks import arguments, build
from benchmarks.lab import Lab
from benchmarks.process import cpu_ns, stop, threads

SUMMARY = "Measure CPU time, start and memory of an idle switch"
ROOT_FOR = "network namespaces and AF_XDP sockets"
SETTLE_S = 2

CONFIG = """
[switch]
http = false
log = "info"

[defaults]
speed = "{speed}"
peer_response = "{peer_response}"
"""
PORT = """
[[port]]
name = "port{n}"
device = "s{n}"
"""


def add_arguments(parser):
    arguments.add_json(parser)
    arguments.add_seconds(parser, 20.0)
    parser.add_argument(
        "--ports", type=arguments.positive(int), default=8, metavar="N", help="ports of the switch [%(default)s]"
    )
    parser.add_argument("--speed", default="10G", metavar="RATE", help="speed of each port [%(default)s]")
    parser.add_argument(
        "--peer-response",
        default="software",
        metavar="PEER",
        help="how fast peers stop: software, standard, or a time [%(default)s]",
    )
    arguments.add_xoff(parser)


def main(options):
    options.xoff = build.xoff(options)
    with Lab() as lab:
        result = measure(lab, options)
    if options.json:
        return print(json.dumps(result))
    print(
        "{ports} idle ports of {speed}: {core_share:.3%} of a core; started in {start_seconds} s,"
        " {resident_mib} MiB resident, {kernel_mib} MiB in the kernel".format(**result)
    )


def measure(lab, options):
    ports = range(1, options.ports + 1)
    for n in ports:
        lab.wire(f"g{n}", f"s{n}", f"02:00:00:00:00:{n:02x}")
    before_kib, begin = kernel_kib(), time.monotonic()
    head = CONFIG.format(speed=options.speed, peer_response=options.peer_response)
    switch, _ = lab.start_switch(options.xoff, head + "".join(PORT.format(n=n) for n in ports))
    start_s = time.monotonic() - begin
    time.sleep(SETTLE_S)
    in_kernel_kib = kernel_kib() - before_kib

    begin, cpu = time.monotonic(), cpu_ns(switch.pid, threads(switch.pid))
    time.sleep(options.seconds)
    cpu = cpu_ns(switch.pid, threads(switch.pid)) - cpu
    seconds = time.monotonic() - begin
    resident_kib = resident_without_rings_kib(switch.pid)
    stop(switch)
    return {
        "ports": options.ports,
        "speed": options.speed,
        "peer_response": options.peer_response,
        "seconds": options.seconds,
        "core_share": round(cpu / 1e9 / seconds, 5),
        "start_seconds": round(start_s, 2),
        "resident_mib": round(resident_kib / 1024),
        "kernel_mib": round(in_kernel_kib / 1024),
    }


def kernel_kib():
    """Returns the kernel's own memory in KiB. Tables of chunks are in different areas, depending on their size."""
    return sum(kib("/proc/meminfo", key) for key in ("VmallocUsed", "SUnreclaim", "PageTables"))


def resident_without_rings_kib(pid):
    """Returns resident memory in KiB without mapped rings of sockets, which `kernel_kib` counts."""
    total_kib, is_ring = 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        key, *values = line.split()
        if not key.endswith(":"):
            is_ring = "socket:" in line
        elif key == "Rss:" and not is_ring:
            total_kib += int(values[0])
    return total_kib


def kib(file, key):
    """Returns the value of a key in a file of /proc, in KiB."""
    return next(int(line.split()[1]) for line in Path(file).read_text().splitlines() if line.startswith(key))
