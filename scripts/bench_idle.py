"""How much of a core a switch takes when nothing comes, how soon it runs, and how much memory it has then. See
docs/benchmarks.md."""

import argparse
import json
import time
from pathlib import Path

from bench_lab import Lab, cpu_ns, end, threads

SETTLE_S = 2

CONFIG = """
[switch]
http = false
log = "info"

[defaults]
speed = "10G"
"""
PORT = """
[[port]]
name = "port{n}"
device = "s{n}"
"""


def measure(lab, options):
    """What is said of the switch."""
    ports = range(1, options.ports + 1)
    for n in ports:
        lab.wire(f"g{n}", f"s{n}", f"02:00:00:00:00:{n:02x}")
    config = lab.directory / "xoff.toml"
    config.write_text(CONFIG + "".join(PORT.format(n=n) for n in ports))
    kernel_kib, begin = in_kib("/proc/meminfo", "VmallocUsed"), time.monotonic()
    switch = lab.start(lab.switch, options.xoff, "run", "--config", str(config), ready="running")
    start_s = time.monotonic() - begin
    kernel_kib = in_kib("/proc/meminfo", "VmallocUsed") - kernel_kib
    time.sleep(SETTLE_S)

    def look():
        return time.monotonic(), sum(cpu_ns(switch.pid, tid) for tid in threads(switch.pid, ""))

    before = look()
    time.sleep(options.seconds)
    after = look()
    resident_kib = in_kib(f"/proc/{switch.pid}/status", "VmRSS")
    end(switch)
    return {
        "ports": options.ports,
        "seconds": options.seconds,
        "core_share": round((after[1] - before[1]) / 1e9 / (after[0] - before[0]), 5),
        "start_seconds": round(start_s, 2),
        "resident_mib": round(resident_kib / 1024),
        "kernel_mib": round(kernel_kib / 1024),
    }


def in_kib(file, key):
    return int(next(line for line in open(file) if line.startswith(key)).split()[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a line")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long it is watched")
    parser.add_argument("--ports", type=int, default=8, help="how many there are")
    parser.add_argument("--xoff", default="target/dist/xoff", help="the binary")
    options = parser.parse_args()
    options.xoff = str(Path(options.xoff).resolve())
    with Lab() as lab:
        result = measure(lab, options)
    said = "{ports} idle ports: {core_share:.3%} of a core; started in {start_seconds} s, {resident_mib} MiB resident, {kernel_mib} MiB in the kernel"
    print(json.dumps(result) if options.json else said.format(**result))


if __name__ == "__main__":
    main()
