"""The median of repeated times and how sure it is, without supposing how times are distributed unless they are few."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import comb, exp, log, sqrt
from statistics import fmean, stdev

CONFIDENCE = 0.95
NOWHERE = float("inf")


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two in the middle. Raises `ValueError` for none."""
    if not values:
        raise ValueError("no values have no median")
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def interval(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Two of the values, between which the distribution's median lies with this probability, at least.

    Each value is above the median as likely as below, so the median is outside the k lowest and k highest of n values
    with a probability that is the binomial distribution's, whatever the values' own. Where n is too small even for the
    lowest and the highest, these are given: `is_sure` tells.
    """
    ordered = sorted(values)
    left_out = max(0, ranks(len(ordered), confidence))
    return ordered[left_out], ordered[-1 - left_out]


def interval_of_few(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Where the mean of positive values lies with this probability, if their logarithms are spread as a normal
    distribution is: Student's interval. Says something of three values, where `interval` needs six.

    Raises `ValueError` for fewer than two.
    """
    if len(values) < 2:
        raise ValueError(f"the spread of {len(values)} values is not known")
    from scipy.special import stdtrit

    logs = [log(value) for value in values]
    reach = float(stdtrit(len(logs) - 1, (1 + confidence) / 2)) * stdev(logs) / sqrt(len(logs))
    return exp(fmean(logs) - reach), exp(fmean(logs) + reach)


def is_sure(count: int, confidence: float = CONFIDENCE) -> bool:
    """Whether so many values are enough for an interval of this confidence."""
    return ranks(count, confidence) >= 0


@cache
def ranks(count: int, confidence: float = CONFIDENCE) -> int:
    """How many values may be left out on either side; -1 where even the outermost are too few."""
    outside, left_out = 0, -1
    whole = 1 << count
    while left_out + 1 < (count + 1) // 2:
        outside += comb(count, left_out + 1)  # the median is below the value of this rank
        if whole - 2 * outside < confidence * whole:
            break
        left_out += 1
    return left_out


def is_narrow(values: Sequence[float], width: float, confidence: float = CONFIDENCE) -> bool:
    """Whether the interval is sure, and no wider than this part of the median."""
    if not is_sure(len(values), confidence):
        return False
    low, high = interval(values, confidence)
    return high - low <= width * median(values)


def widened(low: float, high: float, share: float) -> tuple[float, float]:
    """An interval for times of which this part may have been others': longer than they should be, or not."""
    return low * (1 - min(0.9, share)), high * (1 + share)
