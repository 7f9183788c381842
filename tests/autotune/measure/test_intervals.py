"""The interval holds the median as often as it says, whatever the times' distribution."""

from __future__ import annotations

from fractions import Fraction
from math import comb
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkernels.autotune.measure.timing import interval, interval_of_few, is_narrow, is_sure, ranks, widened

times = st.floats(1e-9, 1e3)
many = st.lists(times, min_size=1, max_size=60)


def _outside(count: int, left_out: int) -> Fraction:
    """The probability that the median lies beyond the values that remain on either side."""
    return Fraction(2 * sum(comb(count, rank) for rank in range(left_out + 1)), 2**count)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.99])
def test_as_many_are_left_out_as_may_be_and_no_more(confidence: float):
    for count in range(1, 200):
        left_out = ranks(count, confidence)
        if left_out >= 0:
            assert _outside(count, left_out) <= 1 - Fraction(confidence)
        if 2 * (left_out + 1) < count - 1:
            assert _outside(count, left_out + 1) > 1 - Fraction(confidence)


def test_six_values_are_the_fewest_for_95_of_100():
    assert [is_sure(count) for count in (1, 5, 6, 7)] == [False, False, True, True]


@pytest.mark.sample(6)
@pytest.mark.parametrize("draw", ["lognormal", "exponential", "two peaks", "mostly one value"])
@pytest.mark.parametrize("count", [6, 15, 40])
def test_the_median_lies_within_in_at_least_95_of_100_cases(draw: str, count: int):
    """The same 4000 cases each time: the standard deviation of what is counted is 0.35 of 100."""
    random = np.random.default_rng(7)
    shape = (4000, count)
    if draw == "lognormal":
        values, truth = random.lognormal(0, 2, shape), 1.0
    elif draw == "exponential":
        values, truth = random.exponential(1, shape), float(np.log(2))
    elif draw == "two peaks":
        values = np.where(random.random(shape) < 0.6, random.normal(1, 0.01, shape), random.normal(5, 0.01, shape))
        truth = float(np.median(np.where(np.arange(10**6) < 6 * 10**5, 1, 5)) + 0.01 * 0.967421)
    else:
        values, truth = np.where(random.random(shape) < 0.7, 1.0, 2.0), 1.0
    inside = [low <= truth <= high for low, high in map(interval, values.tolist())]
    assert np.mean(inside) > 0.94


@given(many, st.randoms())
def test_neither_order_nor_unit_matters(values: list[float], random):
    shuffled = random.sample(values, len(values))
    assert (median(shuffled), interval(shuffled)) == (median(values), interval(values))
    low, high = interval([4 * value for value in values])
    assert (low / 4, high / 4) == interval(values)
    assert median([4 * value for value in values]) == 4 * median(values)


@given(many)
def test_the_median_of_the_values_lies_between_two_of_them(values: list[float]):
    low, high = interval(values)
    assert low in values
    assert high in values
    assert low <= median(values) * (1 + 1e-15)
    assert median(values) <= high * (1 + 1e-15)


@given(times, st.integers(6, 100))
def test_what_always_takes_the_same_is_narrow_and_few_values_never_are(value: float, count: int):
    assert is_narrow([value] * count, 0.0)
    assert not is_narrow([value] * 5, 1.0)


@given(many, st.floats(0, 1))
def test_widening_never_loses_what_was_inside(values: list[float], share: float):
    low, high = interval(values)
    lower, higher = widened(low, high, share)
    assert 0 < lower <= low <= high <= higher


def test_an_interval_of_few_holds_the_middle_as_often_as_it_says():
    seed = int(np.random.default_rng().integers(2**32))
    print(f"seed {seed}")
    random = np.random.default_rng(seed)
    for count in (2, 3, 5):
        logs = random.normal(np.log(3.0), 0.1, (4000, count))
        ends = [interval_of_few(list(np.exp(row))) for row in logs]
        held = np.mean([low <= 3.0 <= high for low, high in ends])
        assert 0.93 < held < 0.97, f"{count} values"
    low, high = interval_of_few([1.0, 2.0, 4.0])
    quantile = 4.302652729911275  # of Student's distribution: 0.975, two degrees of freedom
    np.testing.assert_allclose(np.log2([low, high]), [1 - quantile / 3**0.5, 1 + quantile / 3**0.5])
    assert interval_of_few([0.7] * 3) == (pytest.approx(0.7), pytest.approx(0.7))
    for few in ([], [1.0]):
        with pytest.raises(ValueError, match="spread"):
            interval_of_few(few)
