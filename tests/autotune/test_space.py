"""Spaces: which points there are, neighbours, encodings, and what is refused."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkernels.autotune.space import Constraint, Point, SearchSpace, Value
from vkernels.ir.errors import ArgumentError

from .spaces import spaces


@given(space=spaces())
def test_a_space_lists_just_the_points_that_it_contains(space: SearchSpace) -> None:
    contained = [point for point in product(*space.values) if point in space]
    assert list(space) == contained
    assert space.listed == tuple(contained)


@given(space=spaces(), seed=st.integers(0, 99))
def test_samples_are_points_and_an_empty_space_has_none(space: SearchSpace, seed: int) -> None:
    point = space.sample(np.random.default_rng(seed))
    assert (point is None) == (not list(space))
    assert point is None or point in space


@given(space=spaces())
def test_neighbours_are_the_points_that_differ_in_one_value(space: SearchSpace) -> None:
    for point in list(space)[:5]:
        near, far = space.neighbours(point)
        differing = [p for p in space if sum(a != b for a, b in zip(p, point, strict=True)) == 1]
        assert sorted(map(repr, near + far)) == sorted(map(repr, differing))
        for other in near:
            column = next(c for c in range(len(point)) if other[c] != point[c])
            assert abs(space.values[column].index(other[column]) - space.values[column].index(point[column])) == 1


@given(space=spaces())
def test_different_points_have_different_codes(space: SearchSpace) -> None:
    points = list(space)
    codes = space.encode(points)
    assert len(codes) == len(points)
    assert len(np.unique(codes, axis=0)) == len(points)


def test_sizes_are_encoded_with_their_products_and_names_with_flags() -> None:
    space = SearchSpace({"x": [1, 2, 8], "y": [4, 16, 64], "home": ["a", "b", "c"], "flag": [False, True], "one": [5]})
    rows = space.encode([(1, 64, "b", True, 5), (8, 4, "c", False, 5)])
    assert rows.tolist() == [[0, 2, 1, 0, 1, 0, 1, 6], [2, 0, 2, 0, 0, 1, 0, 5]]


def test_constraints_are_checked_as_soon_as_their_values_are_known() -> None:
    seen: list[tuple[Value, ...]] = []

    def holds(a: int, b: int) -> bool:
        seen.append((a, b))
        return a == b

    space = SearchSpace(
        {"a": [1, 2], "b": [1, 2], **{f"c{at}": list(range(10)) for at in range(3)}}, [Constraint(("a", "b"), holds)]
    )
    assert space.listed is not None
    assert len(space.listed) == 2000
    assert len(seen) == 4


@pytest.mark.slow
def test_a_large_space_is_sampled_without_being_listed() -> None:
    space = SearchSpace(
        {f"p{at}": list(range(50)) for at in range(20)}, [Constraint(("p3", "p7"), lambda a, b: a * b == 12)]
    )
    assert space.listed is None
    drawn = {space.sample(np.random.default_rng(seed)) for seed in range(20)}
    assert len(drawn) > 10
    assert all(point in space for point in drawn)


def test_the_space_of_points_has_just_these_in_their_order() -> None:
    points: list[Point] = [(2, "b"), (1, "a"), (2, "a")]
    space = SearchSpace.of_points({"x": [1, 2], "y": ["a", "b"]}, points)
    assert list(space) == points
    assert (1, "b") not in space
    assert space.named((2, "a")) == {"x": 2, "y": "a"}
    assert space.point({"y": "a", "x": 2}) == (2, "a")


@pytest.mark.parametrize(
    ("parameters", "constraints", "says"),
    [
        ({"x": [1, 2, 1]}, [], "x has a value twice"),
        ({"x": [1, True]}, [], "x has a value twice"),
        ({"x": [[1]]}, [], "can be no value"),
        ({"x": [float("nan")]}, [], "can be no value"),
        ({"x": [1]}, [Constraint(("x", "y"), lambda x, y: True)], "names y"),
        ({"x": [1]}, [Constraint((), lambda: True)], "names nothing"),
    ],
)
def test_what_makes_no_space_is_refused_by_name(parameters: Any, constraints: Any, says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        SearchSpace(parameters, constraints)


@pytest.mark.parametrize("point", [{"x": 1}, {"x": 1, "y": 2, "z": 3}])
def test_a_point_needs_each_name_and_no_other(point: Any) -> None:
    with pytest.raises(ArgumentError, match="a value for each of x, y"):
        SearchSpace({"x": [1], "y": [2]}).point(point)
