"""The search for offsets within a capacity, begun again and again: each try with another order and more steps."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .exact import Geometry, GivenUp, Ints, Search, geometry_of
from .trace import Lifetime

Floats = np.ndarray[Any, np.dtype[np.float64]]
ORDERS = (
    (1, 0, 0), (1, 0.5, 0), (1, 0, 5), (1, 0.5, 5), (1, 0.25, 2), (1, 1, 0), (0, 1, 0), (1, 0.75, 10),
)  # fmt: skip
"""Powers of a block's lifetime, of its size and of the most bytes live while it is: the largest product is first."""
FIRST_STEPS = 2
"""Steps of a first try, for each block."""


@dataclass(frozen=True)
class Found:
    """Offsets, aligned with the blocks; None where none were found. `proved`: there are none."""

    offsets: list[int] | None
    proved: bool = False


def fit_within(blocks: Sequence[Lifetime], count: int, capacity: int, seconds: float, seed: int = 0) -> Found:
    """Offsets for blocks of at least a byte each within `capacity` bytes, if any are found in so many seconds."""
    deadline = time.monotonic() + seconds
    offsets = np.zeros(len(blocks), np.int64)
    parts = [part for part in _apart(blocks, count) if len(part)]
    for part in parts:
        geometry = geometry_of([blocks[n] for n in part], count)
        if geometry.load.sum(0).max() > capacity:
            return Found(None, proved=True)
        try:
            found = _tries(geometry, capacity, deadline, seed)
        except GivenUp:
            return Found(None)
        if found is None:
            return Found(None, proved=True)
        offsets[part] = found
    return Found([int(each) for each in offsets])


def _apart(blocks: Sequence[Lifetime], count: int) -> list[list[int]]:
    """Indices of blocks in groups that share no moment."""
    if any(block.end > count for block in blocks):
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
    """None where there are no offsets. Raises `GivenUp` after the deadline."""
    steps = FIRST_STEPS * len(geometry.sizes)
    for powers, noise, factor, crowded in _orders(np.random.default_rng(seed)):
        if time.monotonic() > deadline:
            raise GivenUp
        rank = _rank(geometry, powers, noise)
        try:
            return Search(geometry, capacity, rank, max(100, int(steps * factor)), deadline, crowded).run()
        except GivenUp:
            continue
    raise GivenUp


def _orders(random: np.random.Generator) -> Iterator[tuple[tuple[float, ...], Floats | None, float, bool]]:
    """Powers, noise, the factor on steps, whether crowded moments come first: without end."""
    round_ = 0
    while True:
        for powers in ORDERS:
            yield powers, None, 1.5**round_, True
            yield powers, None, 1.5**round_, False
        for _ in range(24):
            powers = (1, *(random.uniform(0, 1, 2) * (random.uniform(size=2) > 0.3) * (1, 10)))
            noise = random.normal(size=4096) * random.choice([0, 0.1, 0.3])
            yield powers, noise, 1.5**round_, bool(random.uniform() > 0.2)
        round_ += 1


def _rank(geometry: Geometry, powers: tuple[float, ...], noise: Floats | None) -> Ints:
    figures = (geometry.lengths, geometry.sizes, geometry.crowds)
    score = np.zeros(len(geometry.sizes)) if noise is None else np.resize(noise, len(geometry.sizes))
    for power, figure in zip(powers, figures, strict=True):
        score = score + power * np.log(figure)
    order = np.lexsort((-geometry.sizes, -geometry.lengths, -np.round(score, 9)))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank
