"""Offsets for blocks within a capacity, by search: complete, so that "none" is a proof.

A solution in which no block can move down has each block at 0 or right on another. So each block has a *floor*, the
least offset that is left to it, and the block with the least floor is either right there, and all that live with it
above, or its floor rises to the least top of a block that it could rest on. After either, a moment at which what is
left does not fit between floors and capacity ends the branch. What falls apart into blocks that never live at the same
time is searched part by part.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .trace import Lifetime

Ints = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
FAR = 1 << 62
MAX_DEPTH = 300
"""Maximum recursion depth of the search."""


class GivenUp(Exception):
    """The search exceeded its limit of steps or time."""


@dataclass(frozen=True)
class Geometry:
    """Blocks as arrays. `starts`, `ends`: moments; one that wraps counts as there always where parts are told apart."""

    sizes: Ints
    starts: Ints
    ends: Ints
    cover: Flags
    """Block by moment; moments at which nothing is there but what is at a neighbouring moment are left out."""
    meets: Flags
    """Block by block: whether two live at the same time. None meets itself."""

    @cached_property
    def load(self) -> Ints:
        """Bytes, block by moment."""
        return self.cover * self.sizes[:, None]

    @cached_property
    def lengths(self) -> Ints:
        """Moments that each block lives through."""
        lengths: Ints = self.cover.sum(1)
        return lengths

    @cached_property
    def crowds(self) -> Ints:
        """The most bytes live at once while each block is."""
        crowds: Ints = np.where(self.cover, self.load.sum(0)[None, :], 0).max(1, initial=0)
        return crowds

    @cached_property
    def twins(self) -> Ints:
        """For each block a number that it shares with those of the same size and lifetime."""
        alike = np.column_stack((self.sizes, self.cover))
        numbers: Ints = np.unique(alike, axis=0, return_inverse=True)[1]
        return numbers.reshape(-1)


def geometry_of(blocks: Sequence[Lifetime], count: int) -> Geometry:
    """Of blocks, one at least, of a byte each at least."""
    cover = np.zeros((len(blocks), count), bool)
    for row, block in zip(cover, blocks, strict=True):
        for start, end in block.spans(count):
            row[start:end] = True
    cover = cover[:, _telling(cover)]
    wraps = np.array([block.end > count for block in blocks], bool)
    starts = np.where(wraps, 0, cover.argmax(1))
    ends = cover.shape[1] - np.where(wraps, 0, cover[:, ::-1].argmax(1))
    counts = cover.astype(np.float32)
    meets = (counts @ counts.T) > 0
    np.fill_diagonal(meets, False)
    return Geometry(np.array([block.size for block in blocks], np.int64), starts, ends, cover, meets)


def _telling(cover: Flags) -> list[int]:
    """Moments whose blocks are not all there at the moment kept before, or at the next."""
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
    """One try: `rank` says which of the blocks that may come next does, the smallest first."""

    geometry: Geometry
    capacity: int
    rank: Ints
    steps: int
    """At most."""
    deadline: float
    crowded_first: bool = True
    """Of the blocks with the least floor, those at the most crowded moment come first."""

    def run(self) -> Ints | None:
        """An offset for each block, or None where there is none within the capacity. Raises `GivenUp`."""
        count = len(self.geometry.sizes)
        found = self._part(np.arange(count), np.zeros(count, np.int64), 0)
        if found is None:
            return None
        offsets = np.zeros(count, np.int64)
        for block, offset in found:
            offsets[block] = offset
        return offsets

    def _part(self, left: Ints, floors: Ints, depth: int) -> list[tuple[int, int]] | None:
        """Places the blocks `left`; `floors` is aligned with it."""
        if depth > MAX_DEPTH:
            raise GivenUp
        trail: list[tuple[Ints, Ints, int, int]] = []
        placed: list[tuple[int, int]] = []
        while True:
            self._count_step()
            crowd = self._crowd(left, floors)
            if crowd is not None:
                if not len(left):
                    return placed
                parts = self._parts(left)
                if len(parts) == 1:
                    chosen = self._choose(left, floors, crowd)
                    trail.append((left, floors, chosen, len(placed)))
                    placed.append((int(left[chosen]), int(floors[chosen])))
                    left, floors = self._above(left, floors, chosen)
                    continue
                rest = self._each(parts, left, floors, depth)
                if rest is not None:
                    return placed + rest
            back = self._back(trail, placed)
            if back is None:
                return None
            left, floors = back

    def _each(self, parts: list[Ints], left: Ints, floors: Ints, depth: int) -> list[tuple[int, int]] | None:
        found = []
        for part in sorted(parts, key=len):
            some = self._part(left[part], floors[part], depth + 1)
            if some is None:
                return None
            found += some
        return found

    def _back(
        self, trail: list[tuple[Ints, Ints, int, int]], placed: list[tuple[int, int]]
    ) -> tuple[Ints, Ints] | None:
        """The last choice that can be taken the other way, and what is left then."""
        while trail:
            left, floors, chosen, length = trail.pop()
            del placed[length:]
            raised = self._raised(left, floors, chosen)
            if raised is not None:
                return left, raised
        return None

    def _count_step(self) -> None:
        self.steps -= 1
        if self.steps < 0 or (self.steps % 64 == 0 and time.monotonic() > self.deadline):
            raise GivenUp

    def _crowd(self, left: Ints, floors: Ints) -> Ints | None:
        """How high each moment gets at least; None where that is over the capacity.

        The blocks with a floor of at least f take their bytes above f, whichever f.
        """
        if not len(left):
            return floors
        order = np.argsort(-floors, kind="stable")
        stacked = np.cumsum(self.geometry.load[left[order]], axis=0)
        stacked += floors[order][:, None]
        heights: Ints = stacked.max(0)
        return None if heights.max() > self.capacity else heights

    def _parts(self, left: Ints) -> list[Ints]:
        """Positions in `left`, in groups that share no moment."""
        starts, ends = self.geometry.starts[left], self.geometry.ends[left]
        order = np.argsort(starts, kind="stable")
        reached = np.maximum.accumulate(ends[order])
        cuts = np.nonzero(starts[order][1:] >= reached[:-1])[0] + 1
        return np.split(order, cuts)

    def _choose(self, left: Ints, floors: Ints, crowd: Ints) -> int:
        lowest = np.nonzero(floors == floors.min())[0]
        if self.crowded_first and len(lowest) > 1:
            crowds = np.where(self.geometry.cover[left[lowest]], crowd[None, :], 0).max(1)
            lowest = lowest[crowds == crowds.max()]
        return int(lowest[np.argmin(self.rank[left[lowest]])])

    def _above(self, left: Ints, floors: Ints, chosen: int) -> tuple[Ints, Ints]:
        """What is left with the chosen block at its floor: all that meet it are above."""
        block = left[chosen]
        keep = np.arange(len(left)) != chosen
        left, top = left[keep], floors[chosen] + self.geometry.sizes[block]
        floors = floors[keep]
        return left, np.where(self.geometry.meets[block][left], np.maximum(floors, top), floors)

    def _raised(self, left: Ints, floors: Ints, chosen: int) -> Ints | None:
        """Floors where the chosen block, and so each that is just like it, is higher; None where it cannot be."""
        geometry, block = self.geometry, left[chosen]
        alike = geometry.twins[left] == geometry.twins[block]
        below = geometry.meets[block][left] & ~alike
        if not below.any():
            return None
        least = int((floors[below] + geometry.sizes[left[below]]).min())
        if least + geometry.sizes[block] > self.capacity:
            return None
        return np.where(alike, np.maximum(floors, least), floors)
