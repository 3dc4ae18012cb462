#!/usr/bin/env python3
"""Compares forwarders between two veth pairs, in one run, in turns. See docs/benchmarks.md.

    generator (core 1) -- g1 === s1 -- forwarder (core 0) -- s2 === g2 -- sink: frames are dropped and counted

What a forwarder did is what device g2 has received: a frame that is lost counts for nobody. The sink drops in XDP, or
with `--sink stack` where the kernel's stack finds that a frame is for somebody else. The generator sends as
fast as the kernel takes it, all the time; `generator-limited` leaves the forwarder a whole core, `capped` holds it to
35 % of one, where it is the bottleneck and its cost per frame decides. Frames are UDP over IPv4; of 16 flows each
has stations of its own, and they take turns frame by frame. The mix (64, 594 and 1518 bytes, 7:4:1) always has 16 flows.

--workers N measures xoff with one worker and with N, each capped, with a pair of ports for each of them.
--routed measures xoff as a router beside xoff as a bridge, with a few routes and with 100,000, and other routers.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import bench_scaling  # noqa: E402
from bench_forwarders import XOFF_LIKE_OTHERS, KernelBridge, OpenVswitch, Pair, Testpmd, Xoff, XskRs  # noqa: E402
from bench_routers import KernelRouter, RoutedXoff, RoutingOpenVswitch, address_of  # noqa: E402
import bench_lab  # noqa: E402
from bench_lab import Failures, Lab, await_that, cpu_ns, end, tell, threads  # noqa: E402
from bench_statistics import summary, table  # noqa: E402

MODES = ("generator-limited", "capped")
SIZES = (64, 512, 1518, "imix")
MIX_FLOWS = 16
PEERS = ("testpmd", "ovs_afxdp", "kernel_bridge", "xsk_rs")
# Of devices g1 and g2. Frames are for stations of their own behind them.
ADDRESSES = ("02:00:00:00:00:01", "02:00:00:00:00:02")
CAP = 0.35
WARM_UP_S = 0.3
# A measurement in which the forwarder's share of a core was off by more than this is made again, and the last one counts.
DISTURBED = 0.1
TRIES = 4
FCS, ETHERNET = 4, 14
MIX_MEAN = (7 * 64 + 4 * 594 + 1518) / 12
# A forwarder may lose some lengths more often than others.
MIX_TOLERANCE = 0.05


def cores(pairs):
    """For each pair, the core that forwards and the one that sends; they cross where there are too few for all."""
    own = pairs * 2 <= (os.cpu_count() or 1)
    return [(n, pairs + n if own else (n + 1) % max(pairs, 2)) for n in range(pairs)]


def stations(pair, flows=MIX_FLOWS):
    """Where the flows of a pair's generator go."""
    return [f"02:00:00:00:02:{flow + 1:02x}" for flow in range(pair * MIX_FLOWS, pair * MIX_FLOWS + flows)]


class Bench:
    def __init__(self, lab, options, pairs=1):
        self.lab, self.options = lab, options
        self.cores = cores(pairs)
        self.pairs = [Pair(n + 1, self.cores[n][0], stations(n)) for n in range(pairs)]
        self.forwarder_groups = [lab.group(f"forwarder{n}") for n in range(pairs)]
        self.generator_group = lab.group("generator")

    def turn(self, forwarder, mode, loads, pairs=1):
        """Starts a forwarder, measures it with one load after the other, and yields (load, measurement)."""
        with self.lab.scope():
            pid, tids = self.start(forwarder, mode, self.pairs[:pairs])
            for load in loads:
                yield load, self.measure_undisturbed(pid, tids, load, mode, pairs)

    def start(self, forwarder, mode, pairs):
        """Starts a forwarder between new devices; returns its process and the threads that forward."""
        ends = [f"g{n + 1}" for n in range(2 * len(pairs))]
        for device in ends:  # new ones each time: some forwarders leave programs behind
            self.lab.wire(device, device.replace("g", "s"), ADDRESSES[(int(device[1:]) - 1) % 2])
        for device in ends[1::2] if self.options.sink == "xdp" else []:
            self.lab.start(self.lab.hosts, self.options.bench, "sink", device, ready="ready")
        pid = forwarder.start(self.lab, pairs)
        is_router = getattr(forwarder, "routes_packets", False)
        self.via = address_of(self.lab, pairs[0].one) if is_router else None
        if pid is None:
            return pid, []
        tids = await_that(
            "the forwarder's threads",
            lambda: found if len(found := threads(pid, forwarder.thread)) >= len(pairs) else None,
        )
        for group, tid in zip(self.forwarder_groups, sorted(tids)):
            group.add_thread(pid, tid)
            group.limit(CAP if mode == "capped" else None)
            self.lab.undo.callback(group.limit, None)
        return pid, tids

    def measure_undisturbed(self, pid, tids, load, mode, pairs):
        """Measures again, where the forwarder did not get the share of its cores that it should have."""
        due = pairs * (CAP if mode == "capped" else 1.0)
        for _ in range(TRIES):
            one = self.measure(pid, tids, load, pairs)
            one["disturbed"] = bool(tids) and abs(one["core_share"] / due - 1) > DISTURBED
            if not one["disturbed"]:
                break
        return one

    def measure(self, pid, tids, load, pairs):
        sinks = [f"g{2 * n + 2}" for n in range(pairs)]
        already = {sink: self.lab.devices()[sink].received for sink in sinks}
        generators = [self.generate(n, *load) for n in range(pairs)]
        try:
            await_that(
                "frames at the sink",
                lambda: all(self.lab.devices()[sink].received > already[sink] for sink in sinks),
            )
            time.sleep(WARM_UP_S)
            before = self.look(pid, tids, pairs)
            time.sleep(self.options.seconds)
            after = self.look(pid, tids, pairs)
        finally:
            for generator in generators:
                end(generator)
        seconds, offered, forwarded, forwarded_bytes, ran = (b - a for a, b in zip(before, after))
        return {
            "kpps": forwarded / seconds / 1e3,
            "gbps": forwarded * mean_bytes(load[0], forwarded, forwarded_bytes) * 8 / seconds / 1e9,
            "offered_kpps": offered / seconds / 1e3,
            "core_share": ran / seconds / 1e9,
        }

    def look(self, pid, tids, pairs):
        ran = sum(cpu_ns(pid, tid) for tid in tids)
        now, devices = time.monotonic(), self.lab.devices()
        senders = [devices[f"g{2 * n + 1}"] for n in range(pairs)]
        sinks = [devices[f"g{2 * n + 2}"] for n in range(pairs)]
        return (
            now,
            sum(device.sent for device in senders),
            sum(device.received for device in sinks),
            sum(device.received_bytes for device in sinks),
            ran,
        )

    def generate(self, pair, frame_bytes, flows):
        process = self.lab.start(
            self.lab.hosts, "taskset", "--cpu-list", str(self.cores[pair][1]), self.options.bench, "generate",
            f"g{2 * pair + 1}", "--frame-bytes", str(frame_bytes), "--flows", str(flows),
            "--first", str(pair * MIX_FLOWS), *(("--via", self.via) if self.via else ()), ready="ready",
        )  # fmt: skip
        self.generator_group.add_thread(process.pid, process.pid)
        return process


def mean_bytes(frame_bytes, frames, bytes_):
    """How long frames were that arrived, with FCS: as long as what was sent. Some devices count bytes without Ethernet's
    header: what is shorter by more than half of one is taken to lack it."""
    if not frames:
        return 0
    sent, tolerance = (MIX_MEAN, MIX_MEAN * MIX_TOLERANCE) if frame_bytes == "imix" else (frame_bytes, 1)
    mean = bytes_ / frames + FCS
    if mean < sent - ETHERNET / 2:
        mean += ETHERNET
    if abs(mean - sent) > tolerance:
        raise RuntimeError(f"frames of {sent:.1f} bytes on average were sent, and arrived with {mean:.1f}")
    return mean


def loads(options):
    """(Bytes of a frame, flows)."""
    fixed = [(size, flows) for size in options.sizes if size != "imix" for flows in options.flows]
    return fixed + [("imix", MIX_FLOWS)] * ("imix" in options.sizes)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda text: text.split(",")  # noqa: E731
    sizes = lambda text: [one if one == "imix" else int(one) for one in text.split(",")]  # noqa: E731
    flows = lambda text: [int(one) for one in text.split(",")]  # noqa: E731
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--rounds", type=int, default=5, help="how often everything is measured")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each measurement is")
    parser.add_argument("--sizes", type=sizes, default=list(SIZES), help="frames, bytes with FCS; imix: a mix")
    parser.add_argument("--flows", type=flows, default=[1, MIX_FLOWS], help=f"at most {MIX_FLOWS}")
    parser.add_argument("--modes", type=words, default=list(MODES))
    parser.add_argument("--peers", type=words, default=list(PEERS), help="what xoff is compared with")
    parser.add_argument("--sink", choices=["xdp", "stack"], default="xdp", help="who drops what arrives")
    parser.add_argument("--xoff", default="target/dist/xoff", help="the switch")
    parser.add_argument("--bench", default="target/dist/examples/bench", help="generator, sink, loop on xsk-rs")
    parser.add_argument("--also", action="append", default=[], metavar="NAME=BINARY",
                        help="a further xoff, to compare versions with each other")  # fmt: skip
    parser.add_argument("--routed", action="store_true", help="routers, beside xoff as a bridge")
    parser.add_argument("--workers", type=int, default=1, help="more than one: how xoff scales, without peers")
    parser.add_argument("--patience", type=float, default=bench_lab.PATIENCE_S,
                        help="seconds until a forwarder that does not start, or forwards nothing, has failed [%(default)s]")  # fmt: skip
    options = parser.parse_args()
    options.xoff, options.bench = (str(Path(path).resolve()) for path in (options.xoff, options.bench))
    for what, known in (("modes", MODES), ("peers", PEERS)):
        for given in getattr(options, what):
            if given not in known:
                parser.error(f"--{what} knows no {given}; take some of {','.join(known)}")
    if not all(1 <= flows <= MIX_FLOWS for flows in options.flows):
        parser.error(f"--flows takes numbers from 1 to {MIX_FLOWS}")
    return options


def main():
    options = arguments()
    bench_lab.PATIENCE_S = options.patience
    if options.workers > 1:
        with Lab() as lab:
            bench_scaling.measure(Bench(lab, options, options.workers), options, loads(options))
        return
    [(_, main_core)] = cores(1)
    peers = {
        "testpmd": lambda: Testpmd(main_core),
        "ovs_afxdp": OpenVswitch,
        "kernel_bridge": KernelBridge,
        "xsk_rs": lambda: XskRs(options.bench),
    }
    forwarders = {"xoff": Xoff(options.xoff, XOFF_LIKE_OTHERS)}
    for name, path in (one.split("=", 1) for one in options.also):
        forwarders[name] = Xoff(str(Path(path).resolve()), XOFF_LIKE_OTHERS)
    if options.routed:
        forwarders["xoff_routed"] = RoutedXoff(options.xoff, XOFF_LIKE_OTHERS)
        forwarders["xoff_100k_routes"] = RoutedXoff(options.xoff, XOFF_LIKE_OTHERS, 100_000)
        forwarders |= {"kernel_router": KernelRouter(), "ovs_router": RoutingOpenVswitch()}
    else:
        forwarders |= {name: peers[name]() for name in options.peers}
    names, measured, failures = list(forwarders), {}, Failures()
    with Lab() as lab:
        bench = Bench(lab, options)
        for round_ in range(options.rounds):
            for mode in options.modes:
                # Another one begins each time.
                first = round_ % len(names)
                for name in names[first:] + names[:first]:
                    if mode == "capped" and forwarders[name].thread is None:
                        continue  # there is nothing to hold to a share of a core
                    with failures.caught(f"round {round_ + 1} {mode} {name}"):
                        for (size, flows), one in bench.turn(forwarders[name], mode, loads(options)):
                            measured.setdefault(((mode, size, flows), name), {})[round_] = one
                            tell(f"round {round_ + 1} {mode:<17} {size:>5} {flows:>2} {name:<14} {one['kpps']:8.1f} kpps"
                                 f"  of {one['offered_kpps']:7.1f}, {one['core_share']:.2f} of a core")  # fmt: skip
    cases = [(mode, *load) for mode in options.modes for load in loads(options)]
    runs = summary(measured, cases, names)
    print(json.dumps({"runs": runs, "failures": failures.all}) if options.json else table(runs, names))
    failures.exit()


if __name__ == "__main__":
    main()
