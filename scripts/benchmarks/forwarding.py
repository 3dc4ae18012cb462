"""The test bed of `forward`, `routers` and `scaling`: a generator, a forwarder and a sink for each pair of ports.

    generator (core 1) -- g1 === s1 -- forwarder (core 0) -- s2 === g2 -- sink: frames are dropped and counted

The result counts the frames received by device g2. The generator always sends as fast as the kernel accepts frames.
Frames are UDP over IPv4; each of 16 flows has its own stations, and flows alternate frame by frame. The mix (64, 594
and 1518 bytes, 7:4:1) always has 16 flows.
"""

import argparse
import os
import time

from benchmarks import arguments, build
from benchmarks.forwarders import Pair
from benchmarks.lab import PATIENCE_S
from benchmarks.process import cpu_ns, stop, threads

ROOT_FOR = "network namespaces, control groups and AF_XDP sockets"
MODES = ("generator-limited", "capped")
SIZES = (64, 512, 1518, "imix")
MIX_FLOWS = 16
# MAC addresses of devices g1 and g2; frames are for other stations behind them.
ADDRESSES = ("02:00:00:00:00:01", "02:00:00:00:00:02")
CAP = 0.35
WARM_UP_S = 0.3
# Maximum deviation of the forwarder's share of a core; a larger one repeats the measurement, and the last counts.
DISTURBED = 0.1
TRIES = 4
FCS, ETHERNET = 4, 14
MIX_MEAN = (7 * 64 + 4 * 594 + 1518) / 12
# A forwarder may lose frames of some lengths more often.
MIX_TOLERANCE = 0.05


def add_arguments(parser):
    arguments.add_json(parser)
    arguments.add_rounds(parser, 5)
    arguments.add_seconds(parser, 1.0)
    parser.add_argument(
        "--sizes",
        type=arguments.list_of(frame_size),
        default=",".join(map(str, SIZES)),
        metavar="LIST",
        help="frames, bytes with FCS; imix: a mix [%(default)s]",
    )
    parser.add_argument(
        "--flows",
        type=arguments.list_of(flow_count),
        default=f"1,{MIX_FLOWS}",
        metavar="LIST",
        help=f"flows of a load, at most {MIX_FLOWS} [%(default)s]",
    )
    parser.add_argument(
        "--sink", choices=["xdp", "stack"], default="xdp", help="where arriving frames are dropped [%(default)s]"
    )
    parser.add_argument(
        "--patience",
        type=arguments.positive(float),
        default=PATIENCE_S,
        metavar="S",
        help="seconds until a forwarder that does not start, or forwards nothing, has failed [%(default)s]",
    )
    parser.add_argument(
        "--generator",
        type=arguments.binary,
        metavar="BINARY",
        help="generator, sink and loop on xsk-rs [built from xdp/peer]",
    )


def add_modes(parser):
    parser.add_argument(
        "--modes",
        type=arguments.list_of(arguments.one_of(MODES)),
        default=",".join(MODES),
        metavar="LIST",
        help=f"generator-limited: forwarders have a whole core; capped: {CAP:.0%}% of one [%(default)s]",
    )


def frame_size(text):
    return text if text == "imix" else arguments.positive(int)(text)


def flow_count(text):
    count = arguments.positive(int)(text)
    if count > MIX_FLOWS:
        raise argparse.ArgumentTypeError(f"{count} flows are too many; take {MIX_FLOWS} at most")
    return count


def build_programs(options):
    """Builds the switch and the generator, and stores their paths in the options."""
    options.xoff = build.xoff(options)
    build_generator(options)


def build_generator(options):
    """Builds the generator, and stores its path in the options."""
    options.generator = options.generator or build.generator()


def cores(pairs):
    """Returns each pair's forwarding and sending core; with too few cores pairs share them crosswise."""
    own = pairs * 2 <= (os.cpu_count() or 1)
    return [(n, pairs + n if own else (n + 1) % max(pairs, 2)) for n in range(pairs)]


def stations(pair, flows=MIX_FLOWS):
    """Returns the destinations of the flows of a pair's generator."""
    return [f"02:00:00:00:02:{flow + 1:02x}" for flow in range(pair * MIX_FLOWS, pair * MIX_FLOWS + flows)]


def loads(options):
    """Returns the loads as (bytes of a frame, flows)."""
    fixed = [(size, flows) for size in options.sizes if size != "imix" for flows in options.flows]
    return fixed + [("imix", MIX_FLOWS)] * ("imix" in options.sizes)


class Bed:
    """Measures forwarders in a lab."""

    def __init__(self, lab, options, pairs=1):
        self.lab, self.options = lab, options
        self.cores = cores(pairs)
        self.pairs = [Pair(n + 1, self.cores[n][0], stations(n)) for n in range(pairs)]
        self.forwarder_groups = [lab.group(f"forwarder{n}") for n in range(pairs)]
        self.generator_group = lab.group("generator")

    def turn(self, forwarder, mode, pairs=1):
        """Starts a forwarder, and yields (load, measurement) for each load."""
        with self.lab.scope():
            pid, tids = self.start(forwarder, mode, self.pairs[:pairs])
            for load in loads(self.options):
                yield load, self.measure_undisturbed(pid, tids, load, mode, pairs)

    def start(self, forwarder, mode, pairs):
        """Starts a forwarder between new devices; returns its process and forwarding threads."""
        ends = [f"g{n + 1}" for n in range(2 * len(pairs))]
        for device in ends:  # new ones, because some forwarders leave programs behind
            self.lab.wire(device, device.replace("g", "s"), ADDRESSES[(int(device[1:]) - 1) % 2])
        for device in ends[1::2] if self.options.sink == "xdp" else []:
            self.lab.start(self.lab.hosts, self.options.generator, "sink", device, ready="ready")
        pid = forwarder.start(self.lab, pairs)
        self.via = self.lab.mac_address(self.lab.switch, pairs[0].one) if forwarder.routes_packets else None
        if pid is None:
            return pid, []
        tids = self.lab.wait_for(
            "the forwarder's threads",
            lambda: found if len(found := threads(pid, forwarder.thread)) >= len(pairs) else None,
        )
        for group, tid in zip(self.forwarder_groups, sorted(tids), strict=False):
            group.add_thread(pid, tid)
            group.limit(CAP if mode == "capped" else None)
            self.lab.undo.callback(group.limit, None)
        return pid, tids

    def measure_undisturbed(self, pid, tids, load, mode, pairs):
        """Measures, and repeats if the forwarder did not get its share of the cores."""
        due = pairs * (CAP if mode == "capped" else 1.0)
        for _ in range(TRIES):
            measurement = self.measure(pid, tids, load, pairs)
            measurement["disturbed"] = bool(tids) and abs(measurement["core_share"] / due - 1) > DISTURBED
            if not measurement["disturbed"]:
                break
        return measurement

    def measure(self, pid, tids, load, pairs):
        sinks = [f"g{2 * n + 2}" for n in range(pairs)]
        before = {sink: self.lab.devices()[sink].received for sink in sinks}
        generators = [self.generate(n, *load) for n in range(pairs)]
        try:
            self.lab.wait_for(
                "frames at the sink",
                lambda: all(self.lab.devices()[sink].received > before[sink] for sink in sinks),
            )
            time.sleep(WARM_UP_S)
            start = self.counters(pid, tids, pairs)
            time.sleep(self.options.seconds)
            end = self.counters(pid, tids, pairs)
        finally:
            for generator in generators:
                stop(generator)
        seconds, offered, forwarded, forwarded_bytes, cpu = (b - a for a, b in zip(start, end, strict=True))
        return {
            "kpps": forwarded / seconds / 1e3,
            "gbps": forwarded * mean_bytes(load[0], forwarded, forwarded_bytes) * 8 / seconds / 1e9,
            "offered_kpps": offered / seconds / 1e3,
            "core_share": cpu / seconds / 1e9,
        }

    def counters(self, pid, tids, pairs):
        """Returns seconds, frames sent, frames and bytes received, and the CPU time of the forwarder."""
        cpu = cpu_ns(pid, tids)
        now, devices = time.monotonic(), self.lab.devices()
        senders = [devices[f"g{2 * n + 1}"] for n in range(pairs)]
        sinks = [devices[f"g{2 * n + 2}"] for n in range(pairs)]
        return (
            now,
            sum(device.sent for device in senders),
            sum(device.received for device in sinks),
            sum(device.received_bytes for device in sinks),
            cpu,
        )

    def generate(self, pair, frame_bytes, flows):
        command = [
            "taskset",
            "--cpu-list",
            str(self.cores[pair][1]),
            self.options.generator,
            "generate",
            f"g{2 * pair + 1}",
        ]
        command += ["--frame-bytes", str(frame_bytes), "--flows", str(flows), "--first", str(pair * MIX_FLOWS)]
        command += ["--via", self.via] if self.via else []
        process = self.lab.start(self.lab.hosts, *command, ready="ready")
        self.generator_group.add_thread(process.pid, process.pid)
        return process


def mean_bytes(frame_bytes, frames, total_bytes):
    """Returns the mean length of received frames with FCS, and checks it against the sent frames.

    Some devices do not count the Ethernet header: a mean too short by more than half of one lacks it.
    """
    if not frames:
        return 0
    sent, tolerance = (MIX_MEAN, MIX_MEAN * MIX_TOLERANCE) if frame_bytes == "imix" else (frame_bytes, 1)
    mean = total_bytes / frames + FCS
    if mean < sent - ETHERNET / 2:
        mean += ETHERNET
    if abs(mean - sent) > tolerance:
        raise RuntimeError(f"frames of {sent:.1f} bytes on average were sent, and arrived with {mean:.1f}")
    return mean
