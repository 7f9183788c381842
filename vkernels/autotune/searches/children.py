"""Points near given ones: some values of another of them, some by chance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..space import Point, SearchSpace, Value

MAX_CHANGED = 3
"""Values that are drawn anew in a child, at most."""


def children(space: SearchSpace, parents: Sequence[Point], count: int, random: np.random.Generator) -> Iterator[Point]:
    """Points of the space near `parents`; of `count` tries, those that are points at all.

    Half of them take each value from either of two parents; then one to three values are drawn anew.
    """
    width = len(space.names)
    if not width:
        return
    pairs = random.integers(len(parents), size=(count, 2))
    mixed = random.random((count, width)) < 0.5 * (random.random((count, 1)) < 0.5)
    numbers = random.integers(1, MAX_CHANGED + 1, size=count)
    columns = random.integers(width, size=(count, MAX_CHANGED))
    drawn = random.random((count, MAX_CHANGED))
    for each in range(count):
        one, other = (parents[at] for at in pairs[each])
        child: list[Value] = [b if take else a for a, b, take in zip(one, other, mixed[each], strict=True)]
        for column, at in zip(columns[each, : numbers[each]], drawn[each], strict=False):
            values = space.values[column]
            child[column] = values[int(at * len(values))]
        if (point := tuple(child)) in space:
            yield point
