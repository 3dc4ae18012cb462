#!/usr/bin/env python3
"""Check that `xoff test` finds each defect of the reference switch.

Print a table: defect, the case that must find it, the verdict with the defect and without it. Exit with 1 if a case
passes with its defect, or fails without it, and with 3 if a case could not tell. Requires root.
"""

import argparse
import contextlib
import fnmatch
import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

PORTS = 4
SPEED = "100M"
XOFF, XON, HEADROOM, ECN, ECN_MAX = 40_000, 20_000, 200_000, 20_000, 100_000
WATCHDOG, RESTORATION = 400, 200
ATTEMPTS = 3
CLASSES = "0,1,2,3,4,5,6,7"
MISSING = ("missing", "`xoff test` has no such case")

DEVICE = f"""
[device]
name = "reference"
mtu = 9000
xoff = {XOFF}
headroom = {HEADROOM}
response_allowance = "2ms"
"""
PORT = """
[[port]]
device = "t{0}"
speed = "{1}"
connected = "p{0}"
"""
WITH_WATCHDOG = (
    f'watchdog = "{WATCHDOG}ms"\nwatchdog_restore = "{RESTORATION}ms"\n',
    "",
    ["--watchdog", str(WATCHDOG), "--restoration", str(RESTORATION)],
)
# Settings by the start of a case's name, or by defect: lines of [device], lines of [[port]], options of the switch.
SETTINGS = {
    "buffers.": (f"xon = {XON}\nframe_overhead = 0\n", "", []),
    "headroom.": ("frame_overhead = 0\n", "", []),
    "lldp.": ("dcbx = true\n", "", []),
    "map.ecn-share": (
        f"ecn = {ECN}\necn_max = {ECN_MAX}\necn_probability = 0.8\n",
        "",
        # The queue must exceed `ecn_max` without an XOFF.
        ["--ecn-max", str(ECN_MAX), "--ecn-probability", "0.8", "--xoff", str(3 * ECN_MAX)],
    ),
    "map.ecn": (f"ecn = {ECN}\n", "", []),
    "map.pcp": ('trust = "pcp"\n', "", []),
    "map.rewrite": ("", "vlan = 5\n", []),
    # Other cases pause for longer than the watchdog permits.
    "watchdog.": WITH_WATCHDOG,
    "counters.watchdog": WITH_WATCHDOG,
    "timer-of-class-7": (f"lossless = [{CLASSES}]\n", "", ["--lossless", CLASSES]),
}


def settings_of(defect, case):
    """Return the key in SETTINGS: the defect, the start of the case's name, or an empty string."""
    return defect if defect in SETTINGS else next((start for start in SETTINGS if case.startswith(start)), "")


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def inside(namespace, *command):
    return ["ip", "netns", "exec", namespace, *command]


def bring_up(namespace, end):
    subprocess.run(inside(namespace, "sysctl", "-qw", f"net.ipv6.conf.{end}.disable_ipv6=1"), check=True)
    ip("-n", namespace, "link", "set", end, "up")


@contextlib.contextmanager
def namespaces():
    """Make namespaces with PORTS veth pairs: p1, p2, .. of the device, t1, t2, .. of the tester."""
    device, tester = (f"xoff-{name}-{os.getpid()}" for name in ("device", "tester"))
    ip("netns", "add", device)
    ip("netns", "add", tester)
    try:
        for number in range(1, PORTS + 1):
            ends = {device: f"p{number}", tester: f"t{number}"}
            near = f"link add {ends[device]} mtu 9000 netns {device} type veth"
            ip(*near.split(), *f"peer name {ends[tester]} mtu 9000 netns {tester}".split())
            for namespace, end in ends.items():
                bring_up(namespace, end)
        yield device, tester
    finally:
        ip("netns", "del", device)
        ip("netns", "del", tester)


@contextlib.contextmanager
def reference(args, namespace, defect, counters, options):
    """Run the reference switch with a defect, or without one."""
    ports = [word for number in range(1, PORTS + 1) for word in ("--port", f"p{number}")]
    sizes = [("--xoff", XOFF), ("--xon", XON), ("--headroom", HEADROOM), ("--ecn", ECN)]
    thresholds = [str(word) for size in sizes for word in size]
    defects = ["--defect", defect] if defect else []
    command = inside(namespace, args.reference, *ports, "--speed", args.speed, *thresholds, *defects, *options)
    with subprocess.Popen([*command, "--counters", counters], stdout=subprocess.PIPE, text=True) as process:
        if process.stdout.readline() != "ready\n":
            sys.exit("the reference switch did not start")
        try:
            yield
        finally:
            process.send_signal(signal.SIGINT)


def describe(file, speed, of_device, of_port):
    """Write the setup file of `xoff test` for all ports."""
    ports = "".join(PORT.format(number, speed) + of_port for number in range(1, PORTS + 1))
    pathlib.Path(file).write_text(of_device + ports)


def run_tester(tester, xoff, directory, words):
    """Run `xoff test` with a report in the directory. Return its cases, or raise ValueError with its messages."""
    command = inside(tester, xoff, "test", *words, "--json", "--report", directory)
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    try:
        return json.loads(ended.stdout)["cases"]
    except ValueError:
        raise ValueError(ended.stderr.strip()) from None


def only(cases):
    return [word for case in cases for word in ("--only", case)]


def verdict(report):
    """Return the verdict of a case. A failed basic case excuses failures of others."""
    return "excused" if "excused_by" in report else report["verdict"]


def examine(args, namespaces, directory, defect, settings, cases):
    """Return the verdict and the reason of each case, or of all cases if none is given. Leave the report in the directory."""
    device, tester = namespaces
    file, counters = (str(pathlib.Path(directory, name)) for name in ("dut.toml", "counters"))
    of_device, of_port, options = SETTINGS.get(settings, ("", "", []))
    lossless = "" if "lossless" in of_device else "lossless = [3, 4]\n"
    describe(file, args.speed, f'{DEVICE}{lossless}counters = "cat {counters}"\n{of_device}', of_port)
    with reference(args, device, defect, counters, options):
        try:
            reports = run_tester(tester, args.xoff, directory, [file, *only(cases)])
        except ValueError as error:
            return dict.fromkeys(cases or ["all cases"], ("error", str(error)))
    return {report["id"]: (verdict(report), report["reason"]) for report in reports}


def settled(*what, cases, named):
    """Examine the cases, and again those of `named` that a stall of the machine left without a verdict."""
    verdicts = examine(*what, cases)
    for _ in range(ATTEMPTS - 1):
        undecided = [case for case in named if verdicts.get(case, MISSING)[0] == "cannot-tell"]
        if not undecided:
            break
        verdicts |= examine(*what, undecided)
    return verdicts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--xoff", default="target/debug/xoff", help="the binary xoff")
    parser.add_argument("--reference", default="target/debug/xoff-reference", help="the reference switch")
    parser.add_argument("--speed", default=SPEED, help="speed of each port [default: 100M]")
    parser.add_argument("--others", action="store_true", help="run all cases, and print others that fail, too")
    parser.add_argument("patterns", nargs="*", default=["*"], help="patterns of defects or cases, such as receive.*")
    args = parser.parse_args()
    listed = subprocess.run([args.reference, "--list-defects"], check=True, capture_output=True, text=True)
    table = [line.split("\t") for line in listed.stdout.splitlines()]
    chosen = [row for row in table if any(fnmatch.filter(row[:2], pattern) for pattern in args.patterns)]
    wrong = undecided = 0
    with namespaces() as both, tempfile.TemporaryDirectory() as directory:
        cases = sorted({(settings_of(defect, case), case) for defect, case, _ in chosen})
        flawless = {}
        for settings, group in itertools.groupby(cases, lambda pair: pair[0]):
            group = [case for _, case in group]
            flawless[settings] = settled(args, both, directory, None, settings, cases=group, named=group)
        for defect, case, sentence in chosen:
            settings = settings_of(defect, case)
            without = flawless[settings].get(case, MISSING)
            examined = [] if args.others else [case]
            verdicts = settled(args, both, directory, defect, settings, cases=examined, named=[case])
            crash = verdicts.pop("all cases", MISSING)
            found = verdicts.pop(case, crash)
            is_right = (found[0], without[0]) == ("fail", "pass")
            is_wrong = found[0] not in ("fail", "cannot-tell") or without[0] not in ("pass", "cannot-tell")
            wrong += is_wrong
            undecided += not is_right and not is_wrong
            print(f"{defect:<24} {case:<28} {found[0]:<12} {without[0]:<12} {sentence}", flush=True)
            if not is_right:
                print(f"    with the defect: {found[1]}\n    without: {without[1]}", flush=True)
            for other, (found, reason) in verdicts.items():
                if found in ("fail", "error"):
                    print(f"    {found}, too: {other}: {reason}", flush=True)
    print(f"{len(chosen) - wrong - undecided} of {len(chosen)} defects are found")
    sys.exit(1 if wrong else 3 if undecided else 0)


if __name__ == "__main__":
    main()
