"""How much of a congested line is used where peers are slow to go on after a pause. See docs/benchmarks.md.

`burst` is 10 MB through two switches into a line of a fifth of the rate:

    sender -- near -- far -- sink        all lines 1 Gb/s, but far's to the sink 200 Mb/s

far pauses near, near the sender, and each starts again when its thread is run again: a stall of any of them is a gap.
`incast` is as much from several senders that react 500 us late to pauses and resumes, into one port of a switch whose
lines are all 200 Mb/s.

A share of 1 is the line's rate from the first frame at the sink to the last; what a port may send ahead of its rate after it
was idle is taken off. `--hogs` has others want the same cores, `--set` and `--port` try other thresholds.
"""

import argparse
import json
import statistics
import subprocess
import time
from pathlib import Path

from bench_lab import Failures, Lab, await_that, end, run, tell

FRAME = 1518  # with FCS
ON_LINE = FRAME + 20
BYTES = 10_000_000
FAST, SLOW = 1000, 200  # Mb/s
LATE = "500us"
LINGER = "300ms"
SINK = "02:00:00:00:00:99"

SWITCH = """
[switch]
name = "{name}"
http = false
log = "info"
{workers}

[defaults]
lossless = [3]
{ports}

{classes}
"""
PORT = """
[[port]]
name = "{name}"
device = "{device}"
speed = "{speed}M"
"""
TO_SINK = """
[[fdb.static]]
mac = "{mac}"
port = "{port}"
"""


class Bench:
    def __init__(self, lab, options, failures):
        self.lab, self.options, self.failures = lab, options, failures

    def switch(self, name, ports, towards_sink):
        """Starts a switch with ports (name, device, speed in Mb/s), and tells what its lossless class has."""
        options = self.options
        names = ", ".join(f'"{port}"' for port, _, _ in ports)
        workers = f"workers = [{{ ports = [{names}] }}]" if options.workers == "unpinned" else ""
        text = SWITCH.format(name=name, workers=workers, ports="\n".join(options.port), classes="\n".join(["[class.3]", *options.set]))
        text += "".join(PORT.format(name=port, device=device, speed=speed) for port, device, speed in ports)
        config = self.lab.directory / f"{name}.toml"
        config.write_text(text + TO_SINK.format(mac=SINK, port=towards_sink))
        self.lab.start(self.lab.switch, options.xoff, "run", "--config", str(config), ready="running")
        return json.loads(run(options.xoff, "check", "--json", "--elsewhere", "--config", str(config)))

    def sink(self, device, speed):
        process = self.host("--device", device, "--line", f"{speed}M", "--linger", LINGER)
        await_that("the sink", lambda: "prog/xdp" in run("ip", "-n", self.lab.hosts, "link", "show", device))
        return process

    def host(self, *arguments):
        command = ["ip", "netns", "exec", self.lab.hosts, self.options.xoff, "traffic", "--json", *arguments]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.lab.undo.callback(end, process)
        return process

    def round(self, senders, speed, arguments):
        """Lets all senders send their part at once, and answers the share of the slow line that was used."""
        sink = self.sink("sink", SLOW)
        stream = f"class=3,dst={SINK},size={FRAME},count={BYTES // len(senders) // FRAME}"
        hosts = [self.host("--device", one, "--line", f"{speed}M", "--stream", stream, *arguments) for one in senders]
        reports = [json.loads(host.communicate(timeout=60)[0]) for host in [*hosts, sink]]
        received = reports[-1]["received"]
        lost = sum(one["lost"] for one in received) + sum(report["drops"]["total"] for report in reports)
        if lost or len(received) != len(senders) or not all(one["sent_known"] for one in received):
            raise RuntimeError(f"{lost} frames were lost or not all came: {received}")
        self.stalled_ms.append(max(report["longest_gap_ns"] for report in reports) / 1e6)
        span_s = (max(one["last_ns"] for one in received) - min(one["first_ns"] for one in received)) / 1e9
        bits = sum(one["frames"] for one in received) * ON_LINE * 8
        return bits / (SLOW * 1e6 * span_s + 8 * self.credit_bytes)

    def rounds(self, name, checked, senders, speed, arguments=()):
        slow = checked["ports"][-1]
        self.credit_bytes = min(slow["burst_bytes"], slow["commit_bytes"]) + ON_LINE
        self.stalled_ms = []
        shares = []
        for round_ in range(self.options.rounds):
            with self.failures.caught(f"round {round_ + 1} of {name}"), self.lab.scope():
                shares.append(self.round(senders, speed, arguments))
                tell(f"{name}: {shares[-1]:.4f}, longest stall of a host {self.stalled_ms[-1]:.1f} ms")
        if not shares:
            raise RuntimeError("every round failed")
        thresholds = next(one for one in checked["ports"][0]["classes"] if one["class"] == 3)
        return {
            "median": round(statistics.median(shares), 4), "least": round(min(shares), 4),
            "most": round(max(shares), 4), "rounds": len(shares),
            "xon_bytes": thresholds["xon_bytes"], "xoff_bytes": thresholds["xoff_bytes"],
        }  # fmt: skip

    def burst(self):
        self.lab.wire("sender", "near-in", "02:00:00:00:00:01")
        self.lab.wire("sink", "far-out", SINK)
        ip = ("ip", "-n", self.lab.switch, "link")
        run(*ip, "add", "near-out", "type", "veth", "peer", "name", "far-in")
        for device in ("near-out", "far-in"):
            run(*ip, "set", device, "up")
        self.switch("near", [("in", "near-in", FAST), ("out", "near-out", FAST)], "out")
        checked = self.switch("far", [("in", "far-in", FAST), ("out", "far-out", SLOW)], "out")
        return self.rounds("burst", checked, ["sender"], FAST)

    def incast(self, count):
        senders = [f"sender{n}" for n in range(1, count + 1)]
        for n, sender in enumerate(senders, 1):
            self.lab.wire(sender, f"in{n}", f"02:00:00:00:00:{n:02x}")
        self.lab.wire("sink", "out", SINK)
        ports = [(f"in{n}", f"in{n}", SLOW) for n in range(1, count + 1)]
        checked = self.switch("switch", [*ports, ("out", "out", SLOW)], "out")
        arguments = ["--late", LATE]
        return self.rounds(f"incast of {count}", checked, senders, SLOW, arguments)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--rounds", type=int, default=9, help="of each")
    parser.add_argument("--only", help="burst, or the number of senders of an incast")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="a key of the lossless class of all switches, such as 'xon=\"64KB\"'")  # fmt: skip
    parser.add_argument("--hogs", type=int, default=0, help="processes beside that want a core each")
    parser.add_argument("--port", action="append", default=[], metavar="KEY=VALUE", help="a key of all ports")
    parser.add_argument("--workers", default="unpinned", choices=["unpinned", "auto"], help="of the switches")
    parser.add_argument("--xoff", default="target/dist/xoff", help="the binary; it is the hosts, too")
    options = parser.parse_args()
    options.xoff = str(Path(options.xoff).resolve())
    result, failures = {}, Failures()
    for name in [options.only] if options.only else ["burst", "2", "4"]:
        with failures.caught(name), Lab() as lab:
            bench = Bench(lab, options, failures)
            for n in range(options.hogs):
                hog = subprocess.Popen(["sh", "-c", "while :; do :; done"])
                lab.undo.callback(end, hog)
            result[name if name == "burst" else f"incast-{name}"] = (
                bench.burst() if name == "burst" else bench.incast(int(name))
            )
    if options.json:
        print(json.dumps({**result, "failures": failures.all}))
        return failures.exit()
    print("share of the slow line   median   least    most   rounds   XON, XOFF, bytes")
    for name, one in result.items():
        print(f"{name:<22} {one['median']:>8.3f} {one['least']:>7.3f} {one['most']:>7.3f} {one['rounds']:>8}   "
              f"{one['xon_bytes']}, {one['xoff_bytes']}")  # fmt: skip
    failures.exit()


if __name__ == "__main__":
    main()
