"""What a search learns from times on other devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from vkernels.autotune.drive import Stop, drive
from vkernels.autotune.searches import SEARCHES, FailedPoint, Outcome, elsewhere
from vkernels.autotune.searches.elsewhere import LEAST, SLOW, TimesElsewhere
from vkernels.autotune.searches.forest import START, ForestSearch
from vkernels.autotune.space import Constraint, Point, SearchSpace

from ..library.reference import fresh_seed

SPACE = SearchSpace(
    {"a": [1, 2, 4, 8, 16, 32], "b": list(range(10)), "c": ["x", "y", "z"], "d": [1, 2, 3, 4]},
    [Constraint(("a", "d"), lambda a, d: a * d <= 64)],
)
Measure = Callable[[Point], Outcome]


def rugged(seed: int) -> Measure:
    """A time for each point by itself: nothing near a point tells of it. One in eight fails."""
    numbers = np.random.default_rng(seed)
    times = {point: float(time) for point, time in zip(SPACE, numbers.lognormal(0.0, 1.0, 10000), strict=False)}
    failing = {point for point in times if numbers.random() < 1 / 8}
    return lambda point: FailedPoint("does not fit") if point in failing else times[point]


def outcomes(measure: Measure, share: float = 1.0, seed: int = 0) -> dict[Point, Outcome]:
    numbers = np.random.default_rng(seed)
    return {point: measure(point) for point in SPACE if numbers.random() < share}


def evaluations(measure: Measure, elsewhere: list[Mapping[Point, Outcome]], seed: int, within: float = 1.0) -> int:
    """Points until one is found that takes no more than `within` times the least."""
    goal = within * min(time for point in SPACE if isinstance(time := measure(point), float))
    search = SEARCHES["forest"](SPACE, seed=seed, elsewhere=elsewhere)
    while search.best is None or search.best.seconds > goal:
        drive(search, measure, Stop(evaluations=len(search.told) + 1))
    return len(search.told)


def test_a_device_whose_times_are_in_proportion_shows_the_fastest_points() -> None:
    seed = fresh_seed()
    here = rugged(seed)
    there = {point: 7 * time if isinstance(time, float) else time for point, time in outcomes(here).items()}
    assert evaluations(here, [there], seed) <= 3


@pytest.mark.slow
def test_of_two_devices_the_one_that_resembles_this_one_counts() -> None:
    seed = fresh_seed()
    here, other = rugged(seed), rugged(seed + 1)
    found = [evaluations(here, [outcomes(other), outcomes(here, 0.9)], each, within=1.3) for each in range(3)]
    alone = [evaluations(here, [], each, within=1.3) for each in range(3)]
    assert np.median(found) < np.median(alone)


@pytest.mark.slow
def test_a_device_that_misleads_does_not_keep_a_search_from_going_through_the_space() -> None:
    seed = fresh_seed()
    here = rugged(seed)
    wrong = {point: 1 / time if isinstance(time, float) else time for point, time in outcomes(here).items()}
    assert evaluations(here, [wrong], seed) <= len(list(SPACE))


class CountsRandomPoints(ForestSearch):
    count = 0

    def _any_new(self) -> Point | None:
        self.count += 1
        return super()._any_new()


def test_a_search_that_other_devices_do_not_help_goes_on_exploring() -> None:
    search = CountsRandomPoints(SPACE, seed=fresh_seed(), elsewhere=[outcomes(rugged(fresh_seed()))])
    drive(search, lambda point: 1.0, Stop(evaluations=120))
    assert search.count >= START + 3, "the independent search has had some fifty turns"


@pytest.mark.sample(2)
@pytest.mark.parametrize("after", [0, 5, 40])
def test_the_same_seed_asks_the_same_and_a_resumed_search_goes_on_the_same(after: int) -> None:
    seed = fresh_seed()
    here, there = rugged(seed), [outcomes(rugged(seed + 1), 0.3), outcomes(rugged(seed), 0.2)]
    one, other = (SEARCHES["forest"](SPACE, seed=seed, elsewhere=there) for _ in range(2))
    drive(one, here, Stop(evaluations=60))
    for trial in one.told[:after]:
        other.tell(trial.point, trial.outcome)
    drive(other, here, Stop(evaluations=60))
    assert [trial.point for trial in one.told] == [trial.point for trial in other.told]


def test_times_are_relative_to_each_devices_best_and_filled_in_where_they_are_unknown() -> None:
    points = list(SPACE)[: 2 * LEAST]
    known = {point: 1e-3 * (1 + number) for number, point in enumerate(points[:LEAST])}
    found = TimesElsewhere(SPACE, [known, {points[0]: 1.0}, {(0, 0, "w", 0): 1.0}], 0)
    numbers = found.numbers(points)
    assert numbers.shape == (len(points), 3), "one device has enough times; then there are the mean and the least"
    expected = np.minimum(SLOW, np.log([1 + number for number in range(LEAST)]))
    np.testing.assert_allclose(numbers[:LEAST, 0], expected, rtol=1e-6)
    assert np.isfinite(numbers).all()
    assert ((numbers >= 0) & (numbers <= SLOW)).all()
    assert found.points[0] == points[0]


def test_rows_of_points_are_the_same_whether_they_are_kept_or_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = fresh_seed()
    monkeypatch.setattr(elsewhere, "KEPT", 100)
    times = TimesElsewhere(SPACE, [outcomes(rugged(seed), 0.4), outcomes(rugged(seed + 1), 0.3)], seed)
    numbers = np.random.default_rng(seed)
    points = [point for point in SPACE if numbers.random() < 0.5]
    kept = {*times.points[:100]}
    assert any(point in kept for point in points)
    assert any(point not in kept for point in points)
    expected = np.hstack([SPACE.encode(points), times.numbers(points)])
    for _ in range(2):
        rows = times.rows(points)
        assert rows.dtype == np.float32
        np.testing.assert_array_equal(rows, expected)
        rows[:] = np.nan


def test_failures_count_as_slow_and_devices_with_few_times_not_at_all() -> None:
    points = list(SPACE)[: LEAST + 4]
    known: dict[Point, Outcome] = dict.fromkeys(points[:LEAST], 1.0)
    known |= {point: FailedPoint("does not fit") for point in points[LEAST:]}
    assert TimesElsewhere(SPACE, [known], 0).numbers(points[LEAST:])[:, 0].tolist() == [SLOW] * 4
    assert not TimesElsewhere(SPACE, [dict(list(known.items())[1:])], 0)
