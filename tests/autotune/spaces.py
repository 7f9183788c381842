"""Spaces and times that the tests of searches share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from vkernels.autotune.searches import FailedPoint, Outcome
from vkernels.autotune.space import Constraint, Point, SearchSpace

VALUES = ([1, 2, 4, 8, 16], [3, 1, 2], [False, True], ["shared", "memory", "recompute"], [0.5], [None, 7])


def even_sum(*numbers: float) -> bool:
    return sum(numbers) % 2 == 0


@st.composite
def spaces(draw: st.DrawFn) -> SearchSpace:
    """Up to 180 points: all, those of a constraint, or all but some; empty and of one point among them."""
    values = {f"p{at}": draw(st.sampled_from(VALUES)) for at in range(draw(st.integers(0, 4)))}
    numbers = tuple(name for name, given in values.items() if all(isinstance(value, int) for value in given))
    constraints = [Constraint(numbers, even_sum)] if numbers and draw(st.booleans()) else []
    if values and draw(st.integers(0, 9)) == 0:
        constraints.append(Constraint((next(iter(values)),), lambda value: False))
    points = list(SearchSpace(values, constraints))
    invalid = draw(st.lists(st.sampled_from(points), max_size=3)) if points else []
    return SearchSpace(values, constraints, invalid)


def landscape(space: SearchSpace, seed: int, failing: float = 0.2) -> Callable[[Point], Outcome]:
    """Seconds that fall towards a random point, with noise of a tenth; a part of the points fails."""
    random = np.random.default_rng(seed)
    goal = [int(random.integers(len(values))) for values in space.values]
    weights = random.exponential(size=len(goal))

    def measure(point: Point) -> Outcome:
        here = [values.index(value) for values, value in zip(space.values, point, strict=True)]
        chance = np.random.default_rng([seed, *here])
        if chance.random() < failing:
            return FailedPoint("does not fit")
        away = sum(w * abs(a - b) for w, a, b in zip(weights, here, goal, strict=True))
        return float(1e-3 * np.exp(away + 0.1 * chance.standard_normal()))

    return measure
