"""Measures how much of a congested line is used where peers are slow to resume after a pause: a minute.

`burst` is 10 MB through two switches into a line of a fifth of the rate:

    sender -- near -- far -- sink        all lines 1 Gb/s, but far's to the sink 200 Mb/s

far pauses near, near the sender, and each resumes when its thread runs: a stall of any of them is a gap.
`incast` is as much from several senders that react 500 us late to pauses and resumes, into one port of a switch whose
lines are all 200 Mb/s.

A share of 1 is the line's rate from the first frame at the sink to the last, without what a port may send ahead of its
rate after it was idle. --hogs has other processes want the same cores, --set and --port try other thresholds."""

import json
import statistics
import subprocess

from benchmarks import arguments, build
from benchmarks.lab import Lab
from benchmarks.process import log, run, stop
from benchmarks.rounds import Failures

SUMMARY = "Measure the use of a congested line under stalls"
ROOT_FOR = "network namespaces and AF_XDP sockets"
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


def add_arguments(parser):
    arguments.add_json(parser)
    arguments.add_rounds(parser, 9)
    parser.add_argument(
        "--only",
        type=scenario,
        metavar="SCENARIO",
        help="burst, or the number of senders of an incast [burst, 2 and 4]",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a key of the lossless class of all switches, such as 'xon=\"64KB\"'; can be repeated",
    )
    parser.add_argument(
        "--port", action="append", default=[], metavar="KEY=VALUE", help="a key of all ports; can be repeated"
    )
    parser.add_argument(
        "--hogs",
        type=arguments.natural,
        default=0,
        metavar="N",
        help="other processes that want a core each [%(default)s]",
    )
    parser.add_argument(
        "--workers", default="unpinned", choices=["unpinned", "auto"], help="workers of the switches [%(default)s]"
    )
    arguments.add_xoff(parser)


def scenario(text):
    return text if text == "burst" else str(arguments.positive(int)(text))


class Bench:
    def __init__(self, lab, options, failures):
        self.lab, self.options, self.failures = lab, options, failures

    def switch(self, name, ports, towards_sink):
        """Starts a switch with ports (name, device, speed in Mb/s). Returns its checked configuration."""
        options = self.options
        names = ", ".join(f'"{port}"' for port, _, _ in ports)
        workers = f"workers = [{{ ports = [{names}] }}]" if options.workers == "unpinned" else ""
        classes = "\n".join(["[class.3]", *options.set])
        text = SWITCH.format(name=name, workers=workers, ports="\n".join(options.port), classes=classes)
        text += "".join(PORT.format(name=port, device=device, speed=speed) for port, device, speed in ports)
        text += TO_SINK.format(mac=SINK, port=towards_sink)
        _, config = self.lab.start_switch(options.xoff, text, name)
        return json.loads(run(options.xoff, "check", "--json", "--elsewhere", "--config", str(config)))

    def sink(self, device, speed):
        process = self.host("--device", device, "--line", f"{speed}M", "--linger", LINGER)
        self.lab.wait_for("the sink", lambda: "prog/xdp" in self.lab.ip(self.lab.hosts, f"link show {device}"))
        return process

    def host(self, *arguments):
        command = ["ip", "netns", "exec", self.lab.hosts, self.options.xoff, "traffic", "--json", *arguments]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.lab.undo.callback(stop, process)
        return process

    def round(self, senders, speed, arguments):
        """Starts all senders at once, each with its part. Returns the used share of the slow line."""
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
                log(f"{name}: {shares[-1]:.4f}, longest stall of a host {self.stalled_ms[-1]:.1f} ms")
        if not shares:
            raise RuntimeError("every round failed")
        thresholds = next(one for one in checked["ports"][0]["classes"] if one["class"] == 3)
        return {
            "median": round(statistics.median(shares), 4),
            "least": round(min(shares), 4),
            "most": round(max(shares), 4),
            "rounds": len(shares),
            "xon_bytes": thresholds["xon_bytes"],
            "xoff_bytes": thresholds["xoff_bytes"],
        }

    def burst(self):
        self.lab.wire("sender", "near-in", "02:00:00:00:00:01")
        self.lab.wire("sink", "far-out", SINK)
        self.lab.ip(self.lab.switch, "link add near-out type veth peer name far-in")
        for device in ("near-out", "far-in"):
            self.lab.ip(self.lab.switch, f"link set {device} up")
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
        return self.rounds(f"incast of {count}", checked, senders, SLOW, ["--late", LATE])


def main(options):
    options.xoff = build.xoff(options)
    result, failures = {}, Failures()
    for name in [options.only] if options.only else ["burst", "2", "4"]:
        with failures.caught(name), Lab() as lab:
            bench = Bench(lab, options, failures)
            for _ in range(options.hogs):
                hog = subprocess.Popen(["sh", "-c", "while :; do :; done"])
                lab.undo.callback(stop, hog)
            if name == "burst":
                result[name] = bench.burst()
            else:
                result[f"incast-{name}"] = bench.incast(int(name))
    print(json.dumps({**result, "failures": failures.all}) if options.json else table(result))
    return failures.exit_status()


def table(result):
    lines = ["share of the slow line   median   least    most   rounds   XON, XOFF, bytes"]
    for name, one in result.items():
        lines.append(
            f"{name:<22} {one['median']:>8.3f} {one['least']:>7.3f} {one['most']:>7.3f} {one['rounds']:>8}   "
            f"{one['xon_bytes']}, {one['xoff_bytes']}"
        )
    return "\n".join(lines)
