"""Times of different moments are compared by what a known plan took just then."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

import numpy as np
import pytest

from vkernels.autotune.measure.measures import Measurement
from vkernels.autotune.measure.timing import MAX_FACTOR, NOTICED, SETTLED, DriftCorrection, corrected_for_drift


class Moments:
    """Glances of some moments: as many in each as are asked for. `accidents`: glances that come before those."""

    def __init__(self, times: Sequence[float], usual: float | None = None, accidents: Sequence[float] = ()):
        self.times, self.accidents = iter(times), [*accidents]
        self.moment = 0.0
        self.pace = DriftCorrection(lambda: self.accidents.pop(0) if self.accidents else self.moment, usual)

    def now(self) -> float:
        self.moment = next(self.times)
        return self.pace.now()


def paced(times: Sequence[float], usual: float | None = None) -> Moments:
    return Moments(times, usual)


def test_what_differs_little_is_a_usual_moment():
    pace = paced([1.0, 1 + 0.9 * NOTICED, 1 - 0.9 * NOTICED, 1.0, 1.0, 1 + 0.9 * NOTICED])
    assert [pace.now() for _ in range(6)] == [1.0] * 6


def test_a_slow_moment_and_a_fast_one_are_told_by_how_much():
    pace = paced([2.0] * SETTLED + [2.6, 1.5, 2.0])
    assert [pace.now() for _ in range(SETTLED + 3)] == [1.0] * SETTLED + [1.3, 0.75, 1.0]
    assert pace.pace.usual == 2.0


def test_what_is_usual_stays_so_though_the_machine_becomes_slower_for_good():
    """Else earlier times would be of another moment."""
    pace = paced([1.0, 9.0, 1.0, 1.0, 1.1] + [1.3] * 50)
    told = [pace.now() for _ in range(SETTLED + 50)]
    assert told[SETTLED:] == [1.3] * 50
    assert paced([1.3], usual=1.0).now() == 1.3


def test_what_one_glance_shows_alone_is_an_accident():
    assert Moments([1.0], usual=1.0, accidents=[5.0]).now() == 1.0
    assert Moments([1.2], usual=1.0, accidents=[5.0]).now() == 1.2
    assert Moments([0.9], usual=1.0, accidents=[0.2]).now() == 0.9


def test_far_from_usual_is_no_more_than_some_times_as_long():
    assert paced([40.0], usual=1.0).now() == MAX_FACTOR
    assert paced([0.01], usual=1.0).now() == 1 / MAX_FACTOR


def test_a_time_and_its_interval_are_as_in_a_usual_moment():
    found = corrected_for_drift(Measurement(3.0, 2.4, 3.6, 9, 0.25, True), 1.5)
    assert (found.seconds, found.low, found.high) == pytest.approx((2.0, 1.6, 2.4))
    assert (found.repeats, found.disturbed, found.loaded) == (9, 0.25, True)


def test_plans_that_are_timed_as_the_machine_drifts_are_ranked_as_they_are():
    seed = int(np.random.default_rng().integers(2**32))
    print(f"seed {seed}")
    random = np.random.default_rng(seed)
    plans = np.array([1.0, *random.permutation(np.linspace(1.1, 2.0, 9))])  # the fastest is timed at a slow moment
    moments = cycle([1.0] * SETTLED + [1.5, 1.0, 0.7])
    machine = [1.0]
    pace = DriftCorrection(lambda: 4.0 * machine[0])
    raw, told = {}, {}
    for number in [0] * SETTLED + [*range(len(plans))]:
        machine[0] = next(moments)
        times = pace.now()
        raw[number] = machine[0] * plans[number]
        told[number] = corrected_for_drift(Measurement(raw[number], raw[number], raw[number], 9), times).seconds
    assert sorted(told, key=lambda number: told[number]) == list(np.argsort(plans))
    assert sorted(raw, key=lambda number: raw[number]) != list(np.argsort(plans))
