"""How xoff scales: one worker with one pair of ports, and N workers with N pairs, each held to the same share of a core.

Where there are two cores for each worker, generators have cores of their own; otherwise each shares its core with another
pair's worker, and the cap is what makes that fair: without it workers and generators would take from each other.
"""

import json
import statistics

from bench_forwarders import XOFF_LIKE_OTHERS, Xoff
from bench_lab import Failures, tell

# A worker more is worth a worker, if not more than this is missing.
MISSING = 0.05


def measure(bench, options, loads):
    xoff, counts = Xoff(options.xoff, XOFF_LIKE_OTHERS), (1, options.workers)
    measured, failures = {}, Failures()
    for round_ in range(options.rounds):
        for workers in counts if round_ % 2 == 0 else counts[::-1]:
            with failures.caught(f"round {round_ + 1} {workers} worker(s)"):
                for load, one in bench.turn(xoff, "capped", loads, workers):
                    measured.setdefault((load, workers), {})[round_] = one
                    tell(f"round {round_ + 1} {load[0]:>5} {load[1]:>2}  {workers} worker(s) {one['kpps']:8.1f} kpps"
                         f"  of {one['offered_kpps']:7.1f}, {one['core_share']:.2f} of a core")  # fmt: skip
    runs = [taken for load in loads if (taken := run(load, options.workers, measured))]
    print(json.dumps({"runs": runs, "failures": failures.all}) if options.json else table(runs))
    failures.exit()


def run(load, workers, measured):
    """One load's result over the rounds that were measured with one worker and with all; `None` without such a round."""
    one, many = (measured.get((load, count), {}) for count in (1, workers))
    both = sorted(one.keys() & many.keys())
    if not both:
        return None
    one, many = ([of[round_] for round_ in both] for of in (one, many))

    def median_ratio(of):
        return statistics.median(of(b) / of(a) for a, b in zip(one, many))

    share = median_ratio(lambda taken: taken["core_share"])
    efficiency = median_ratio(lambda taken: taken["kpps"] / taken["core_share"])
    return {
        "frame_bytes": load[0],
        "flows": load[1],
        "mode": "capped",
        "workers": workers,
        "kpps": round(statistics.median(taken["kpps"] for taken in many), 1),
        "kpps_one_worker": round(statistics.median(taken["kpps"] for taken in one), 1),
        "to_one_worker": round(median_ratio(lambda taken: taken["kpps"]), 3),
        "core_share_to_one_worker": round(share, 3),
        "kpps_per_core_share_to_one_worker": round(efficiency, 3),
        "limited_by": limits(workers, share, efficiency),
        "disturbed": sum(taken["disturbed"] for taken in one + many),
    }


def limits(workers, share, efficiency):
    """Frames a second are CPU time, and frames in that time: which of them is less than it should be.

    Workers that are held to a share of a core seldom run at the same time: what they would take from each other at full
    speed hardly shows.
    """
    limited_by = []
    if share < workers * (1 - MISSING):
        limited_by.append("cores")  # workers do not get the CPU time that they may have
    if efficiency < 1 - MISSING:
        limited_by.append("cost per frame")  # caches, memory and the kernel's locks are shared
    return limited_by


def table(runs):
    lines = ["frame flows    one worker   workers            to one   CPU time   frames in the same CPU time   limited by"]
    for one in runs:
        lines.append(
            f"{one['frame_bytes']:>5} {one['flows']:>5}  {one['kpps_one_worker']:>7.0f} kpps"
            f"   {one['workers']}: {one['kpps']:>7.0f} kpps   {one['to_one_worker']:>6.2f} x"
            f"   {one['core_share_to_one_worker']:>6.2f} x   {one['kpps_per_core_share_to_one_worker']:>24.2f} x"
            f"   {', '.join(one['limited_by']) or '-'}{disturbed(one)}"
        )
    lines.append("limited by: cores, where N workers got less CPU time than N times one's, and cost per frame, where they forwarded fewer")
    lines.append(f"frames in the same CPU time, by more than {MISSING:.0%}. Under the cap they seldom run at the same time: what they would take")
    lines.append("from each other at full speed hardly shows. Medians of rounds, no interval.")
    return "\n".join(lines)


def disturbed(one):
    return f", {one['disturbed']} measurements disturbed" if one["disturbed"] else ""
