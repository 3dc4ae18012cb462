"""Ratios of paired measurements, and how sure a median is."""

import random
import statistics

RESAMPLES = 4000
# With fewer numbers the medians of resamples are no better than the minimum and the maximum.
ROUNDS_LEAST = 5


def spread(numbers):
    """Returns (max - min) / median."""
    median = statistics.median(numbers)
    return (max(numbers) - min(numbers)) / median if median else 0.0


def ratios(ours, theirs):
    """Returns the ratios of the rounds that both have, which are neighbours in time; none where theirs is 0."""
    return [ours[round_] / theirs[round_] for round_ in sorted(ours.keys() & theirs.keys()) if theirs[round_]]


def interval(numbers):
    """Returns the ends of 95 % of the medians of resamples, the same for the same numbers. `None`: too few numbers."""
    if len(numbers) < ROUNDS_LEAST:
        return None
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(numbers, k=len(numbers))) for _ in range(RESAMPLES))
    return [round(medians[at], 3) for at in (RESAMPLES * 25 // 1000, RESAMPLES * 975 // 1000 - 1)]
