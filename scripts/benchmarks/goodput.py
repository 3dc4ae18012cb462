"""Measures how much of a congested line is used where peers are slow to resume after a pause, and the CPU time that a
forwarded frame costs there: a minute.

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
from benchmarks.process import cpu_ns, log, run, stop, threads
from benchmarks.ratios import interval, ratios
from benchmarks.rounds import Failures, turns

SUMMARY = "Measure the use of a congested line, and CPU time a frame"
ROOT_FOR = "network namespaces and AF_XDP sockets"
ON_LINE = 20  # bytes of preamble and gap that a frame takes beside its own
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
    arguments.add_size(parser, 1518)
    parser.add_argument(
        "--bytes", type=arguments.positive(int), default=10_000_000, metavar="N", help="bytes of a round [%(default)s]"
    )
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
    arguments.add_also(parser)


def scenario(text):
    return text if text == "burst" else str(arguments.positive(int)(text))


class Bench:
    """One network with the switches of one version, for one round."""

    def __init__(self, lab, options, binary):
        self.lab, self.options, self.binary = lab, options, binary
        self.switches = []

    def switch(self, name, ports, towards_sink):
        """Starts a switch with ports (name, device, speed in Mb/s). Returns its checked configuration."""
        options = self.options
        names = ", ".join(f'"{port}"' for port, _, _ in ports)
        workers = f"workers = [{{ ports = [{names}] }}]" if options.workers == "unpinned" else ""
        classes = "\n".join(["[class.3]", *options.set])
        text = SWITCH.format(name=name, workers=workers, ports="\n".join(options.port), classes=classes)
        text += "".join(PORT.format(name=port, device=device, speed=speed) for port, device, speed in ports)
        text += TO_SINK.format(mac=SINK, port=towards_sink)
        process, config = self.lab.start_switch(self.binary, text, name)
        self.switches.append(process.pid)
        return json.loads(run(self.binary, "check", "--json", "--elsewhere", str(config)))

    def sink(self, device, speed):
        process = self.host("--device", device, "--speed", f"{speed}M", "--linger", LINGER)
        self.lab.wait_for("the sink", lambda: "prog/xdp" in self.lab.ip(self.lab.hosts, f"link show {device}"))
        return process

    def host(self, *arguments):
        command = ["ip", "netns", "exec", self.lab.hosts, self.options.xoff, "traffic", "--json", *arguments]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.lab.undo.callback(stop, process)
        return process

    def measure(self, checked, senders, speed, arguments=()):
        """Starts all senders at once, each with its part. Returns the measurement of the last switch's slow line."""
        sink = self.sink("sink", SLOW)
        stream = f"class=3,dst={SINK},size={self.options.size},count={self.options.bytes // len(senders) // self.options.size}"
        before = self.cpu_ns()
        hosts = [self.host("--device", one, "--speed", f"{speed}M", "--stream", stream, *arguments) for one in senders]
        reports = [json.loads(host.communicate(timeout=60)[0]) for host in [*hosts, sink]]
        spent_ns = self.cpu_ns() - before
        received = reports[-1]["received"]
        lost = sum(one["lost"] for one in received) + sum(report["drops"]["total"] for report in reports)
        if lost or len(received) != len(senders) or not all(one["sent_known"] for one in received):
            raise RuntimeError(f"{lost} frames were lost or not all came: {received}")
        span_s = (max(one["last_ns"] for one in received) - min(one["first_ns"] for one in received)) / 1e9
        frames = sum(one["frames"] for one in received)
        slow = checked["ports"][-1]
        on_line = self.options.size + ON_LINE
        credit_bytes = min(slow["burst_bytes"], slow["commit_bytes"]) + on_line
        thresholds = next(one for one in checked["ports"][0]["classes"] if one["class"] == 3)
        return {
            "share": frames * on_line * 8 / (SLOW * 1e6 * span_s + 8 * credit_bytes),
            "cpu_ns": spent_ns / frames,
            "stalled_ms": max(report["longest_gap_ns"] for report in reports) / 1e6,
            "xon_bytes": thresholds["xon_bytes"],
            "xoff_bytes": thresholds["xoff_bytes"],
        }

    def cpu_ns(self):
        """Returns the CPU time of all switches, in nanoseconds."""
        return sum(cpu_ns(pid, threads(pid)) for pid in self.switches)

    def burst(self):
        self.lab.wire("sender", "near-in", "02:00:00:00:00:01")
        self.lab.wire("sink", "far-out", SINK)
        self.lab.ip(self.lab.switch, "link add near-out type veth peer name far-in")
        self.lab.undo.callback(self.lab.ip, self.lab.switch, "link del near-out")
        for device in ("near-out", "far-in"):
            self.lab.ip(self.lab.switch, f"link set {device} up")
        self.switch("near", [("in", "near-in", FAST), ("out", "near-out", FAST)], "out")
        checked = self.switch("far", [("in", "far-in", FAST), ("out", "far-out", SLOW)], "out")
        return self.measure(checked, ["sender"], FAST)

    def incast(self, count):
        senders = [f"sender{n}" for n in range(1, count + 1)]
        for n, sender in enumerate(senders, 1):
            self.lab.wire(sender, f"in{n}", f"02:00:00:00:00:{n:02x}")
        self.lab.wire("sink", "out", SINK)
        ports = [(f"in{n}", f"in{n}", SLOW) for n in range(1, count + 1)]
        checked = self.switch("switch", [*ports, ("out", "out", SLOW)], "out")
        return self.measure(checked, senders, SLOW, ["--late", LATE])

    def run(self, load):
        return self.burst() if load == "burst" else self.incast(int(load))


def summary(rounds, own):
    """Returns one row from the measurements by round; `own` has those of the tree's switch in the same rounds."""
    measured = list(rounds.values())
    shares = [one["share"] for one in measured]
    row = {
        "median": round(statistics.median(shares), 4),
        "least": round(min(shares), 4),
        "most": round(max(shares), 4),
        "rounds": len(measured),
        "cpu_ns_per_frame": round(statistics.median(one["cpu_ns"] for one in measured)),
        "xon_bytes": measured[0]["xon_bytes"],
        "xoff_bytes": measured[0]["xoff_bytes"],
    }
    if own is not rounds:
        mine, theirs = ({at: one["cpu_ns"] for at, one in of.items()} for of in (own, rounds))
        common = ratios(mine, theirs)
        row["cpu_ratio"] = round(statistics.median(common), 3) if common else None
        row["cpu_ratio_interval"] = interval(common)
    return row


def main(options):
    options.xoff = build.xoff(options)
    versions = {"xoff": options.xoff, **dict(options.also)}
    loads = [options.only] if options.only else ["burst", "2", "4"]
    measured, failures = {}, Failures()
    with Lab() as lab:
        for _ in range(options.hogs):
            hog = subprocess.Popen(["sh", "-c", "while :; do :; done"])
            lab.undo.callback(stop, hog)
        for round_, load, name in turns(options.rounds, versions, loads):
            with failures.caught(f"round {round_ + 1} of {load}, {name}"), lab.scope():
                one = Bench(lab, options, versions[name]).run(load)
                measured.setdefault((load, name), {})[round_] = one
                log(
                    f"round {round_ + 1} {load:<6} {name:<10} {one['share']:.4f} of the line, {one['cpu_ns']:.0f} ns of"
                    f" CPU a frame, longest stall of a host {one['stalled_ms']:.1f} ms"
                )
    result = {
        load: {
            name: summary(rounds, measured.get((load, "xoff"), {}))
            for (of, name), rounds in measured.items()
            if of == load
        }
        for load in loads
    }
    print(json.dumps({**result, "failures": failures.all}) if options.json else table(result))
    return failures.exit_status()


def table(result):
    lines = [
        f"{'load':<8} {'switch':<12} {'share':>6} {'least':>6} {'most':>6} {'rounds':>7} {'CPU ns':>8}   XON, XOFF, bytes"
    ]
    for load, versions in result.items():
        for name, one in versions.items():
            line = (
                f"{load:<8} {name:<12} {one['median']:>6.3f} {one['least']:>6.3f} {one['most']:>6.3f} {one['rounds']:>7}"
                f" {one['cpu_ns_per_frame']:>8}   {one['xon_bytes']}, {one['xoff_bytes']}"
            )
            if "cpu_ratio" in one:
                line += f"   xoff takes {one['cpu_ratio']} x its CPU time {one['cpu_ratio_interval'] or ''}"
            lines.append(line)
    lines.append(
        "Share of the slow line; CPU time of all threads of the switches for each frame at the sink; medians of rounds."
    )
    return "\n".join(lines)
