#!/usr/bin/env python3
"""What forwarding costs at a steady load, and what it adds to a frame's way. See docs/benchmarks.md.

    sender (core 1) -- g1 === s1 -- forwarder (core 0) -- s2 === g2 -- the kernel notes when each frame came

The same is measured over a plain veth, with nobody in between: what a forwarder adds is what is more. Beside it stands how
long a process takes to run that sleeps on core 0 and is woken at that rate, without any frame: who sleeps pays that.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from bench_forwarders import XOFF_BY_DEFAULT, KernelBridge, OpenVswitch, Pair, Xoff  # noqa: E402
from bench_lab import Failures, Lab, run, tell  # noqa: E402

FORWARDER_CORE, SENDER_CORE = 0, 1
SENDER, NOBODY, SINK = "02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:02:01"
SETTLE_S = 0.5
WIRE, WAKE = "wire", "wake"


class Bench:
    def __init__(self, lab, options):
        self.lab, self.options = lab, options

    def wake(self):
        """Measures how soon a process wakes, at one rate after the other; yields (kpps, measurement)."""
        for rate in self.options.kpps:
            yield rate, self.probe(rate, "--wake", str(FORWARDER_CORE))

    def turn(self, forwarder):
        """Starts a forwarder (`None`: a plain veth), measures it at one rate after the other; yields (kpps, measurement)."""
        with self.lab.scope():
            pid = None
            if forwarder is None:
                self.lab.wire_hosts("g1", "g2", SENDER, NOBODY)
            else:
                self.lab.wire("g1", "s1", SENDER)  # new ones each time: some forwarders leave programs behind
                self.lab.wire("g2", "s2", NOBODY)
                pid = forwarder.start(self.lab, [Pair(1, FORWARDER_CORE, [SINK])])
                time.sleep(SETTLE_S)
            for rate in self.options.kpps:
                yield rate, self.measure(pid, rate)

    def measure(self, pid, kpps):
        return self.probe(
            kpps, "--source", "g1", "--sink", "g2", "--src", SENDER, "--dst", SINK, "--size", str(self.options.size),
            *([] if pid is None else ["--watch", str(pid)]),
        )  # fmt: skip

    def probe(self, kpps, *arguments):
        probe = run(
            "ip", "netns", "exec", self.lab.hosts, sys.executable, str(Path(__file__).with_name("bench_probe.py")),
            "--rate", str(kpps * 1e3), "--seconds", str(self.options.seconds), "--gaps", self.options.gaps,
            "--core", str(SENDER_CORE), *arguments,
        )  # fmt: skip
        one = json.loads(probe)
        delays = sorted(one.pop("delays"))
        if not delays:
            raise RuntimeError(f"none of {one['sent']} frames arrived")
        one["lost"] = one["sent"] - len(delays)
        one["p50_us"], one["p99_us"] = (percentile(delays, share) / 1e3 for share in (0.5, 0.99))
        return one


def percentile(ordered, share):
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def summary(measured, options, names):
    """`measured[name, kpps]` is a list of measurements, one for each round that did not fail; medians, of which the plain
    veth's are taken off where something is said to be added. Frames are those of all rounds. A rate at which the plain veth
    or the waking process was never measured is left out, as is a forwarder at a rate at which it always failed."""

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
            run_[name] = rounded({
                "core_share": median(name, kpps, "core_share"),
                "sender_core_share_added": median(name, kpps, "sending") - wire["sending"],
                "p50_added_us": median(name, kpps, "p50_us") - wire["p50_us"],
                "p99_added_us": median(name, kpps, "p99_us") - wire["p99_us"],
                "kpps": median(name, kpps, "kpps"),
            }) | frames(name, kpps) | {"p50_added_us_range": p50_range(name, kpps, wire["p50_us"])}  # fmt: skip
        runs.append(run_)
    return runs


def rounded(numbers):
    return {key: round(value, 4) for key, value in numbers.items()}


def table(runs, names):
    lines = [f"{'kpps':>6}  {'':<14} {'sent':>6}   {'core  (sender)':>16} {'p50 us':>8}  {'(rounds)':<15} {'p99 us':>9}"]
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
    lines.append("kpps that were to be sent, and were; share of a core that all threads of the forwarder took; (what the sender's core paid")
    lines.append(f"more for sending than over a plain veth); delay of the frames that arrived: of the {WIRE}, a plain veth, and what a")
    lines.append(f"forwarder adds to that; {WAKE}: until a process runs that sleeps on the forwarder's core and is woken at that rate.")
    lines.append("Medians of rounds, with the least and the most of the rounds' p50; losses are of all rounds.")
    return "\n".join(lines)


def between(ends):
    return "({:.1f} to {:.1f})".format(*ends)


def losses(of):
    return f"  LOST {of['lost']} of {of['sent']}" if of["lost"] else ""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    number_list = lambda text: [float(one) for one in text.split(",")]  # noqa: E731
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--rounds", type=int, default=3, help="how often everything is measured")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each measurement is")
    parser.add_argument("--kpps", type=number_list, default=[0.1, 0.8, 1.0, 8.0, 10.0, 100.0], help="thousands of frames a second")
    parser.add_argument("--size", type=int, default=64, help="frames, bytes with FCS")
    parser.add_argument("--gaps", choices=["even", "random"], default="even", help="between frames; random: exponential")
    parser.add_argument("--peers", type=lambda text: [one for one in text.split(",") if one],
                        default=["kernel_bridge", "ovs_afxdp"], help="what xoff is compared with; also xoff_busy")  # fmt: skip
    parser.add_argument("--xoff", default="target/dist/xoff", help="the binary")
    parser.add_argument("--also", action="append", default=[], metavar="NAME=BINARY",
                        help="a further xoff, to compare versions with each other")  # fmt: skip
    options = parser.parse_args()
    options.xoff = str(Path(options.xoff).resolve())
    return options


def main():
    options = arguments()
    peers = {"kernel_bridge": KernelBridge, "ovs_afxdp": OpenVswitch,
             "xoff_busy": lambda: Xoff(options.xoff, 'poll = "busy"' + XOFF_BY_DEFAULT)}  # fmt: skip
    forwarders = {"xoff": Xoff(options.xoff, XOFF_BY_DEFAULT)}
    for name, path in (one.split("=", 1) for one in options.also):
        forwarders[name] = Xoff(str(Path(path).resolve()), XOFF_BY_DEFAULT)
    forwarders |= {name: peers[name]() for name in options.peers}
    measured, failures = {}, Failures()
    with Lab() as lab:
        bench = Bench(lab, options)
        for round_ in range(options.rounds):
            for name, forwarder in [(WAKE, None), (WIRE, None), *forwarders.items()]:
                turn = bench.wake() if name == WAKE else bench.turn(forwarder)
                with failures.caught(f"round {round_ + 1} {name}"):
                    for kpps, one in turn:
                        measured.setdefault((name, kpps), []).append(one)
                        tell(f"round {round_ + 1} {kpps:>6} kpps {name:<14} {one['core_share']:6.1%} of a core, "
                             f"{one['p50_us']:7.1f} / {one['p99_us']:7.1f} us, sending {one['sending']:6.1%}, "
                             f"lost {one['lost']}, {one['kpps']:.2f} kpps")  # fmt: skip
    runs = summary(measured, options, list(forwarders))
    taken = {"rounds": options.rounds, "seconds": options.seconds, "runs": runs, "failures": failures.all}
    print(json.dumps(taken) if options.json else table(runs, list(forwarders)))
    failures.exit()


if __name__ == "__main__":
    main()
