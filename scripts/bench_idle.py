"""How much of a core a switch of eight ports takes when nothing comes. See docs/benchmarks.md."""

import argparse
import json
import time
from pathlib import Path

from bench_lab import Lab, cpu_ns, end, threads

PORTS = 8
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
    """The share of a core that all threads of the switch take."""
    ports = range(1, PORTS + 1)
    for n in ports:
        lab.wire(f"g{n}", f"s{n}", f"02:00:00:00:00:{n:02x}")
    config = lab.directory / "xoff.toml"
    config.write_text(CONFIG + "".join(PORT.format(n=n) for n in ports))
    switch = lab.start(lab.switch, options.xoff, "run", "--config", str(config), ready="running")
    time.sleep(SETTLE_S)

    def look():
        return time.monotonic(), sum(cpu_ns(switch.pid, tid) for tid in threads(switch.pid, ""))

    before = look()
    time.sleep(options.seconds)
    after = look()
    end(switch)
    return (after[1] - before[1]) / 1e9 / (after[0] - before[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a line")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long it is watched")
    parser.add_argument("--xoff", default="target/release/xoff", help="the binary")
    options = parser.parse_args()
    options.xoff = str(Path(options.xoff).resolve())
    with Lab() as lab:
        share = measure(lab, options)
    result = {"ports": PORTS, "seconds": options.seconds, "core_share": round(share, 5)}
    print(json.dumps(result) if options.json else f"{PORTS} idle ports: {share:.3%} of a core")


if __name__ == "__main__":
    main()
