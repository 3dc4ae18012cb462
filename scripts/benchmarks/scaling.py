"""Measures how xoff scales: one worker with one pair of ports, and N workers with N pairs, each worker held to 35 % of
a core.

Where there are two cores for each worker, generators have cores of their own. Otherwise each shares its core with
another pair's worker, and the cap keeps that fair: without it workers and generators would take from each other."""

import argparse
import json
import statistics

from benchmarks import arguments, forwarding
from benchmarks.forwarders import XOFF_LIKE_OTHERS, Xoff
from benchmarks.lab import Lab
from benchmarks.process import log
from benchmarks.rounds import Failures, turns

SUMMARY = "Measure how xoff scales with workers"
ROOT_FOR = forwarding.ROOT_FOR
# Maximum missing share for an additional worker to count as a full one.
MISSING = 0.05


def add_arguments(parser):
    forwarding.add_arguments(parser)
    arguments.add_xoff(parser)
    parser.add_argument(
        "--workers", type=worker_count, default=2, metavar="N", help="workers, compared with one [%(default)s]"
    )


def worker_count(text):
    count = arguments.positive(int)(text)
    if count == 1:
        raise argparse.ArgumentTypeError("one worker is what others are compared with; take 2 or more")
    return count


def main(options):
    forwarding.build_programs(options)
    xoff = Xoff(options.xoff, XOFF_LIKE_OTHERS)
    measured, failures = {}, Failures()
    with Lab(options.patience) as lab:
        bed = forwarding.Bed(lab, options, options.workers)
        for round_, _, workers in turns(options.rounds, (1, options.workers)):
            with failures.caught(f"round {round_ + 1} {workers} worker(s)"):
                for load, one in bed.turn(xoff, "capped", workers):
                    measured.setdefault((load, workers), {})[round_] = one
                    log(
                        f"round {round_ + 1} {load[0]:>5} {load[1]:>2}  {workers} worker(s) {one['kpps']:8.1f} kpps"
                        f"  of {one['offered_kpps']:7.1f}, {one['core_share']:.2f} of a core"
                    )
    runs = [run for load in forwarding.loads(options) if (run := summary(load, options.workers, measured))]
    print(json.dumps({"runs": runs, "failures": failures.all}) if options.json else table(runs))
    return failures.exit_status()


def summary(load, workers, measured):
    """Returns a load's result from rounds measured both with one worker and with all; `None` without such a round."""
    one, many = (measured.get((load, count), {}) for count in (1, workers))
    both = sorted(one.keys() & many.keys())
    if not both:
        return None
    one, many = ([rounds[round_] for round_ in both] for rounds in (one, many))

    def median_ratio(function):
        return statistics.median(function(b) / function(a) for a, b in zip(one, many, strict=True))

    share = median_ratio(lambda measurement: measurement["core_share"])
    efficiency = median_ratio(lambda measurement: measurement["kpps"] / measurement["core_share"])
    return {
        "frame_bytes": load[0],
        "flows": load[1],
        "mode": "capped",
        "workers": workers,
        "kpps": round(statistics.median(measurement["kpps"] for measurement in many), 1),
        "kpps_one_worker": round(statistics.median(measurement["kpps"] for measurement in one), 1),
        "to_one_worker": round(median_ratio(lambda measurement: measurement["kpps"]), 3),
        "core_share_to_one_worker": round(share, 3),
        "kpps_per_core_share_to_one_worker": round(efficiency, 3),
        "limited_by": limits(workers, share, efficiency),
        "disturbed": sum(measurement["disturbed"] for measurement in one + many),
    }


def limits(workers, share, efficiency):
    """Returns the limiting factors: too little CPU time ("cores"), or too few frames in that time ("cost per frame").

    Workers limited to a share of a core seldom run simultaneously, so contention at full speed hardly shows.
    """
    limited_by = []
    if share < workers * (1 - MISSING):
        limited_by.append("cores")
    if efficiency < 1 - MISSING:
        limited_by.append("cost per frame")  # caches, memory and the kernel's locks are shared
    return limited_by


def table(runs):
    lines = [
        "frame flows    one worker   workers            to one   CPU time   frames in the same CPU time   limited by"
    ]
    for run in runs:
        disturbed = f", {run['disturbed']} measurements disturbed" if run["disturbed"] else ""
        lines.append(
            f"{run['frame_bytes']:>5} {run['flows']:>5}  {run['kpps_one_worker']:>7.0f} kpps"
            f"   {run['workers']}: {run['kpps']:>7.0f} kpps   {run['to_one_worker']:>6.2f} x"
            f"   {run['core_share_to_one_worker']:>6.2f} x   {run['kpps_per_core_share_to_one_worker']:>24.2f} x"
            f"   {', '.join(run['limited_by']) or '-'}{disturbed}"
        )
    lines.append(
        "limited by: cores, where N workers got less CPU time than N times one's, and cost per frame, where they"
    )
    lines.append(
        f"forwarded fewer frames in the same CPU time, by more than {MISSING:.0%}. Under the cap workers seldom run at"
    )
    lines.append("the same time: what they would take from each other at full speed hardly shows. Medians of rounds.")
    return "\n".join(lines)
