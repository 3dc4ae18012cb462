"""Measures what flow-control policies cost per frame beside plain PFC, while no queue is behind a threshold.

Instructions are counted by callgrind (the same in every run), of frames that all differ from the one before and of IMIX
as two hosts send it. Time is measured for all policies in turn, round by round. Then follows the cost of a frame under
OFC whose flow joins a congested queue, for more and more queued flows. The exit status is 1 where CaPFC takes more than
3 % more instructions than PFC."""

import json
import re
import shutil
import subprocess
import sys

from benchmarks import arguments, build

SUMMARY = "Count what flow-control policies cost a frame"
ROOT_FOR = None
MIXES = ("mixed", "imix")
CAPFC_AT_MOST = 1.03
SPREADS = ("flow", "frame", "adaptive")
QUEUED_FLOWS = (16, 256, 4096, 32768)


def add_arguments(parser):
    arguments.add_rounds(parser, 200, "the measurement of time")


def main(options):
    if shutil.which("valgrind") is None:
        raise RuntimeError("valgrind is missing; scripts/install-deps.sh --bench installs it")
    bench = bench_binary()
    is_dear = policy_table(bench, options.rounds)
    print(f"\n{'group, spread by':<22} {'mixed':>9} {'imix':>9}")
    for spread in SPREADS:
        print(f"{spread:<22}" + "".join(f" {instructions(bench, 'count-groups', mix, spread):>9.1f}" for mix in MIXES))
    print(f"\n{'flows that wait (OFC)':<22} {'instructions':>9}")
    for flows in QUEUED_FLOWS:
        print(f"{flows:<22} {instructions(bench, 'count-joins', str(flows)):>9.1f}")
    if is_dear:
        print(f"CaPFC costs more than {CAPFC_AT_MOST - 1:.0%} over PFC", file=sys.stderr)
    return int(is_dear)


def bench_binary():
    """Builds the benchmark of the crate `xoff-dataplane` and returns its program."""
    command = ("bench", "--quiet", "--package", "xoff-dataplane", "--bench", "policies", "--no-run")
    messages = map(json.loads, build.cargo(*command, "--message-format=json").splitlines())
    return next(one["executable"] for one in messages if one.get("target", {}).get("name") == "policies")


def policy_table(bench, rounds):
    """Prints a line for each policy. Returns whether CaPFC needs too many instructions."""
    print(
        f"{'policy':<22} {'mixed':>9} {'ratio':>6}   {'imix':>9} {'ratio':>6}   {'time, ns':>8} ratio (half of the rounds)"
    )
    pfc, is_dear = None, False
    with subprocess.Popen([bench, "time", str(rounds)], stdout=subprocess.PIPE, text=True) as timing:
        for line in timing.stdout:
            policy, nanos, median, low, high = line.split()
            counts = [instructions(bench, "count", mix, policy) for mix in MIXES]
            pfc = pfc or counts  # it comes first
            ratios = [count / of_pfc for count, of_pfc in zip(counts, pfc, strict=True)]
            cells = "  ".join(f" {count:>9.1f} {ratio:>6.3f}" for count, ratio in zip(counts, ratios, strict=True))
            print(f"{policy:<22}{cells}   {nanos:>8} {median} ({low} to {high})", flush=True)
            is_dear |= policy.startswith("capfc-") and max(ratios) > CAPFC_AT_MOST
    if timing.returncode != 0 or pfc is None:
        raise RuntimeError(f"{bench} time ended with {timing.returncode}")
    return is_dear


def instructions(bench, *arguments):
    """Returns the instructions per frame."""
    callgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"]
    callgrind.append("--toggle-collect=*policies::counted*")
    command = [*callgrind, bench, *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    collected = re.search(r"Collected : *(\d+)", done.stderr)
    frames = re.search(r"^\d+$", done.stdout, re.MULTILINE)
    if done.returncode != 0 or not collected or not frames:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return int(collected[1]) / int(frames[0])
