#!/usr/bin/env python3
"""Examine switches and NICs in namespaces with all cases of `xoff test`, and keep the reports.

Write the report of each device to docs/reports/NAME.txt, and an index; print verdicts. Exit with 1 if `xoff run` or `xoff nic`
fails a case, or another device passes one that needs PFC. Requires root, and openvswitch-switch for Open vSwitch.
"""

import argparse
import contextlib
import fnmatch
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

import tester_defects as bench

REPORTS = pathlib.Path("docs/reports")
VERDICTS = ("pass", "fail", "cannot-tell", "not-run")
POLICIES = ("pfc", "capfc-stop-max", "capfc-stop-calibrate", "ofc", "p-pfc", "g-pfc", "gfc")
START_WITHIN_S = 30
MTU = 8996
XOFF, XON, HEADROOM, ECN = 200_000, 100_000, 1_000_000, 100_000
INDEX = """# Reports of `xoff test`

`scripts/tester_devices.py` examined these devices in namespaces at 100 Mb/s.
For `guest-*`, `scripts/test-guests.sh tester` examined guests at 10 Mb/s.
Each report begins with the expectation; the numbers are cases by verdict.

| report | expected | pass | fail | cannot tell | not run |
|---|---|---|---|---|---|
"""
DEVICE = """
[device]
name = "{}"
lossless = [3, 4]
mtu = {}
ecn = {}
dcbx = true
response_allowance = "20ms"
counters = "{}"
"""
THRESHOLDS = f"xoff = {XOFF}\nxon = {XON}\nheadroom = {HEADROOM}\n"
ADD_BRIDGE = ["add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev"]
NIC = ["nic0", "--peer", "nic1", "--response-allowance", "20ms", "--speed"]
SWITCH = """
[switch]
policy = "{policy}"
stall_budget = "25ms"
http = "unix:{socket}"
[defaults]
speed = "{speed}"
mtu = {mtu}
lossless = [3, 4]
commit = "20KB" # frames in the driver delay the effect of each threshold
{of_ports}
"""
CLASS = f"""
[class.{{}}]
xoff = {XOFF}
xon = {XON}
headroom = {HEADROOM}
ecn_min = {ECN}
ecn_max = {ECN}
{{}}
"""
# Metrics of `xoff run`, and the tester's names of counters.
COUNTERS = {
    "xoff_received_frames_total": "rx_frames",
    "xoff_sent_frames_total": "tx_frames",
    "xoff_received_pfc_frames_total": "pfc_received",
    "xoff_sent_pause_frames_total": "pfc_sent",
    "xoff_lossless_lost_frames_total": "dropped",
}


class Part(NamedTuple):
    """Cases with settings of their own: in the setup file's [device] and [[port]], and in xoff's [defaults] and [class.N]."""

    name: str
    cases: tuple
    of_device: str = ""
    of_port: str = ""
    defaults: str = ""
    of_class: str = ""


DETECT, RESTORE = (f'"{time}ms"' for time in (bench.WATCHDOG, bench.RESTORATION))
PARTS = (
    Part("all other cases", ()),
    Part("PCP, VLAN 5", ("map.pcp", "map.rewrite"), 'trust = "pcp"\n', "vlan = 5\n", 'trust = "pcp"\ntagged = [5]'),
    Part(
        "watchdog",
        ("watchdog.*",),
        f"watchdog = {DETECT}\nwatchdog_restore = {RESTORE}\n",
        of_class=f'watchdog = "drop"\nwatchdog_detect = {DETECT}\nwatchdog_restore = {RESTORE}',
    ),
)


@contextlib.contextmanager
def running(command, log, ready=None, **more):
    """Run a program. Wait until its log contains the text `ready`, if given."""
    with open(log, "w") as output, subprocess.Popen(command, stdout=output, stderr=output, **more) as process:
        try:
            until = time.monotonic() + START_WITHIN_S
            while ready and ready not in pathlib.Path(log).read_text():
                if process.poll() is not None or time.monotonic() > until:
                    raise ValueError(f"{' '.join(command)} did not start: {pathlib.Path(log).read_text()}")
                time.sleep(0.1)
            yield
        finally:
            process.terminate()


def limit_lines(device):
    """Give the ports line rate, short queues, and tags in frames: XDP programs do not see those that veth keeps beside."""
    for number in range(1, bench.PORTS + 1):
        subprocess.run(bench.inside(device, "ethtool", "-K", f"p{number}", "txvlan", "off"), check=True)
        queue = f"tbf rate {bench.SPEED}bit burst 20kb limit 100kb overhead 24".lower()
        subprocess.run(f"tc -n {device} qdisc replace dev p{number} root {queue}".split(), check=True)


def kernel_counters(device):
    names = "for p in p1 p2 p3 p4; do for n in rx tx; do echo $p ${n}_frames $(cat /sys/class/net/$p/statistics/${n}_packets)"
    return f"ip netns exec {device} sh -c '{names}; done; done'"


@contextlib.contextmanager
def bridge(_, device, directory, part):
    bench.ip("-n", device, "link", "add", "br0", "type", "bridge")
    try:
        for number in range(1, bench.PORTS + 1):
            bench.ip("-n", device, "link", "set", f"p{number}", "master", "br0")
        limit_lines(device)
        bench.bring_up(device, "br0")
        yield kernel_counters(device)
    finally:
        bench.ip("-n", device, "link", "del", "br0")


@contextlib.contextmanager
def open_vswitch(_, device, directory, part):
    """Run Open vSwitch's userspace datapath with a database of its own."""
    database, socket, control, log = (f"{directory}/{name}" for name in ("conf.db", "db.sock", "ctl", "ovs.log"))
    environment = os.environ | dict.fromkeys(("OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR"), directory)
    client = ["ovs-vsctl", f"--db=unix:{socket}", "--timeout=15", "--retry"]
    subprocess.run(["ovsdb-tool", "create", database, "/usr/share/openvswitch/vswitch.ovsschema"], check=True)
    server = bench.inside(device, "ovsdb-server", database, f"--remote=punix:{socket}", f"--unixctl={control}.db")
    daemon = bench.inside(device, "ovs-vswitchd", f"unix:{socket}", f"--unixctl={control}")
    with running(server, f"{log}.db", env=environment):
        subprocess.run([*client, "--no-wait", "init"], check=True)
        with running(daemon, log, env=environment):
            ports = [word for number in range(1, bench.PORTS + 1) for word in ("--", "add-port", "br0", f"p{number}")]
            subprocess.run([*client, *ADD_BRIDGE, *ports], check=True)
            limit_lines(device)
            yield kernel_counters(device)
    for name in (database, socket):
        pathlib.Path(name).unlink(missing_ok=True)


def switch(policy):
    @contextlib.contextmanager
    def run(xoff, device, directory, part):
        file, socket, log = (pathlib.Path(directory, name) for name in ("xoff.toml", "xoff.sock", "xoff.log"))
        text = SWITCH.format(policy=policy, socket=socket, speed=bench.SPEED, mtu=MTU, of_ports=part.defaults)
        text += "".join(CLASS.format(number, part.of_class) for number in (3, 4))
        text += "".join(f'[[port]]\nname = "p{n}"\ndevice = "p{n}"\n' for n in range(1, bench.PORTS + 1))
        file.write_text(text)
        with running(bench.inside(device, xoff, "run", str(file)), log, ready=" running "):
            yield f"{sys.executable} {os.path.abspath(__file__)} --counters {socket}"

    return run


def print_counters(socket):
    """Print counters of `xoff run`, summed over classes, as the key `counters` expects them."""
    command = ["curl", "--silent", "--fail", "--unix-socket", socket, "http://localhost/metrics"]
    metrics = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    sums = {(f"p{number}", name): 0 for number in range(1, bench.PORTS + 1) for name in COUNTERS.values()}
    for line in metrics.splitlines():
        metric, _, rest = line.partition("{")
        if metric in COUNTERS:
            sums[rest.split('port="')[1].split('"')[0], COUNTERS[metric]] += int(rest.split()[-1])
    for (port, name), value in sums.items():
        print(port, name, value)


@contextlib.contextmanager
def host(*_):
    yield


@contextlib.contextmanager
def agent(xoff, namespace, directory, classes):
    log = pathlib.Path(directory, "agent.log")
    options = [
        "--device",
        "nic0",
        "--speed",
        bench.SPEED,
        "--lossless",
        classes,
        "--pause-above",
        "100KB",
        "--http",
        "off",
    ]
    with running(bench.inside(namespace, xoff, "nic", *options), log, ready="obeying"):
        yield


class Device(NamedTuple):
    """A device; `fails` is a case that it must fail. None: it must fail no case."""

    start: object
    fails: str | None
    expected: str
    is_nic: bool = False


WITHOUT = "without PFC: the cases that expect a pause fail, or cannot tell"
DEVICES = {
    "bridge": Device(bridge, "receive.stops-class", f"{WITHOUT}; cases of lldp fail, cases with N:1 load lose frames"),
    "open-vswitch": Device(open_vswitch, "receive.stops-class", f"{WITHOUT}; cases of lldp fail"),
    "host": Device(
        host, "receive.stops-class", f"{WITHOUT}; it drops no frame, so cases of send pass or are not run", True
    ),
    "xoff-nic": Device(agent, None, "no case fails", True),
    **{f"xoff-{policy}": Device(switch(policy), None, "no case fails") for policy in POLICIES},
}


def matching(cases, patterns):
    return [case for case in cases if any(fnmatch.fnmatchcase(case, pattern) for pattern in patterns)]


def switch_parts(args, name, device, spaces, directory, chosen):
    """Yield name and cases of each part. The directory has the part's report."""
    special = matching(chosen, [pattern for part in PARTS for pattern in part.cases])
    for part in PARTS:
        cases = matching(special, part.cases) if part.cases else [case for case in chosen if case not in special]
        if not cases:
            continue
        with device.start(args.xoff, spaces[0], directory, part) as counters:
            file = pathlib.Path(directory, "dut.toml")
            of_device = DEVICE.format(name, MTU, ECN, counters) + part.of_device
            bench.describe(file, bench.SPEED, of_device + (THRESHOLDS if name == "xoff-pfc" else ""), part.of_port)
            yield part.name, bench.run_tester(spaces[1], args.xoff, directory, [file, *bench.only(cases)])


def nic_parts(args, _, device, spaces, directory, chosen):
    namespace = spaces[1]
    bench.ip(*f"-n {namespace} link add nic0 type veth peer name nic1".split())
    try:
        for end in ("nic0", "nic1"):
            bench.bring_up(namespace, end)
        # `xoff nic` pauses all lossless classes, so with two it fails send.only-held.
        for classes, cases in (("3", chosen), ("3,4", matching(chosen, ["receive.*"]))):
            if cases:
                with device.start(args.xoff, namespace, directory, classes):
                    words = ["nic", *NIC, bench.SPEED, "--lossless", classes, *bench.only(cases)]
                    yield f"lossless {classes}", bench.run_tester(namespace, args.xoff, directory, words)
    finally:
        bench.ip("-n", namespace, "link", "del", "nic0")


def store(directory, name, expected, parts):
    """Write a device's report: the expectation, and the text of each part. Update the index of all reports."""
    directory.mkdir(parents=True, exist_ok=True)
    texts = [f"expected: {expected}\n", *(f"== {part}\n{text}" for part, text in parts)]
    lines = "\n".join(texts).splitlines()
    (directory / f"{name}.txt").write_text("".join(f"{line.rstrip()}\n" for line in lines))
    (directory / "README.md").write_text(INDEX + "".join(row(path) for path in sorted(directory.glob("*.txt"))))


def row(path):
    """Return a report's row in the index, with the sums over its parts."""
    text = path.read_text()
    counts = [[int(count) for count in line.split()[1:]] for line in text.splitlines() if line.startswith(" all ")]
    sums = " | ".join(str(sum(column)) for column in zip(*counts, strict=True))
    return f"| [{path.stem}]({path.name}) | {text.splitlines()[0].removeprefix('expected: ')} | {sums} |\n"


def verdicts(cases):
    """Return the numbers of cases by verdict, for each group."""
    groups = {}
    for case in cases:
        counts = groups.setdefault(case["id"].split(".")[0], dict.fromkeys(VERDICTS, 0))
        counts[case["verdict"]] += 1
    return groups


def examine(args, name, device, spaces, listed):
    """Examine a device; return broken expectations."""
    cases, texts = [], []
    with tempfile.TemporaryDirectory() as directory:
        parts = nic_parts if device.is_nic else switch_parts
        for part, found in parts(args, name, device, spaces, directory, matching(listed, args.cases)):
            cases += found
            texts.append((part, pathlib.Path(directory, "report.txt").read_text()))
    store(args.out, name, device.expected, texts)
    print(f"{name}: {device.expected}")
    for group, counts in verdicts(cases).items():
        print(f"    {group + ':':14} {', '.join(map(str, counts.values()))}", flush=True)
    failed = {case["id"]: case["reason"] for case in cases if case["verdict"] == "fail"}
    if device.fails is None:
        return [f"{case}: {reason}" for case, reason in failed.items()]
    passed = [case["id"] for case in cases if case["verdict"] == "pass"]
    return [f"{device.fails} passed"] if device.fails in passed else []


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--xoff", default="target/debug/xoff", help="the binary xoff")
    parser.add_argument("--out", type=pathlib.Path, default=REPORTS, help="directory of the reports")
    parser.add_argument("--only", dest="cases", action="append", help="cases, such as receive.*; may be repeated")
    parser.add_argument("--counters", metavar="SOCKET", help="print the counters of a switch, and exit")
    parser.add_argument("devices", nargs="*", default=["*"], help=f"patterns of devices: {', '.join(DEVICES)}")
    args = parser.parse_args()
    if args.counters:
        return print_counters(args.counters)
    args.xoff = os.path.abspath(args.xoff)
    args.cases = args.cases or ["*"]
    listed = subprocess.run([args.xoff, "test", "--list"], check=True, capture_output=True, text=True).stdout
    listed = [line.split()[0] for line in listed.splitlines()]
    wrong = 0
    print("numbers of cases by verdict: pass, fail, cannot tell, not run")
    for name in matching(DEVICES, args.devices):
        with bench.namespaces() as spaces:
            try:
                broken = examine(args, name, DEVICES[name], spaces, listed)
            except (ValueError, OSError, subprocess.CalledProcessError) as error:
                broken = [str(error)]
        wrong += len(broken)
        for sentence in broken:
            print(f"    NOT AS EXPECTED: {sentence}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
