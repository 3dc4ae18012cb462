"""Boots guests under QEMU, and checks the promises of docs/drivers.md for xoff and its hosts in them."""

import argparse
import json
import sys
import tempfile
from functools import partial
from pathlib import Path

import bond
import drivers
import roce
import tap
from models import MODELS, promise
from packages import KERNELS, Packages
from workshop import Workshop

import lab
import nic
import tester
import wire

PARTS = ("drivers", "nic", "tap", "lab", "roce", "bond", "tester")


def tell(text):
    print(text, file=sys.stderr, flush=True)


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/test-guests.sh", description=__doc__)
    parser.add_argument("part", nargs="?", choices=PARTS, help="this part only")
    parser.add_argument("--model", choices=MODELS, help="this NIC only")
    parser.add_argument(
        "--kernel", choices=KERNELS, help="this kernel only: Debian 12's, its backports', the next Debian's newest"
    )
    parser.add_argument(
        "--check", choices=drivers.CHECKS, action="append", help="of the drivers this only; may be given several times"
    )
    parser.add_argument("--mode", choices=drivers.MODES, help="of the drivers this mode only")
    parser.add_argument(
        "--report", type=Path, default="target/guests/reports", help="directory for the reports of the part tester"
    )
    parser.add_argument("--ports", type=int, choices=(2, 3, 4), default=3, help="of the part tester")
    parser.add_argument("--speed", default="10M", help="of the ports in the part tester")
    parser.add_argument("--only", action="append", help="cases of the part tester; may be given several times")
    parser.add_argument("--json", action="store_true", help="print one JSON object for each row instead of tables")
    parser.add_argument("--xoff", default="target/debug/xoff", help="the binary")
    parser.add_argument(
        "--tests",
        type=Path,
        default="target/guests/tests.json",
        help="what cargo said when it built the tests of xoff nic",
    )
    parser.add_argument("--cache", default="target/guests", help="where packages are kept")
    parser.add_argument("--fetch", action="store_true", help="get the packages only")
    return parser.parse_args()


def run_drivers(options, workshop):
    """Yields a row for each model and kernel."""
    for kernel in [options.kernel] if options.kernel else KERNELS:
        for name in [options.model] if options.model else MODELS:
            tell(f"{name} with Linux {kernel} ...")
            with drivers.bench(partial(workshop.start, kernel, name), MODELS[name]) as bench:
                seen = bench.all_of_it(promise(name, kernel), options.check or drivers.CHECKS, options.mode)
            yield {"part": "drivers", "model": name, "kernel": kernel, **seen}


def print_driver(row):
    marks = []
    for mode, one in row["modes"].items():
        steps = " ".join(f"{step}={'yes' if one[step] else 'NO'}" for step in drivers.STEPS if step in one)
        marks.append(
            f"    {mode + ':':9} {one.get('xdp')}, {one.get('memory')}, {one.get('queues')} queues: {steps}, exit code {one.get('exit_code')}"
        )
    mtus = [f"    MTU {mtu}: {', '.join(how) if isinstance(how, tuple) else how}" for mtu, how in row["mtus"].items()]
    print(f"{row['model']} ({row['driver']}, Linux {row['release']})", *marks, *mtus, sep="\n", flush=True)


def run_nic(options, workshop):
    """Yields one row: the tests of the agent."""
    kernel = options.kernel or "6.1"
    archive = workshop.archive(kernel, nic.PROGRAMS, built=nic.built(options.tests))
    tell(f"xoff nic with Linux {kernel} ...")
    with nic.bench(lambda devices: workshop.start(kernel, "nic", devices, archive, cores=1)) as bench:
        seen = bench.measure()
        yield {"part": "nic", "kernel": kernel, **seen, "wrong": nic.judge(seen)}


def print_nic(row):
    print(
        f"xoff nic, Linux {row['kernel']}: classes are stopped by {row['leaf']}; {len(row['passed'])} tests passed, {len(row['failed'])} failed",
        flush=True,
    )


def run_tap(options, workshop):
    """Yields a row for each attachment of a guest."""
    start = partial(workshop.start, options.kernel or "6.1", "tap")
    with tap.bench(start, workshop.xoff, workshop.directory) as bench:
        for name, (attach, reaches) in tap.ATTACHMENTS.items():
            tell(f"{name} ...")
            seen = bench.measure(attach)
            yield {"part": "tap", "attachment": name, **seen, "wrong": tap.judge(seen, reaches)}


def print_tap(row):
    out, into = row["from_guest"], row["to_guest"]
    print(
        f"{row['attachment']}: of {tap.FRAMES} frames {out['received']} came from the guest, {into['frames']} to it; "
        f"the switch told it {out['told']} times to stop, and it obeyed {out['obeyed']} frames that said so; "
        f"dropped in the switch: {row['switch_drops'] or 'none'}, on the machine: {row['host_drops'] or 'none'}",
        flush=True,
    )


def run_lab(options, workshop):
    """Yields one row: a network with a guest at one of its wires."""
    kernel = options.kernel or "6.1"
    archive = workshop.archive(kernel, lab.PROGRAMS)
    tell("xoff lab with a guest ...")
    start = partial(workshop.start, kernel, "lab", archive=archive, cores=1)
    with lab.bench(start, workshop.xoff, workshop.directory) as bench:
        seen = bench.measure()
        yield {"part": "lab", **seen, "wrong": lab.judge(seen)}


def print_lab(row):
    ways = "; ".join(
        f"{way}: {one['mbps']} Mb/s, {one['lost']} of {one['sent']} datagrams lost" for way, one in row["ways"].items()
    )
    print(
        f"xoff lab with a guest: {ways}; told to stop {row['told']} times, the guest obeyed {row['obeyed']}, "
        f"and told the switch {row['guest_told']} times; exit code {row['exit_code']}",
        flush=True,
    )


def run_roce(options, workshop):
    """Yields a row for each forwarder between the guests."""
    kernel = options.kernel or "6.1"
    archive = workshop.archive(kernel, roce.PROGRAMS, (roce.provider(workshop.packages),))
    start = partial(workshop.start, kernel, archive=archive, cores=1, megabytes=768)
    with roce.bench(start, workshop.xoff, workshop.directory) as bench:
        for name, (across, is_lossless) in roce.SCENES.items():
            tell(f"RoCE {name} ...")
            seen = bench.measure(across, is_lossless)
            yield {"part": "roce", "scene": name, **seen, "wrong": roce.judge(seen, is_lossless)}


def print_roce(row):
    rates = " and ".join(f"{rate} Mb/s" if rate else "nothing, it gave up," for rate in row["mbps"].values())
    print(
        f"RoCE {row['scene']}: {rates}; lost or sent again, as rxe counts: {row['rxe'] or 'nothing'}; "
        f"dropped in the switch: {row['switch_drops'] or 'none'}, on the machine: {row['host_drops'] or 'none'}",
        flush=True,
    )


def run_bond(options, workshop):
    """Yields a row for each mode of LACP."""
    start = partial(workshop.start, options.kernel or "6.1", "bond")
    with bond.bench(start, workshop.xoff, workshop.directory) as bench:
        for lacp, timeout, rate in bond.VARIANTS:
            tell(f"a Linux bond, {lacp} LACP with {timeout} timeout ...")
            seen = bench.measure(lacp, timeout, rate)
            yield {"part": "bond", "lacp": lacp, "timeout": timeout, **seen, "wrong": bond.judge(seen)}


def print_bond(row):
    print(
        f"a Linux bond, {row['lacp']} LACP with {row['timeout']} timeout: {row['answered']} of {row['pings']} pings answered "
        f"while a member left and joined; exit code {row['exit_code']}",
        flush=True,
    )


def run_tester(options, workshop):
    """Yields a row for each model."""
    kernel = options.kernel or "6.1"
    for name in [options.model] if options.model else tester.MODELS_EXAMINED:
        tell(f"xoff test, {name} with Linux {kernel} ...")
        start = partial(workshop.start, kernel, name)
        with tester.bench(start, MODELS[name], options.ports, options.speed, options.mode or "auto") as bench:
            report = options.report / f"{name}-{kernel}"
            seen = bench.examine(workshop.xoff, report, options.only or [])
            yield {"part": "tester", "model": name, "kernel": kernel, **seen, "wrong": tester.judge(seen)}


def print_tester(row):
    print(f"xoff test, {row['model']} (Linux {row['kernel']}), {row['xdp']}: pass, fail, cannot tell, not run")
    for group, counts in row["groups"].items():
        print(f"    {group + ':':14} {', '.join(map(str, counts.values()))}")
    print(f"    drops in the guest: {row['drops'] or 'none'}; exit code of xoff: {row['exit_code']}", flush=True)


PRINT = {
    "drivers": print_driver,
    "nic": print_nic,
    "tap": print_tap,
    "lab": print_lab,
    "roce": print_roce,
    "bond": print_bond,
    "tester": print_tester,
}
RUN = {
    "drivers": run_drivers,
    "nic": run_nic,
    "tap": run_tap,
    "lab": run_lab,
    "roce": run_roce,
    "bond": run_bond,
    "tester": run_tester,
}


def main():
    options = arguments()
    packages = Packages(options.cache)
    if options.fetch:
        return packages.fetch([options.kernel] if options.kernel else KERNELS)
    wire.silence()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="xoff-guests-") as directory:
        workshop = Workshop(packages, Path(options.xoff).resolve(), Path(directory))
        for part in [options.part] if options.part else PARTS:
            for row in RUN[part](options, workshop):
                print(json.dumps(row), flush=True) if options.json else PRINT[part](row)
                for wrong in row["wrong"]:
                    failed += 1
                    tell(f"    NOT AS PROMISED: {wrong}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
