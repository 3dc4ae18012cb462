"""Compares forwarders round by round, and prints their rates and the ratios of the first to each of the others."""

import json
import statistics

from benchmarks import forwarding
from benchmarks.lab import Lab
from benchmarks.process import log
from benchmarks.ratios import ROUNDS_LEAST, interval, ratios, spread
from benchmarks.rounds import Failures, turns


def compare(options, forwarders):
    """Measures the forwarders, by name, prints the result, and returns the exit status."""
    measured, failures = {}, Failures()
    with Lab(options.patience) as lab:
        bed = forwarding.Bed(lab, options)
        for round_, mode, name in turns(options.rounds, forwarders, options.modes):
            if mode == "capped" and forwarders[name].thread is None:
                continue  # no thread to limit
            with failures.caught(f"round {round_ + 1} {mode} {name}"):
                for (size, flows), one in bed.turn(forwarders[name], mode):
                    measured.setdefault(((mode, size, flows), name), {})[round_] = one
                    log(
                        f"round {round_ + 1} {mode:<17} {size:>5} {flows:>2} {name:<14} {one['kpps']:8.1f} kpps"
                        f"  of {one['offered_kpps']:7.1f}, {one['core_share']:.2f} of a core"
                    )
    names = list(forwarders)
    cases = [(mode, *load) for mode in options.modes for load in forwarding.loads(options)]
    runs = summary(measured, cases, names)
    print(json.dumps({"runs": runs, "failures": failures.all}) if options.json else table(runs, names))
    return failures.exit_status()


def summary(measured, cases, names):
    """Returns an object for each case. `measured[case, name]` has measurements by round, without failed rounds."""
    return [case_summary(case, {name: measured.get((case, name), {}) for name in names}) for case in cases]


def case_summary(case, measured):
    """Returns the medians and ratios of a case, from the measurements of each name by round."""
    kpps = {name: {round_: one["kpps"] for round_, one in rounds.items()} for name, rounds in measured.items()}
    ours, *others = kpps
    to = {name: ratios(kpps[ours], kpps[name]) for name in others}
    to = {name: by_round for name, by_round in to.items() if by_round}

    def each(function):
        return {name: function(list(rounds.values())) if rounds else None for name, rounds in measured.items()}

    def median(key, digits):
        return each(lambda rounds: round(statistics.median(one[key] for one in rounds), digits))

    mode, frame_bytes, flows = case
    return {
        "frame_bytes": frame_bytes,
        "flows": flows,
        "mode": mode,
        "kpps": median("kpps", 1),
        "spread": each(lambda rounds: round(spread([one["kpps"] for one in rounds]), 3)),
        "xoff_to": {name: round(statistics.median(by_round), 3) for name, by_round in to.items()},
        "xoff_to_interval": {name: interval(by_round) for name, by_round in to.items()},
        "gbps": median("gbps", 3),
        "offered_kpps": median("offered_kpps", 1),
        "core_share": median("core_share", 3),
        "rounds": each(len),
        "rounds_disturbed": each(lambda rounds: sum(one["disturbed"] for one in rounds)),
        "rounds_without_frames": each(lambda rounds: sum(not one["kpps"] for one in rounds)),
    }


def table(runs, names):
    lines = [f"{'frame':>5} {'flows':>5}  {'mode':<18}" + "".join(f"{name:>22}" for name in names)]
    for run in runs:
        cells = []
        for name in names:
            kpps, half, gbps = (run[key][name] for key in ("kpps", "spread", "gbps"))
            cells.append("-" if kpps is None else f"{kpps:.0f} (±{half * 50:.0f} %) {gbps:5.2f}")
        lines.append(beginning(run) + "".join(f"{cell:>22}" for cell in cells))
    lines.append(
        "\nthousands of frames a second that arrived, medians (± half of the range), and Gb/s of these frames with FCS."
        f"\n{names[0]} to the others, medians of the ratios round by round"
        f" (and what 95 % of resamples have, from {ROUNDS_LEAST} rounds on):"
    )
    for run in runs:
        cells = []
        for name, ratio in run["xoff_to"].items():
            ends = run["xoff_to_interval"][name]
            cells.append(f"{ratio:.2f} x {name}" + (f" ({ends[0]:.2f} to {ends[1]:.2f})" if ends else ""))
        lines.append(beginning(run) + ", ".join(cells))
    return "\n".join(lines + notes(runs))


def notes(runs):
    """Returns notes on rounds that the medians hide."""
    texts = {
        "rounds_disturbed": "the forwarder's share of its core was wrong in every attempt",
        "rounds_without_frames": "no frame was forwarded, so there is no ratio",
    }
    return [
        f"{beginning(run)}{name}: in {rounds} of {run['rounds'][name]} rounds {text}"
        for run in runs
        for key, text in texts.items()
        for name, rounds in run[key].items()
        if rounds
    ]


def beginning(run):
    return f"{run['frame_bytes']:>5} {run['flows']:>5}  {run['mode']:<18}"
