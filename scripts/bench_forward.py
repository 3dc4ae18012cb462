#!/usr/bin/env python3
"""Compares forwarders between two veth pairs, in one run, in turns. See docs/benchmarks.md.

    generator (core 1) -- g1 === s1 -- forwarder (core 0) -- s2 === g2 -- nobody: frames are counted

What a forwarder did is what device g2 has received. The generator sends as fast as it can, all the
time; `generator-limited` leaves the forwarder a whole core, `capped` holds it to 35 % of one, where it is the
bottleneck and its cost per frame decides.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from bench_lab import Lab, await_that, cpu_ns, end, run, tell, threads  # noqa: E402

FORWARDER_CORE, GENERATOR_CORE = 0, 1
SENDER, SINK = "02:00:00:00:00:01", "02:00:00:00:00:02"
NOBODY = "02:00:00:00:00:03"  # so that the stack behind g2 takes no interest in frames for SINK
CAP = 0.35
WARM_UP_S = 0.3
# A measurement in which the forwarder's share of a core was off by more than this is made again.
DISTURBED = 0.1
TRIES = 4

XOFF_CONFIG = """
[switch]
http = false
log = "info"
poll = "busy"
stall_budget = "50us"  # rings of 2048 frames, as the others have them
workers = [{{ core = {core}, ports = ["one", "two"] }}]

[defaults]
speed = "10G"

[[port]]
name = "one"
device = "s1"

[[port]]
name = "two"
device = "s2"

[[fdb.static]]
mac = "{sink}"
port = "two"
"""


class Xoff:
    """A switch with everything on: bridging, eight queues a port, PFC for class 3."""

    thread = "^xoff-worker"

    def __init__(self, binary):
        self.binary = binary

    def start(self, lab):
        config = lab.directory / "xoff.toml"
        config.write_text(XOFF_CONFIG.format(core=FORWARDER_CORE, sink=SINK))
        self.process = lab.start(lab.switch, self.binary, "run", "--config", str(config), ready="running")
        return self.process.pid

    def stop(self, lab):
        end(self.process)


class Testpmd:
    """DPDK's example forwarder: from one port to the other, whatever it is."""

    thread = "^(dpdk|rte)-worker|^lcore-worker"

    def start(self, lab):
        ports = [f"--vdev=net_af_xdp{n},iface=s{n + 1}" for n in (0, 1)]
        self.process = lab.start(
            lab.switch, "dpdk-testpmd", "--no-huge", "-m", "512", "--no-pci", "--file-prefix", lab.tag,
            "-l", f"{FORWARDER_CORE},{GENERATOR_CORE}", "--main-lcore", str(GENERATOR_CORE), *ports, "--",
            "--forward-mode=io", "--nb-cores=1", "--auto-start", "--stats-period=3600",
            "--total-num-mbufs=16384", ready="packet forwarding - ports=2",
        )  # fmt: skip
        return self.process.pid

    def stop(self, lab):
        end(self.process)


class OpenVswitch:
    """A learning bridge of the userspace datapath; a daemon and a database of its own."""

    thread = "^pmd"

    def start(self, lab):
        home = lab.directory / "ovs"
        home.mkdir(exist_ok=True)
        for old in home.iterdir():
            old.unlink()
        env = {f"OVS_{name}": str(home) for name in ("RUNDIR", "LOGDIR", "DBDIR", "SYSCONFDIR")}
        database, remote, self.control = home / "conf.db", home / "db.sock", str(home / "ctl")
        run("ovsdb-tool", "create", str(database), "/usr/share/openvswitch/vswitch.ovsschema")
        self.database = lab.start(
            lab.switch, "ovsdb-server", str(database), f"--remote=punix:{remote}",
            f"--unixctl={home / 'db.ctl'}", "--no-chdir", env=env,
        )  # fmt: skip
        await_that("ovsdb-server", remote.exists)

        def vsctl(*command):
            run("ovs-vsctl", f"--db=unix:{remote}", *command)

        vsctl("--no-wait", "init")
        vsctl("--no-wait", "set", "Open_vSwitch", ".", f"other_config:pmd-cpu-mask={1 << FORWARDER_CORE:#x}")
        self.process = lab.start(
            lab.switch, "ovs-vswitchd", f"unix:{remote}", f"--unixctl={self.control}", "--no-chdir", env=env
        )
        vsctl("--timeout=15", "add-br", "br-ovs", "--", "set", "bridge", "br-ovs", "datapath_type=netdev")
        for port in ("s1", "s2"):
            vsctl("--timeout=15", "add-port", "br-ovs", port, "--", "set", "interface", port, "type=afxdp")
        run("ovs-appctl", "-t", self.control, "fdb/add", "br-ovs", "s2", "0", SINK)
        return self.process.pid

    def stop(self, lab):
        run("ovs-appctl", "-t", self.control, "exit", "--cleanup")
        end(self.process)
        end(self.database)


class KernelBridge:
    """The kernel's bridge: its work is done in the sender's context, on the sender's core."""

    thread = None

    def start(self, lab):
        ip = ("ip", "-n", lab.switch, "link")
        run(*ip, "add", "br-kernel", "type", "bridge")
        for port in ("s1", "s2"):
            run(*ip, "set", port, "master", "br-kernel")
        run("bridge", "-n", lab.switch, "fdb", "replace", SINK, "dev", "s2", "master", "static")
        run(*ip, "set", "br-kernel", "up")

    def stop(self, lab):
        run("ip", "-n", lab.switch, "link", "del", "br-kernel")


class Bench:
    def __init__(self, lab, options):
        self.lab, self.options = lab, options
        self.forwarder_group, self.generator_group = lab.group("forwarder"), lab.group("generator")

    def turn(self, forwarder, mode):
        """Starts a forwarder, and measures it with every size of frame: {size: (kpps, share of a core)}."""
        self.lab.wire("g1", "s1", SENDER)  # new ones each time: some forwarders leave programs behind
        self.lab.wire("g2", "s2", NOBODY)
        pid = forwarder.start(self.lab)
        try:
            tid = None
            if pid is not None:
                found = await_that("the forwarder's thread", lambda: threads(pid, forwarder.thread))
                tid = found[0]
                self.forwarder_group.add_thread(pid, tid)
            self.forwarder_group.limit(CAP if mode == "capped" else None)
            return {size: self.measure_undisturbed(pid, tid, size, mode) for size in self.options.sizes}
        finally:
            self.forwarder_group.limit(None)
            forwarder.stop(self.lab)
            self.lab.unwire("g1")
            self.lab.unwire("g2")

    def measure_undisturbed(self, pid, tid, size, mode):
        """Measures again, where the forwarder did not get the share of its core that it should have."""
        due = CAP if mode == "capped" else 1.0
        for _ in range(TRIES):
            one = self.measure(pid, tid, size)
            if tid is None or abs(one["core_share"] / due - 1) <= DISTURBED:
                break
        return one

    def measure(self, pid, tid, size):
        generator = self.generate(size)
        try:
            already, _ = self.lab.devices()["g2"]
            await_that("frames at the sink", lambda: self.lab.devices()["g2"][0] > already)
            time.sleep(WARM_UP_S)
            before = self.look(pid, tid)
            time.sleep(self.options.seconds)
            after = self.look(pid, tid)
        finally:
            end(generator)
        seconds, offered, forwarded, ran = (b - a for a, b in zip(before, after))
        return {
            "kpps": forwarded / seconds / 1e3,
            "offered_kpps": offered / seconds / 1e3,
            "core_share": ran / seconds / 1e9,
        }

    def look(self, pid, tid):
        ran = 0 if tid is None else cpu_ns(pid, tid)
        devices = self.lab.devices()
        return time.monotonic(), devices["g1"][1], devices["g2"][0], ran

    def generate(self, size):
        process = self.lab.start(
            self.lab.hosts, "taskset", "--cpu-list", str(GENERATOR_CORE), self.options.xoff, "traffic",
            "--device", "g1", "--line", "100G", "--busy", "--no-announce", "--ignore-pause",
            "--duration", "60s", "--stream", f"dst={SINK},size={size}", ready="ready on",
        )  # fmt: skip
        self.generator_group.add_thread(process.pid, process.pid)
        return process


def spread(numbers):
    """(max - min) / median."""
    middle = statistics.median(numbers)
    return (max(numbers) - min(numbers)) / middle if middle else 0.0


def summary(measured, sizes, modes, names):
    """`measured[mode, size, name]` is a list of measurements, one for each round."""
    runs = []
    for mode in modes:
        for size in sizes:
            taken = {name: measured.get((mode, size, name), []) for name in names}

            def each(of):
                return {name: of(taken[name]) if taken[name] else None for name in names}

            def kpps(list_):
                return [one["kpps"] for one in list_]

            runs.append({
                "frame_bytes": size,
                "mode": mode,
                "kpps": each(lambda of: round(statistics.median(kpps(of)), 1)),
                "spread": each(lambda of: round(spread(kpps(of)), 3)),
                "xoff_to": ratios(taken),
                "offered_kpps": each(lambda of: round(statistics.median(one["offered_kpps"] for one in of), 1)),
                "core_share": each(lambda of: round(statistics.median(one["core_share"] for one in of), 3)),
            })  # fmt: skip
    return runs


def ratios(taken):
    """The median of xoff's ratio to each other forwarder, taken round by round: neighbours in time."""
    ratio = {}
    for name, measurements in taken.items():
        if name != "xoff" and measurements and taken.get("xoff"):
            pairs = zip(taken["xoff"], measurements)
            ratio[name] = round(statistics.median(ours["kpps"] / its["kpps"] for ours, its in pairs), 3)
    return ratio


def table(runs, names):
    lines = ["frame  mode              " + "".join(f"{name:>22}" for name in names)]
    for one in runs:
        cells = []
        for name in names:
            kpps, spread_ = one["kpps"][name], one["spread"][name]
            cells.append("-" if kpps is None else f"{kpps:.0f} (±{spread_ * 50:.0f} %)")
        lines.append(f"{one['frame_bytes']:>5}  {one['mode']:<18}" + "".join(f"{cell:>22}" for cell in cells))
    lines.append("\nthousands of frames a second, medians; ± half of the range. xoff to the others:")
    for one in runs:
        ratio = ", ".join(f"{value:.2f} x {name}" for name, value in one["xoff_to"].items())
        lines.append(f"{one['frame_bytes']:>5}  {one['mode']:<18}  {ratio}")
    return "\n".join(lines)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    number_list = lambda text: [int(one) for one in text.split(",")]  # noqa: E731
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--rounds", type=int, default=5, help="how often everything is measured")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each measurement is")
    parser.add_argument("--sizes", type=number_list, default=[64, 512, 1518], help="frames, bytes with FCS")
    parser.add_argument("--modes", type=lambda text: text.split(","), default=["generator-limited", "capped"])
    parser.add_argument("--peers", type=lambda text: text.split(","),
                        default=["testpmd", "ovs_afxdp", "kernel_bridge"], help="what xoff is compared with")  # fmt: skip
    parser.add_argument("--xoff", default="target/release/xoff", help="the binary; it is the generator, too")
    parser.add_argument("--also", action="append", default=[], metavar="NAME=BINARY",
                        help="a further xoff, to compare versions with each other")  # fmt: skip
    options = parser.parse_args()
    options.xoff = str(Path(options.xoff).resolve())
    return options


def main():
    options = arguments()
    peers = {"testpmd": Testpmd, "ovs_afxdp": OpenVswitch, "kernel_bridge": KernelBridge}
    forwarders = {"xoff": Xoff(options.xoff)}
    forwarders |= {name: Xoff(str(Path(path).resolve())) for name, path in (one.split("=", 1) for one in options.also)}
    forwarders |= {name: peers[name]() for name in options.peers}
    names = list(forwarders)
    measured = {}
    with Lab() as lab:
        bench = Bench(lab, options)
        for round_ in range(options.rounds):
            for mode in options.modes:
                # Another one begins each time.
                first = round_ % len(names)
                for name in names[first:] + names[:first]:
                    if mode == "capped" and forwarders[name].thread is None:
                        continue  # there is nothing to hold to a share of a core
                    for size, one in bench.turn(forwarders[name], mode).items():
                        measured.setdefault((mode, size, name), []).append(one)
                        tell(f"round {round_ + 1} {mode:<17} {size:>5} {name:<14} {one['kpps']:8.1f} kpps"
                             f"  of {one['offered_kpps']:7.1f}, {one['core_share']:.2f} of a core")  # fmt: skip
    runs = summary(measured, options.sizes, options.modes, names)
    print(json.dumps({"runs": runs}) if options.json else table(runs, names))


if __name__ == "__main__":
    main()
