"""Measures what forwarding costs at a steady load, and the delay that it adds to frames, for xoff, Open vSwitch and the
kernel bridge: about five minutes.

    sender (core 1) -- g1 === s1 -- forwarder (core 0) -- s2 === g2 -- the kernel stamps each frame that arrives

The same is measured over a plain veth without a forwarder; the difference is what a forwarder adds. Beside it stands
the delay until a process runs that sleeps on core 0 and is woken at that rate, without any frame: a forwarder that
sleeps has that delay."""

import json
import statistics
import sys
import time

from benchmarks import arguments, build
from benchmarks.forwarders import XOFF_BY_DEFAULT, KernelBridge, OpenVswitch, Pair, Xoff
from benchmarks.lab import Lab
from benchmarks.process import log, run
from benchmarks.rounds import Failures, turns

SUMMARY = "Measure CPU time and added delay at steady loads"
ROOT_FOR = "network namespaces and AF_XDP sockets"
PEERS = ("kernel_bridge", "ovs_afxdp", "xoff_busy")
FORWARDER_CORE, SENDER_CORE = 0, 1
SENDER, NOBODY, SINK = "02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:02:01"
SETTLE_S = 0.5
WIRE, WAKE = "wire", "wake"


def add_arguments(parser):
    arguments.add_json(parser)
    arguments.add_rounds(parser, 3)
    arguments.add_seconds(parser, 2.0)
    parser.add_argument(
        "--kpps",
        type=arguments.list_of(arguments.positive(float)),
        default="0.1,0.8,1,8,10,100",
        metavar="LIST",
        help="thousands of frames a second [%(default)s]",
    )
    arguments.add_size(parser, 64)
    parser.add_argument(
        "--gaps",
        choices=["even", "random"],
        default="even",
        help="gaps between frames; random: exponential [%(default)s]",
    )
    parser.add_argument(
        "--peers",
        type=arguments.choice_of(PEERS),
        default=",".join(PEERS[:2]),
        metavar="LIST",
        help=f"the other forwarders, of {','.join(PEERS)} [%(default)s]",
    )
    arguments.add_xoff(parser)
    arguments.add_also(parser)


class Bench:
    def __init__(self, lab, options):
        self.lab, self.options = lab, options

    def wake(self):
        """Yields (kpps, measurement) of a process's wake-up delay for each rate."""
        for rate in self.options.kpps:
            yield rate, self.probe(rate, "--wake", str(FORWARDER_CORE))

    def turn(self, forwarder):
        """Starts a forwarder, or a plain veth for `None`, and yields (kpps, measurement) for each rate."""
        with self.lab.scope():
            pid = None
            if forwarder is None:
                self.lab.wire_hosts("g1", "g2", SENDER, NOBODY)
            else:
                self.lab.wire("g1", "s1", SENDER)  # new ones, because some forwarders leave programs behind
                self.lab.wire("g2", "s2", NOBODY)
                pid = forwarder.start(self.lab, [Pair(1, FORWARDER_CORE, [SINK])])
                time.sleep(SETTLE_S)
            for rate in self.options.kpps:
                yield rate, self.measure(pid, rate)

    def measure(self, pid, kpps):
        ends = ["--source", "g1", "--sink", "g2", "--src", SENDER, "--dst", SINK]
        watch = [] if pid is None else ["--watch", str(pid)]
        return self.probe(kpps, *ends, "--size", str(self.options.size), *watch)

    def probe(self, kpps, *arguments):
        command = ["ip", "netns", "exec", self.lab.hosts, "env", f"PYTHONPATH={build.SCRIPTS}"]
        command += [sys.executable, "-B", "-m", "benchmarks.probe", "--core", str(SENDER_CORE)]
        command += ["--rate", str(kpps * 1e3), "--seconds", str(self.options.seconds), "--gaps", self.options.gaps]
        one = json.loads(run(*command, *arguments, timeout_s=60 + self.options.seconds))
        delays = sorted(one.pop("delays"))
        if not delays:
            raise RuntimeError(f"none of {one['sent']} frames arrived")
        one["lost"] = one["sent"] - len(delays)
        one["p50_us"], one["p99_us"] = (percentile(delays, share) / 1e3 for share in (0.5, 0.99))
        return one


def percentile(ordered, share):
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def summary(measured, options, names):
    """Returns the medians by rate; a forwarder's added delay is the difference to the plain veth's median.

    `measured[name, kpps]` lists the measurements of successful rounds. Frames are the sum over all rounds. Rates
    without a measurement of the plain veth or the waking process are left out, as are forwarders at rates at which
    they always failed.
    """

    def median(name, kpps, key):
        return statistics.median(one[key] for one in measured[name, kpps])

    def p50_range(name, kpps, less=0.0):
        ordered = sorted(one["p50_us"] - less for one in measured[name, kpps])
        return [round(ordered[at], 4) for at in (0, -1)]

    def frames(name, kpps):
        return {key: sum(one[key] for one in measured[name, kpps]) for key in ("sent", "lost")}

    runs = []
    for kpps in options.kpps:
        if not all((name, kpps) in measured for name in (WIRE, WAKE)):
            continue
        wire = {key: median(WIRE, kpps, key) for key in ("p50_us", "p99_us", "sending", "kpps")}
        run_ = {"kpps": kpps, "frame_bytes": options.size, "gaps": options.gaps}
        run_[WIRE] = rounded(wire) | frames(WIRE, kpps)
        wake = {key: median(WAKE, kpps, key) for key in ("p50_us", "p99_us", "kpps")}
        run_[WAKE] = rounded(wake) | {"p50_us_range": p50_range(WAKE, kpps)}
        for name in (name for name in names if (name, kpps) in measured):
            medians = {
                "core_share": median(name, kpps, "core_share"),
                "sender_core_share_added": median(name, kpps, "sending") - wire["sending"],
                "p50_added_us": median(name, kpps, "p50_us") - wire["p50_us"],
                "p99_added_us": median(name, kpps, "p99_us") - wire["p99_us"],
                "kpps": median(name, kpps, "kpps"),
            }
            added = {"p50_added_us_range": p50_range(name, kpps, wire["p50_us"])}
            run_[name] = rounded(medians) | frames(name, kpps) | added
        runs.append(run_)
    return runs


def rounded(numbers):
    return {key: round(value, 4) for key, value in numbers.items()}


def table(runs, names):
    lines = [
        f"{'kpps':>6}  {'':<14} {'sent':>6}   {'core  (sender)':>16} {'p50 us':>8}  {'(rounds)':<15} {'p99 us':>9}"
    ]
    for one in runs:
        wire = one[WIRE]
        lines.append(
            f"{one['kpps']:>6}  {WIRE:<14} {wire['kpps']:>6.4g}   {'':>16}"
            f" {wire['p50_us']:8.1f}  {'':<15} {wire['p99_us']:9.1f}{losses(wire)}"
        )
        wake = one[WAKE]
        lines.append(
            f"{'':>6}  {WAKE:<14} {wake['kpps']:>6.4g}   {'':>16}"
            f" {wake['p50_us']:8.1f}  {between(wake['p50_us_range']):<15} {wake['p99_us']:9.1f}"
        )
        for name in (name for name in names if name in one):
            of = one[name]
            lines.append(
                f"{'':>6}  {name:<14} {of['kpps']:>6.4g}   {of['core_share']:6.1%}  ({of['sender_core_share_added']:6.1%})"
                f" {of['p50_added_us']:8.1f}  {between(of['p50_added_us_range']):<15} {of['p99_added_us']:9.1f}{losses(of)}"
            )
    lines.append(
        "kpps that were to be sent, and were; share of a core of all threads of the forwarder; (further share of the"
    )
    lines.append(
        f"sender's core, compared with a plain veth); delay of the frames that arrived: of the {WIRE}, a plain veth, and"
    )
    lines.append(
        f"what a forwarder adds to that; {WAKE}: delay until a process runs that sleeps on the forwarder's core and is"
    )
    lines.append(
        "woken at that rate. Medians of rounds, with the minimum and maximum of the rounds' p50; losses of all rounds."
    )
    return "\n".join(lines)


def between(ends):
    return "({:.1f} to {:.1f})".format(*ends)


def losses(of):
    return f"  LOST {of['lost']} of {of['sent']}" if of["lost"] else ""


def main(options):
    options.xoff = build.xoff(options)
    peers = {
        "kernel_bridge": KernelBridge(),
        "ovs_afxdp": OpenVswitch(),
        "xoff_busy": Xoff(options.xoff, 'poll = "busy"' + XOFF_BY_DEFAULT),
    }
    forwarders = {"xoff": Xoff(options.xoff, XOFF_BY_DEFAULT)}
    forwarders |= {name: Xoff(path, XOFF_BY_DEFAULT) for name, path in options.also}
    forwarders |= {name: peers[name] for name in options.peers}
    measured, failures = {}, Failures()
    with Lab() as lab:
        bench = Bench(lab, options)
        for round_, _, name in turns(options.rounds, [WAKE, WIRE, *forwarders]):
            turn = bench.wake() if name == WAKE else bench.turn(forwarders.get(name))
            with failures.caught(f"round {round_ + 1} {name}"):
                for kpps, one in turn:
                    measured.setdefault((name, kpps), []).append(one)
                    log(
                        f"round {round_ + 1} {kpps:>6} kpps {name:<14} {one['core_share']:6.1%} of a core,"
                        f" {one['p50_us']:7.1f} / {one['p99_us']:7.1f} us, sending {one['sending']:6.1%},"
                        f" lost {one['lost']}, {one['kpps']:.2f} kpps"
                    )
    runs = summary(measured, options, list(forwarders))
    result = {"rounds": options.rounds, "seconds": options.seconds, "runs": runs, "failures": failures.all}
    print(json.dumps(result) if options.json else table(runs, list(forwarders)))
    return failures.exit_status()
