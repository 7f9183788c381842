"""What holds of every search, on random spaces with random times and failures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vkernels.autotune.drive import Stop, drive, since_gain
from vkernels.autotune.searches import DEFAULT_SEARCH, SEARCHES, FailedPoint, Outcome, Search
from vkernels.autotune.space import Constraint, Point, SearchSpace
from vkernels.ir.errors import ArgumentError

from .spaces import landscape, spaces

EVERY = pytest.mark.parametrize("name", list(SEARCHES))
GRID = SearchSpace({"x": list(range(12)), "y": list(range(12)), "z": ["a", "b", "c"]})
HUGE = SearchSpace({f"p{at}": list(range(8)) for at in range(9)}, [Constraint(("p0", "p8"), lambda a, b: a <= b)])
seeds = st.integers(0, 1000)


def run(search: Search, measure: Any, most: int = 10_000) -> list[Point]:
    drive(search, measure, Stop(evaluations=most))
    return [told.point for told in search.told]


@EVERY
@settings(max_examples=12)
@given(space=spaces(), seed=seeds)
def test_every_point_is_asked_for_exactly_once_and_then_none(name: str, space: SearchSpace, seed: int) -> None:
    search = SEARCHES[name](space, seed=seed)
    asked = run(search, landscape(space, seed))
    assert len(asked) == len(set(asked))
    assert set(asked) == set(space)
    assert search.ask() is None


@EVERY
@settings(max_examples=12)
@given(space=spaces(), seed=seeds)
def test_points_asked_for_before_any_is_told_differ_too(name: str, space: SearchSpace, seed: int) -> None:
    search, measure = SEARCHES[name](space, seed=seed), landscape(space, seed)
    asked: list[Point] = []
    while batch := [point for _ in range(4) if (point := search.ask()) is not None]:
        asked += batch
        for point in reversed(batch):
            search.tell(point, measure(point))
    assert sorted(map(repr, asked)) == sorted(map(repr, space))


@pytest.mark.slow
@EVERY
@settings(max_examples=8)
@given(seed=seeds, after=st.integers(0, 45))
def test_the_same_seed_asks_the_same_and_a_resumed_search_goes_on_the_same(name: str, seed: int, after: int) -> None:
    measure, given_seeds = landscape(GRID, seed), [(3, 4, "b"), (99, 0, "a"), (0, 0, "c")]
    first = SEARCHES[name](GRID, seed=seed, seeds=given_seeds)
    run(first, measure, 50)
    second = SEARCHES[name](GRID, seed=seed, seeds=given_seeds)
    for told in first.told[:after]:
        second.tell(told.point, told.outcome)
    run(second, measure, 50)
    assert second.told == first.told
    assert second.best == first.best


@EVERY
def test_another_seed_asks_otherwise(name: str) -> None:
    one, other = (run(SEARCHES[name](GRID, seed=seed), landscape(GRID, 1), 40) for seed in (1, 2))
    assert (one == other) == (name == "exhaustive")


@EVERY
def test_seeds_are_asked_for_first_in_their_order_without_those_that_the_space_lacks(name: str) -> None:
    wanted = [(5, 5, "a"), (12, 0, "a"), (5, 5, "a"), (0, 1, "c"), (1, 1)]
    search = SEARCHES[name](GRID, seeds=wanted)
    assert [search.ask(), search.ask()] == [(5, 5, "a"), (0, 1, "c")]


@EVERY
@settings(max_examples=12)
@given(space=spaces(), seed=seeds)
def test_a_space_where_all_fails_is_gone_through_and_has_no_best(name: str, space: SearchSpace, seed: int) -> None:
    search = SEARCHES[name](space, seed=seed)
    assert set(run(search, lambda point: FailedPoint("time-out"))) == set(space)
    assert search.best is None


@EVERY
def test_a_space_too_large_to_list_is_searched_within_its_constraints(name: str) -> None:
    assert HUGE.listed is None
    measure = landscape(HUGE, 3)
    search = SEARCHES[name](HUGE, seed=1)
    asked = run(search, measure, 60)
    assert len(set(asked)) == 60
    assert all(point[0] <= point[8] for point in asked)


@EVERY
@settings(max_examples=8)
@given(seed=seeds)
def test_points_never_asked_for_may_be_told_and_are_not_asked_for(name: str, seed: int) -> None:
    search, measure = SEARCHES[name](GRID, seed=seed), landscape(GRID, seed)
    foreign = list(GRID)[:: 7 + seed % 5]
    for point in foreign:
        search.tell(point, measure(point))
    assert not set(foreign) & {search.ask() for _ in range(5)}


@EVERY
def test_what_cannot_be_told_is_refused_and_changes_nothing(name: str) -> None:
    search = SEARCHES[name](GRID)
    search.tell((0, 0, "a"), 1.0)
    wrong: list[tuple[Any, Outcome]] = [((0, 0, "a"), 2.0), ((0, 0, "z"), 1.0), ((0, 0), 1.0), ([0, 0, "a"], 1.0)]
    wrong += [((1, 0, "a"), seconds) for seconds in (0.0, -1.0, float("nan"), float("inf"))]
    for point, outcome in wrong:
        with pytest.raises(ArgumentError):
            search.tell(point, outcome)
    assert len(search.told) == 1


@EVERY
def test_a_point_given_back_is_asked_for_again(name: str) -> None:
    space = SearchSpace({"x": [1, 2, 3]})
    search = SEARCHES[name](space)
    point = search.ask()
    assert point is not None
    search.give_back(point)
    assert set(run(search, lambda point: 1.0)) == set(space)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["forest", "genetic", "local"])
def test_searches_that_learn_find_more_than_chance_does(name: str) -> None:
    reached: dict[str, list[float]] = {name: [], "random": []}
    for seed in range(9):
        measure = landscape(GRID, seed)
        for each, found in reached.items():
            search = SEARCHES[each](GRID, seed=seed)
            run(search, measure, 100)
            assert search.best is not None
            found.append(search.best.seconds)
    assert np.median(reached[name]) < np.median(reached["random"]), reached


def test_a_measurement_that_raises_leaves_the_search_to_be_driven_on() -> None:
    search = SEARCHES[DEFAULT_SEARCH](GRID)

    def interrupted(point: Point) -> Outcome:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drive(search, interrupted, Stop(evaluations=5))
    first = SEARCHES[DEFAULT_SEARCH](GRID)
    assert run(search, landscape(GRID, 0), 5) == run(first, landscape(GRID, 0), 5)


def test_a_search_stops_by_evaluations_seconds_convergence_or_for_want_of_points() -> None:
    space = SearchSpace({"x": list(range(20))})
    clock = iter(range(100))
    assert drive(SEARCHES["random"](space), lambda point: 1.0, Stop(evaluations=7)) == "evaluations"
    assert drive(SEARCHES["random"](space), lambda point: 1.0, Stop(seconds=5), lambda: next(clock)) == "seconds"
    assert drive(SEARCHES["random"](space), lambda point: 1.0, Stop(patience=4)) == "patience"
    assert drive(SEARCHES["random"](space), lambda point: 1.0, Stop()) == "space"


def test_several_points_may_be_prepared_before_they_are_measured() -> None:
    search, prepared, measured = SEARCHES[DEFAULT_SEARCH](GRID), [], []

    def measure(point: Point) -> Outcome:
        measured.append(point)
        return 1.0 + len(measured)

    assert drive(search, measure, Stop(evaluations=8), at_once=lambda: 3, prepare=prepared.append) == "evaluations"
    assert [len(points) for points in map(set, prepared)] == [3, 3, 2]
    assert [point for points in prepared for point in points] == measured
    again = SEARCHES[DEFAULT_SEARCH](GRID)
    drive(again, measure, Stop(evaluations=8), at_once=lambda: 3)
    assert [each.point for each in again.told] == [each.point for each in search.told]


def test_another_point_may_be_prepared_after_each_measurement() -> None:
    search, prepared, measured = SEARCHES[DEFAULT_SEARCH](GRID), [], []

    def measure(point: Point) -> float:
        measured.append(point)
        assert sum(map(len, prepared)) == min(8, len(measured) + 2)
        return 1.0

    stop = Stop(evaluations=8)
    assert drive(search, measure, stop, at_once=lambda: 3, prepare=prepared.append, rolling=True) == "evaluations"
    assert [point for points in prepared for point in points] == measured
    assert len(set(measured)) == 8


def test_what_was_prepared_and_not_measured_is_asked_for_again() -> None:
    search, clock = SEARCHES["exhaustive"](SearchSpace({"x": [1, 2, 3, 4, 5]})), iter(range(100))
    assert drive(search, lambda point: 1.0, Stop(seconds=4), lambda: next(clock), at_once=lambda: 2) == "seconds"
    assert len(search.told) == 3
    assert drive(search, lambda point: 1.0, Stop(), at_once=lambda: 4) == "space"
    assert sorted(each.point for each in search.told) == [(1,), (2,), (3,), (4,), (5,)]


def test_convergence_counts_from_the_last_gain_that_is_worthwhile() -> None:
    search = SEARCHES["exhaustive"](SearchSpace({"x": [1, 2, 3, 4, 5]}))
    times = {1: 1.0, 2: 0.999, 3: 0.5, 4: 0.499, 5: 2.0}
    run(search, lambda point: times[point[0]])
    assert since_gain(search) == 1
    assert since_gain(search, 0.01) == 2


def test_the_default_search_descends_from_the_best_seed_first() -> None:
    space = SearchSpace({name: list(range(8)) for name in "abc"})
    search = SEARCHES[DEFAULT_SEARCH](space, seeds=[(1, 1, 1), (5, 4, 4), (7, 0, 7)])
    drive(search, lambda point: 1.0 + sum(abs(value - 3) for value in point), Stop(evaluations=3))
    for _ in range(8):
        best = search.best.point
        drive(search, lambda point: 1.0 + sum(abs(value - 3) for value in point), Stop(len(search.told) + 1))
        assert sum(one != other for one, other in zip(search.told[-1].point, best, strict=True)) == 1
