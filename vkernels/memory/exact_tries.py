"""The search for offsets within a capacity, begun again and again: each try with another order and more steps."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from .exact import Geometry, GivenUp, Ints, OffsetSearch, geometry_of
from .trace import Lifetime

Floats = np.ndarray[Any, np.dtype[np.float64]]
ORDERS: tuple[tuple[float, float, float], ...] = (
    (1, 0, 0),
    (1, 0.25, 0),
    (1, 0.5, 0),
    (1, 0.67, 0),
    (1, 0.75, 0),
    (1, 1, 0),
    (1, 0.5, 5),
    (0, 1, 0),
)
"""Powers of a block's lifetime, of its size and of the most bytes live while it is: the largest product is first."""
STEPS, GROWTH = 3, 1.15
"""Steps of a first try for each block, and how many times as many the tries of each next round have: most orders that
lead to a solution do within two steps a block."""
DRAWN = 24
"""Orders that are drawn in each round."""


@dataclass(frozen=True)
class OffsetSearchResult:
    """Offsets, aligned with the blocks; None where none were found. `proved`: there are none."""

    offsets: list[int] | None
    proved: bool = False


def fit_within(
    blocks: Sequence[Lifetime], moments: int, capacity: int, seconds: float, seed: int = 0
) -> OffsetSearchResult:
    """Offsets for blocks of at least a byte each within `capacity` bytes, if any are found in so many seconds."""
    deadline = time.monotonic() + seconds
    offsets = np.zeros(len(blocks), np.int64)
    parts = [part for part in _apart(blocks, moments) if len(part)]
    for part in parts:
        geometry = geometry_of([blocks[n] for n in part], moments)
        if geometry.load.sum(0).max() > capacity:
            return OffsetSearchResult(None, proved=True)
        try:
            found = _tries(geometry, capacity, deadline, seed)
        except GivenUp:
            return OffsetSearchResult(None)
        if found is None:
            return OffsetSearchResult(None, proved=True)
        offsets[part] = found
    return OffsetSearchResult([int(each) for each in offsets])


def _apart(blocks: Sequence[Lifetime], moments: int) -> list[list[int]]:
    """Split blocks into groups that share no moment; return their indices."""
    if any(block.end > moments for block in blocks):
        return [[*range(len(blocks))]]
    groups: list[list[int]] = []
    reached = -1
    for index in sorted(range(len(blocks)), key=lambda n: blocks[n].start):
        if blocks[index].start >= reached:
            groups.append([])
        groups[-1].append(index)
        reached = max(reached, blocks[index].end)
    return groups


def _tries(geometry: Geometry, capacity: int, deadline: float, seed: int) -> Ints | None:
    """Return offsets, or None if there are none. Raises `GivenUp` after the deadline."""
    steps = STEPS * len(geometry.sizes)
    for powers, noise, factor, crowded in _orders(np.random.default_rng(seed)):
        if time.monotonic() > deadline:
            raise GivenUp
        rank = _rank(geometry, powers, noise)
        try:
            return OffsetSearch(geometry, capacity, rank, int(steps * factor) + 20, deadline, crowded).run()
        except GivenUp:
            continue
    raise GivenUp


def _orders(random: np.random.Generator) -> Iterator[tuple[tuple[float, ...], Floats | None, float, bool]]:
    """Powers, noise, the factor on steps, whether crowded moments come first: without end."""
    for factor in (GROWTH**turn for turn in count()):
        for powers in ORDERS if factor == 1 else ():
            for crowded in (True, False):
                yield powers, None, factor, crowded
        for _ in range(DRAWN):
            powers = (1.0, random.uniform(0, 1.1), random.choice([0, 0, random.uniform(0, 10)]))
            noise = random.normal(size=4096) * random.choice([0, 0, 0.05, 0.1])
            yield powers, noise, factor, bool(random.uniform() < 0.7)


def _rank(geometry: Geometry, powers: tuple[float, ...], noise: Floats | None) -> Ints:
    figures = (geometry.lengths, geometry.sizes, geometry.crowds)
    score = np.zeros(len(geometry.sizes)) if noise is None else np.resize(noise, len(geometry.sizes))
    for power, figure in zip(powers, figures, strict=True):
        score = score + power * np.log(figure)
    order = np.lexsort((-geometry.sizes, -geometry.lengths, -np.round(score, 9)))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank
