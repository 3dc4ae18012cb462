"""Medians, ratios and their intervals, and how they are shown."""

import random
import statistics

RESAMPLES = 4000
# The medians of resamples of fewer numbers say no more than the least and the most of them.
ROUNDS_LEAST = 5


def spread(numbers):
    """(max - min) / median."""
    middle = statistics.median(numbers)
    return (max(numbers) - min(numbers)) / middle if middle else 0.0


def ratios(ours, theirs):
    """Ratios of the rounds that both have, whose measurements are neighbours in time; none where theirs is 0."""
    return [ours[round_] / theirs[round_] for round_ in sorted(ours.keys() & theirs.keys()) if theirs[round_]]


def interval(numbers):
    """What holds 95 % of the medians of resamples; the same numbers give the same interval. `None`: too few numbers."""
    if len(numbers) < ROUNDS_LEAST:
        return None
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(numbers, k=len(numbers))) for _ in range(RESAMPLES))
    return [round(medians[at], 3) for at in (RESAMPLES * 25 // 1000, RESAMPLES * 975 // 1000 - 1)]


def summary(measured, cases, names):
    """One object for each case. `measured[case, name]` has the measurements by round; a round that failed has none."""
    runs = []
    for case in cases:
        taken = {name: measured[case, name] for name in names if measured.get((case, name))}
        kpps = {name: {round_: one["kpps"] for round_, one in rounds.items()} for name, rounds in taken.items()}

        def each(of, what):
            return {name: of(what[name]) if name in what else None for name in names}

        def middle(key, digits):
            return each(lambda rounds: round(statistics.median(one[key] for one in rounds.values()), digits), taken)

        to = {name: ratios(kpps["xoff"], theirs) for name, theirs in kpps.items() if name != "xoff" and "xoff" in kpps}
        to = {name: of_rounds for name, of_rounds in to.items() if of_rounds}
        mode, frame_bytes, flows = case
        runs.append({
            "frame_bytes": frame_bytes,
            "flows": flows,
            "mode": mode,
            "kpps": each(lambda rounds: round(statistics.median(rounds.values()), 1), kpps),
            "spread": each(lambda rounds: round(spread(rounds.values()), 3), kpps),
            "xoff_to": {name: round(statistics.median(of_rounds), 3) for name, of_rounds in to.items()},
            "xoff_to_interval": {name: interval(of_rounds) for name, of_rounds in to.items()},
            "gbps": middle("gbps", 3),
            "offered_kpps": middle("offered_kpps", 1),
            "core_share": middle("core_share", 3),
            "rounds": each(len, taken),
            "rounds_disturbed": each(lambda rounds: sum(one["disturbed"] for one in rounds.values()), taken),
            "rounds_without_frames": each(lambda rounds: sum(not one["kpps"] for one in rounds.values()), taken),
        })  # fmt: skip
    return runs


def table(runs, names):
    lines = [f"{'frame':>5} {'flows':>5}  {'mode':<18}" + "".join(f"{name:>22}" for name in names)]
    for one in runs:
        cells = []
        for name in names:
            kpps, spread_, gbps = (one[key][name] for key in ("kpps", "spread", "gbps"))
            cells.append("-" if kpps is None else f"{kpps:.0f} (±{spread_ * 50:.0f} %) {gbps:5.2f}")
        lines.append(beginning(one) + "".join(f"{cell:>22}" for cell in cells))
    lines.append(
        "\nthousands of frames a second that arrived, medians (± half of the range), and Gb/s of these frames with FCS. xoff to"
        f"\nthe others, medians of the ratios round by round (and what 95 % of resamples have, from {ROUNDS_LEAST} rounds on):"
    )
    for one in runs:
        intervals = one["xoff_to_interval"]
        ratio = (
            f"{value:.2f} x {name}" + ("" if (of := intervals[name]) is None else f" ({of[0]:.2f} to {of[1]:.2f})")
            for name, value in one["xoff_to"].items()
        )
        lines.append(beginning(one) + ", ".join(ratio))
    return "\n".join(lines + notes(runs))


def notes(runs):
    """What numbers hide."""
    said = {
        "rounds_disturbed": "the forwarder's share of its core was another than it should be, however often it was measured",
        "rounds_without_frames": "it forwarded nothing: there is no ratio to it",
    }
    return [
        f"{beginning(one)}{name}: in {rounds} of {one['rounds'][name]} rounds {text}"
        for one in runs
        for key, text in said.items()
        for name, rounds in one[key].items()
        if rounds
    ]


def beginning(one):
    return f"{one['frame_bytes']:>5} {one['flows']:>5}  {one['mode']:<18}"
