"""Offsets for blocks within a capacity, by a complete search: if it finds none, there are none.

In a solution in which no block can move down, each block is at 0 or right on another. So each block has a *floor*, the
least offset that is left to it. The block with the least floor is either at its floor, and all blocks that overlap
it in time are above it; or its floor rises to the least top of a block that it could rest on. A branch ends at a moment
where the remaining blocks do not fit between floors and capacity. Blocks in groups without a common moment are searched
group by group. The search is repeated in rounds: each try has another order of blocks, each round more steps.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count, cycle, islice
from typing import Any

import numpy as np

from .skyline import Blocks, SkylineGivenUp, SkylineSearch
from .trace import Lifetime

Ints = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
Floats = np.ndarray[Any, np.dtype[np.float64]]
FAR = 1 << 62
MAX_DEPTH = 300
"""Maximum recursion depth of the search."""
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
"""Powers of a block's lifetime, its size and the most bytes live meanwhile: blocks with a large product are first."""
STEPS, GROWTH = 3, 1.15
"""Steps per block of a try in the first round, and their growth per round. Most orders that lead to a solution do so
within two steps a block."""
DRAWN = 24
"""Random orders in each round."""
SKYLINES = 30
"""Tries over the skyline after each of this search. A step of them takes a fifth of the time."""
SKYLINE_STEPS = 1.2
"""Steps per block of the shortest tries over the skyline."""
NOISES = (0.0, 0.2, 0.5, 1.0, 1.0, 2.0, 2.0, 3.0, 5.0, 10.0)
"""Randomness of the order of blocks in these, in turns."""
POWERS = (0.5, 1.0)
"""Powers of a block's size there, of which one is drawn for each try."""


class GivenUp(Exception):
    """The search exceeded its limit of steps or time."""


@dataclass(frozen=True)
class Geometry:
    """Blocks as arrays. `starts`, `ends`: moments; a block that wraps counts as always there in them.

    `cover`: block by moment, without moments that add nothing to a neighbouring one; `load`: its bytes. `meets`: block
    by block, whether two live at the same time; none meets itself. By block: `lengths` counts its moments, `crowds` has
    the most bytes live during it, `twins` a number that it shares with blocks of the same size and lifetime.
    """

    sizes: Ints
    starts: Ints
    ends: Ints
    cover: Flags
    load: Ints
    meets: Flags
    lengths: Ints
    crowds: Ints
    twins: Ints


def geometry_of(blocks: Sequence[Lifetime], moments: int) -> Geometry:
    """Convert blocks: at least one, of at least a byte each."""
    sizes = np.array([block.size for block in blocks], np.int64)
    cover = np.zeros((len(blocks), moments), bool)
    for row, block in zip(cover, blocks, strict=True):
        for start, end in block.spans(moments):
            row[start:end] = True
    cover = cover[:, _distinct_moments(cover)]
    wraps = np.array([block.end > moments for block in blocks], bool)
    starts = np.where(wraps, 0, cover.argmax(1))
    ends = cover.shape[1] - np.where(wraps, 0, cover[:, ::-1].argmax(1))
    counts = cover.astype(np.float32)
    meets = (counts @ counts.T) > 0
    np.fill_diagonal(meets, False)
    load = cover * sizes[:, None]
    crowds = np.where(cover, load.sum(0)[None, :], 0).max(1, initial=0)
    twins = np.unique(np.column_stack((sizes, cover)), axis=0, return_inverse=True)[1].reshape(-1)
    return Geometry(sizes, starts, ends, cover, load, meets, cover.sum(1), crowds, twins)


def _distinct_moments(cover: Flags) -> list[int]:
    """Moments whose blocks are not all there at the previous distinct moment, or at the next."""
    kept: list[int] = []
    for moment in range(cover.shape[1]):
        now = cover[:, moment]
        while kept and not (cover[:, kept[-1]] & ~now).any():
            kept.pop()
        if not kept or (now & ~cover[:, kept[-1]]).any():
            kept.append(moment)
    return kept


@dataclass
class OffsetSearch:
    """One try. Of the blocks that may be next, the one with the smallest `rank` is.

    `steps`: their maximum. `crowded_first`: of the blocks with the least floor, those at the most crowded moment come
    first.
    """

    geometry: Geometry
    capacity: int
    rank: Ints
    steps: int
    deadline: float
    crowded_first: bool = True

    def run(self) -> Ints | None:
        """Return an offset for each block, or None if there is no solution. Raises `GivenUp`."""
        count = len(self.geometry.sizes)
        found = self._part(np.arange(count), np.zeros(count, np.int64), 0)
        if found is None:
            return None
        offsets = np.zeros(count, np.int64)
        for block, offset in found:
            offsets[block] = offset
        return offsets

    def _part(self, left: Ints, floors: Ints, depth: int) -> list[tuple[int, int]] | None:
        """Place the blocks `left`; `floors` is aligned with it."""
        if depth > MAX_DEPTH:
            raise GivenUp
        trail: list[tuple[Ints, Ints, int, int]] = []
        placed: list[tuple[int, int]] = []
        while True:
            self.steps -= 1
            if self.steps < 0 or (self.steps % 64 == 0 and time.monotonic() > self.deadline):
                raise GivenUp
            heights = self._heights(left, floors)
            if heights.max(initial=0) <= self.capacity:
                if not len(left):
                    return placed
                parts = self._parts(left)
                if len(parts) == 1:
                    chosen = self._choose(left, floors, heights)
                    trail.append((left, floors, chosen, len(placed)))
                    placed.append((int(left[chosen]), int(floors[chosen])))
                    left, floors = self._above(left, floors, chosen)
                    continue
                rest = self._each(parts, left, floors, depth)
                if rest is not None:
                    return placed + rest
            raised = None
            while raised is None:  # take the last choice the other way
                if not trail:
                    return None
                left, floors, chosen, length = trail.pop()
                del placed[length:]
                raised = self._raised(left, floors, chosen)
            floors = raised

    def _each(self, parts: list[Ints], left: Ints, floors: Ints, depth: int) -> list[tuple[int, int]] | None:
        found = []
        for part in sorted(parts, key=len):
            some = self._part(left[part], floors[part], depth + 1)
            if some is None:
                return None
            found += some
        return found

    def _heights(self, left: Ints, floors: Ints) -> Ints:
        """The least height of each moment: blocks with a floor of at least f take their bytes above f, for every f."""
        if not len(left):
            return floors
        order = np.argsort(-floors, kind="stable")
        stacked = np.cumsum(self.geometry.load[left[order]], axis=0)
        stacked += floors[order][:, None]
        heights: Ints = stacked.max(0)
        return heights

    def _parts(self, left: Ints) -> list[Ints]:
        """Positions in `left`, in groups that share no moment."""
        starts, ends = self.geometry.starts[left], self.geometry.ends[left]
        order = np.argsort(starts, kind="stable")
        reached = np.maximum.accumulate(ends[order])
        cuts = np.nonzero(starts[order][1:] >= reached[:-1])[0] + 1
        return np.split(order, cuts)

    def _choose(self, left: Ints, floors: Ints, heights: Ints) -> int:
        lowest = np.nonzero(floors == floors.min())[0]
        if self.crowded_first and len(lowest) > 1:
            crowds = np.where(self.geometry.cover[left[lowest]], heights[None, :], 0).max(1)
            lowest = lowest[crowds == crowds.max()]
        return int(lowest[np.argmin(self.rank[left[lowest]])])

    def _above(self, left: Ints, floors: Ints, chosen: int) -> tuple[Ints, Ints]:
        """The other blocks, and their floors with the chosen block at its floor."""
        block, top = left[chosen], floors[chosen] + self.geometry.sizes[left[chosen]]
        keep = np.arange(len(left)) != chosen
        left, floors = left[keep], floors[keep]
        return left, np.where(self.geometry.meets[block][left], np.maximum(floors, top), floors)

    def _raised(self, left: Ints, floors: Ints, chosen: int) -> Ints | None:
        """Floors with the chosen block, and its twins, higher; None if there is no higher floor."""
        geometry, block = self.geometry, left[chosen]
        alike = geometry.twins[left] == geometry.twins[block]
        below = geometry.meets[block][left] & ~alike
        if not below.any():
            return None
        least = int((floors[below] + geometry.sizes[left[below]]).min())
        if least + geometry.sizes[block] > self.capacity:
            return None
        return np.where(alike, np.maximum(floors, least), floors)


@dataclass(frozen=True)
class OffsetSearchResult:
    """Offsets, aligned with the blocks; None if none were found. `proved`: there are none."""

    offsets: list[int] | None
    proved: bool = False


def fit_within(
    blocks: Sequence[Lifetime], moments: int, capacity: int, seconds: float, seed: int = 0
) -> OffsetSearchResult:
    """Find offsets for blocks of at least a byte each, within `capacity` bytes and about so many seconds."""
    deadline = time.monotonic() + seconds
    offsets = np.zeros(len(blocks), np.int64)
    can_stack = all(block.end <= moments for block in blocks)
    for part in _apart(blocks, moments):
        geometry = geometry_of([blocks[n] for n in part], moments)
        if geometry.load.sum(0).max() > capacity:
            return OffsetSearchResult(None, proved=True)
        try:
            found = _tries(geometry, capacity, deadline, seed, can_stack)
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


def _tries(geometry: Geometry, capacity: int, deadline: float, seed: int, can_stack: bool) -> Ints | None:
    """Return offsets, or None if there are none. Raises `GivenUp` after the deadline.

    Tries of both searches take turns: each finds solutions that the other misses. `can_stack`: no block wraps.
    """
    steps = STEPS * len(geometry.sizes)
    skylines = _skylines(geometry, capacity, deadline, seed)
    for powers, noise, factor, crowded in _orders(np.random.default_rng(seed)):
        if time.monotonic() > deadline:
            raise GivenUp
        rank = _rank(geometry, powers, noise)
        with suppress(GivenUp):
            return OffsetSearch(geometry, capacity, rank, int(steps * factor) + 20, deadline, crowded).run()
        for search in islice(skylines, SKYLINES) if can_stack else ():
            with suppress(SkylineGivenUp):
                found = search.run()
                return None if found is None else np.array(found, np.int64)
    raise GivenUp


def _skylines(geometry: Geometry, capacity: int, deadline: float, seed: int) -> Iterator[SkylineSearch]:
    """Yield tries without end. Those of each length take the same time in sum (Luby, Sinclair, Zuckerman 1993)."""
    starts, ends, sizes = (each.tolist() for each in (geometry.starts, geometry.ends, geometry.sizes))
    blocks = Blocks(starts, ends, sizes, geometry.cover.shape[1])
    draw, failures = random.Random(seed), [1] * blocks.moments
    for number, noise in zip(count(1), cycle(NOISES), strict=False):
        steps = int(SKYLINE_STEPS * len(sizes) * luby(number)) + 20
        power, snug, learns = draw.choice(POWERS), draw.random() < 0.5, draw.random() < 0.5
        learnt = failures if learns else None
        yield SkylineSearch(blocks, capacity, draw, noise, steps, deadline, power, snug, learnt)


def luby(number: int) -> int:
    """The number-th of 1, 1, 2, 1, 1, 2, 4, 1, …: each part twice, then twice its last number."""
    bits = number.bit_length()
    return 1 << (bits - 1) if number == (1 << bits) - 1 else luby(number - (1 << (bits - 1)) + 1)


def _orders(random: np.random.Generator) -> Iterator[tuple[tuple[float, ...], Floats | None, float, bool]]:
    """Yield without end: powers, noise, the factor on steps, whether crowded moments come first."""
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
