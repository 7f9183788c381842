"""Offsets for blocks within a capacity, from the bottom up, by a complete search over the *skyline*: the height of what
is placed, by moment.

Take a lowest stretch of the skyline, and the moment at one of its ends. A block that rests there lies within the
stretch and begins, or ends, at that moment: few do. If none rests there, the moment is left empty up to a least height,
which uses up its *slack*, the bytes of the capacity that no block needs. Where there is no slack, something has to rest
there. The end with the fewest ways is decided first. Blocks must not wrap.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

FAR = 1 << 62


class Blocks(NamedTuple):
    """Blocks by number: `starts` and `ends` are moments, from 0 to `moments`."""

    starts: Sequence[int]
    ends: Sequence[int]
    sizes: Sequence[int]
    moments: int


class SkylineGivenUp(Exception):
    """The search exceeded its limit of steps or time."""


class Ways(NamedTuple):
    """What may rest at one end of a stretch: blocks, or nothing up to the height `empty` (None: something has to)."""

    moment: int
    blocks: list[int]
    empty: int | None

    @property
    def number(self) -> int:
        return len(self.blocks) + (self.empty is not None)


@dataclass
class Choice:
    """Ways that are left to try at a moment, the last first; `taken`: a block, `EMPTY`, or None for none yet."""

    ways: list[int]
    moment: int
    height: int
    empty: int
    taken: int | None = None


EMPTY = -1


@dataclass
class SkylineSearch:
    """One try. `noise`: how random the order of blocks is; `steps`: their maximum; `deadline`: of `time.monotonic`."""

    blocks: Blocks
    capacity: int
    random: random.Random
    noise: float
    steps: int
    deadline: float
    _offsets: list[int | None] = field(init=False)

    def run(self) -> list[int] | None:
        """Return an offset for each block, or None if there is no solution. Raises `SkylineGivenUp`."""
        starts, ends, sizes, count = self.blocks
        self._offsets = [None] * len(sizes)
        self._left, self._here = len(sizes), [0] * count
        self._slack = [self.capacity] * count
        for start, end, size in zip(starts, ends, sizes, strict=True):
            for moment in range(start, end):
                self._here[moment] += 1
                self._slack[moment] -= size
        if min(self._slack) < 0:
            return None
        self._heights = [0 if here else FAR for here in self._here]
        self._rank = [
            (end - start) * size**0.5 * (1 + self.noise * self.random.random())
            for start, end, size in zip(starts, ends, sizes, strict=True)
        ]
        self._starting, self._ending = [[list[int]() for _ in range(count + 1)] for _ in range(2)]
        for block in sorted(range(len(sizes)), key=lambda block: -self._rank[block]):
            self._starting[starts[block]].append(block)
            self._ending[ends[block]].append(block)
        trail: list[Choice] = []
        while self._left:
            self.steps -= 1
            if self.steps < 0 or (self.steps % 64 == 0 and time.monotonic() > self.deadline):
                raise SkylineGivenUp
            trail.append(self._decide())
            while not self._advance(trail[-1]):
                trail.pop()
                if not trail:
                    return None
        return [offset for offset in self._offsets if offset is not None]

    def _decide(self) -> Choice:
        """The end of a lowest stretch with the fewest ways; blocks that fill the stretch are tried first."""
        heights, height, best = self._heights, min(self._heights), None
        begin, stretch = 0, (0, 0)
        while best is None or best.number > 1:
            try:
                begin = heights.index(height, begin)
            except ValueError:
                break
            end = begin + 1
            while end < len(heights) and heights[end] == height:
                end += 1
            for is_left in (True, False) if end - begin > 1 else (True,):
                ways = self._ways(begin, end, height, is_left)
                if best is None or ways.number < best.number:
                    best, stretch = ways, (begin, end)
            begin = end
        assert best is not None  # there are blocks left, so there is a lowest stretch
        starts, ends, sizes, _ = self.blocks
        distinct = {(starts[n], ends[n], sizes[n]): n for n in best.blocks}.values()
        order = sorted(distinct, key=lambda n: ((starts[n], ends[n]) == stretch, self._rank[n]))
        return Choice(
            [EMPTY, *order] if best.empty is not None else order, best.moment, height, best.empty or 0
        )  # fmt: skip

    def _ways(self, begin: int, end: int, height: int, is_left: bool) -> Ways:
        starts, ends, sizes, count = self.blocks
        if is_left:
            moment, inside = begin, range(begin + 1, end)
            blocks = [n for n in self._starting[begin] if self._offsets[n] is None and ends[n] <= end]
        else:
            moment, inside = end - 1, range(begin, end - 1)
            blocks = [n for n in self._ending[end] if self._offsets[n] is None and starts[n] >= begin]
        slack = self._slack[moment]
        if not slack:
            return Ways(moment, blocks, None)
        # What comes next here rests on a neighbour of the stretch, or on a block within it that is not here.
        least = min(self._heights[begin - 1] if begin else FAR, self._heights[end] if end < count else FAR)
        for at in inside:
            for n in self._starting[at]:
                if self._offsets[n] is None and ends[n] <= (end if is_left else end - 1):
                    least = min(least, height + sizes[n])
        return Ways(moment, blocks, least if least - height <= slack else None)

    def _advance(self, choice: Choice) -> bool:
        """Undo the way that was taken, and take the next; false if none is left."""
        if choice.taken is not None:
            self._set(choice, is_undone=True)
        if not choice.ways:
            return False
        choice.taken = choice.ways.pop()
        self._set(choice, is_undone=False)
        return True

    def _set(self, choice: Choice, is_undone: bool) -> None:
        if choice.taken == EMPTY or choice.taken is None:
            self._heights[choice.moment] = choice.height if is_undone else choice.empty
            self._slack[choice.moment] += (choice.empty - choice.height) * (1 if is_undone else -1)
            return
        block, by = choice.taken, 1 if is_undone else -1
        self._offsets[block] = None if is_undone else choice.height
        self._left += by
        top = choice.height if is_undone else choice.height + self.blocks.sizes[block]
        for moment in range(self.blocks.starts[block], self.blocks.ends[block]):
            self._here[moment] += by
            self._heights[moment] = top if self._here[moment] else FAR
