"""Seeds from what neighbours found."""

from __future__ import annotations

from vkernels.autotune.history import best_of_neighbours
from vkernels.autotune.searches import FailedPoint, Outcome
from vkernels.autotune.space import Point, SearchSpace

SPACE = SearchSpace({"x": [1, 2, 3, 4, 5, 6]})


def told(*seconds: float | None) -> dict[Point, Outcome]:
    return {(x,): FailedPoint("does not fit") if s is None else s for x, s in enumerate(seconds, 1) if s != 0}


def test_the_first_seeds_cover_the_neighbours_before_the_mean_ranks_the_rest() -> None:
    one, other = told(1.0, 1.1, 1.2, 9.0, 8.0, 2.0), told(9.0, 8.0, 7.0, 1.0, 1.05, 2.0)
    seeds = best_of_neighbours(SPACE, [one, other], 4)
    assert set(seeds[:2]) == {(1,), (4,)}
    assert seeds[2:] == [(5,), (2,)]


def test_points_that_the_space_lacks_or_that_failed_everywhere_are_no_seeds() -> None:
    space = SearchSpace({"x": [2, 3, 4, 5, 6]})
    assert best_of_neighbours(space, [told(1.0, None, 3.0)], 9) == [(3,)]


def test_no_neighbours_and_neighbours_without_a_success_give_no_seeds() -> None:
    assert best_of_neighbours(SPACE, []) == []
    assert best_of_neighbours(SPACE, [{}, told(None, None)]) == []
    assert best_of_neighbours(SPACE, [told(1.0)], 0) == []


def test_a_point_measured_on_some_neighbours_only_scores_nothing_on_the_others() -> None:
    assert best_of_neighbours(SPACE, [told(1.0, 2.0), told(0, 1.0)], 1) == [(2,)]
