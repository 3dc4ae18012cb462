"""Ratios of paired measurements, and confidence intervals of medians."""

import random
import statistics

RESAMPLES = 4000
# With fewer numbers the interval would be no better than minimum and maximum.
ROUNDS_LEAST = 5


def spread(numbers):
    """Returns (max - min) / median."""
    median = statistics.median(numbers)
    return (max(numbers) - min(numbers)) / median if median else 0.0


def ratios(ours, theirs):
    """Returns the ratios of common rounds, which are adjacent in time; rounds with theirs at 0 are left out."""
    return [ours[round_] / theirs[round_] for round_ in sorted(ours.keys() & theirs.keys()) if theirs[round_]]


def interval(numbers):
    """Returns the median's 95 % bootstrap interval, with a fixed seed; `None` for too few numbers."""
    if len(numbers) < ROUNDS_LEAST:
        return None
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(numbers, k=len(numbers))) for _ in range(RESAMPLES))
    return [round(medians[at], 3) for at in (RESAMPLES * 25 // 1000, RESAMPLES * 975 // 1000 - 1)]
