"""Offsets for blocks within a capacity, from the bottom up, by a complete search over the *skyline*: the height of what
is placed, by moment.

A *valley* is a stretch of one height between higher walls. A block that rests at an end of it lies within the valley
and begins, or ends, there: few do. If none rests there, that moment is left empty up to a least height, which uses up
its *slack*, the bytes of the capacity that no block needs. Where there is no slack, something has to rest there. Below
the walls only blocks within the valley can be: if all that touch its end, and the slack, are less than its depth, the
branch ends. The valley with the fewest ways is decided first, or one where tries failed more often. What can rest in a
valley does not depend on the others, so that a step looks again only at the valleys that it changes. Blocks must not
wrap.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
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


class Valley(NamedTuple):
    """A stretch from `begin` until `end`, and what may rest at its end with the fewest ways, at `moment`.

    These are blocks, or nothing up to the height `empty` (None: something has to). `wall`: the height beside it. The
    valley with the least `score` is decided first: the number of ways, over how often none was left there.
    """

    score: float
    height: int
    begin: int
    end: int
    moment: int
    wall: int
    blocks: list[int]
    empty: int | None


@dataclass
class Choice:
    """Ways that are left to try in a valley, the last first; `taken`: a block, `EMPTY`, or None for none yet.

    `made`: where the valleys begin that came of it.
    """

    valley: Valley
    ways: list[int]
    taken: int | None = None
    made: list[int] = field(default_factory=list)


EMPTY = -1


@dataclass
class SkylineSearch:
    """One try. `noise`: how random the order of blocks is; `steps`: their maximum; `deadline`: of `time.monotonic`.

    `power`: of a block's size; its product with the lifetime is large for blocks that come first. `snug`: those first
    that leave no step in the skyline. `failures`: by moment, how often nothing was left that may rest there, from 1;
    the try counts on. None: not considered.
    """

    blocks: Blocks
    capacity: int
    random: random.Random
    noise: float
    steps: int
    deadline: float
    power: float = 0.5
    snug: bool = False
    failures: list[int] | None = None

    def run(self) -> list[int] | None:
        """Return an offset for each block, or None if there is no solution. Raises `SkylineGivenUp`."""
        starts, ends, sizes, count = self.blocks
        self._offsets, self._is_left = [0] * len(sizes), [True] * len(sizes)
        self._left, self._here = len(sizes), [0] * count
        self._slack = [self.capacity] * count
        for start, end, size in zip(starts, ends, sizes, strict=True):
            for moment in range(start, end):
                self._here[moment] += 1
                self._slack[moment] -= size
        if min(self._slack) < 0:
            return None
        self._heights = [0 if here else FAR for here in self._here]
        self._order()
        self._valleys = {valley.begin: valley for valley in self._valleys_in(0, count)}
        trail: list[Choice] = []
        while self._left:
            self.steps -= 1
            if self.steps < 0 or (self.steps % 64 == 0 and time.monotonic() > self.deadline):
                raise SkylineGivenUp
            valley = min(self._valleys.values())  # there are blocks left, so there is a valley
            if not valley.score and self.failures is not None:
                self.failures[valley.moment] += 1
            trail.append(Choice(valley, self._ways_of(valley)))
            while not self._advance(trail[-1]):
                trail.pop()
                if not trail:
                    return None
        return self._offsets

    def _order(self) -> None:
        """Rank blocks, and list those that start and end at each moment; blocks that are alike have one rank."""
        starts, ends, sizes, count = self.blocks
        kinds: dict[tuple[int, int, int], int] = {}
        self._kinds = [kinds.setdefault(each, len(kinds)) for each in zip(starts, ends, sizes, strict=True)]
        noises = [1 + self.noise * self.random.random() for _ in kinds]
        self._rank = [
            (end - start) * size**self.power * noises[kind]
            for start, end, size, kind in zip(starts, ends, sizes, self._kinds, strict=True)
        ]
        self._starting, self._ending = [[list[int]() for _ in range(count + 1)] for _ in range(2)]
        for block in sorted(range(len(sizes)), key=lambda block: -self._rank[block]):
            self._starting[starts[block]].append(block)
            self._ending[ends[block]].append(block)

    def _valleys_in(self, begin: int, limit: int) -> Iterator[Valley]:
        """Find the valleys between two moments at which the height changes."""
        heights, count = self._heights, self.blocks.moments
        before = heights[begin - 1] if begin else FAR
        while begin < limit:
            height, end = heights[begin], begin + 1
            while end < limit and heights[end] == height:
                end += 1
            after = heights[end] if end < count else FAR
            if height < before and height < after:
                left = self._at_end(begin, end, height, before, after, True)
                if left.score and end - begin > 1:
                    right = self._at_end(begin, end, height, before, after, False)
                    yield right if right.score < left.score else left
                else:
                    yield left
            before, begin = height, end

    def _at_end(self, begin: int, end: int, height: int, left: int, right: int, is_left: bool) -> Valley:
        """What may rest at one end of a valley between two walls."""
        starts, ends, sizes, _ = self.blocks
        is_unplaced = self._is_left
        if is_left:
            moment, wall = begin, left
            blocks = [n for n in self._starting[begin] if is_unplaced[n] and ends[n] <= end]
        else:
            moment, wall = end - 1, right
            blocks = [n for n in self._ending[end] if is_unplaced[n] and starts[n] >= begin]
        slack, lower = self._slack[moment], min(left, right)
        if lower < FAR and sum([sizes[n] for n in blocks]) + slack < lower - height:
            return Valley(0, height, begin, end, moment, wall, [], None)
        if len(blocks) > 1:
            blocks = [*{self._kinds[n]: n for n in blocks}.values()]
        weight = self.failures[moment] if self.failures else 1
        if not slack:
            return Valley(len(blocks) / weight, height, begin, end, moment, wall, blocks, None)
        # What comes next here rests on a wall, or on a block within the valley that is not here.
        least, until = lower, end if is_left else end - 1
        for at in range(begin + 1, end) if is_left else range(begin, end - 1):
            for n in self._starting[at]:
                if is_unplaced[n] and ends[n] <= until and height + sizes[n] < least:
                    least = height + sizes[n]
        empty = least if least - height <= slack else None
        return Valley((len(blocks) + (empty is not None)) / weight, height, begin, end, moment, wall, blocks, empty)

    def _ways_of(self, valley: Valley) -> list[int]:
        """Blocks that fill the valley, or leave no step in the skyline, are tried first: they come last."""
        starts, ends, sizes, _ = self.blocks
        _, height, begin, end, _, wall, blocks, empty = valley
        rank = self._rank
        if self.snug:
            order = sorted(
                blocks,
                key=lambda n: ((starts[n] == begin) + (ends[n] == end) + (height + sizes[n] == wall), rank[n]),
            )
        else:
            order = sorted(blocks, key=lambda n: (starts[n] == begin and ends[n] == end, rank[n]))
        return order if empty is None else [EMPTY, *order]

    def _advance(self, choice: Choice) -> bool:
        """Undo the way that was taken, and take the next; false if none is left."""
        if choice.taken is not None:
            self._undo(choice)
        if not choice.ways:
            return False
        choice.taken = block = choice.ways.pop()
        _, height, begin, end, moment, _, _, empty = choice.valley
        heights, here = self._heights, self._here
        del self._valleys[begin]
        if block == EMPTY:
            assert empty is not None
            heights[moment] = empty
            self._slack[moment] -= empty - height
        else:
            self._is_left[block] = False
            self._offsets[block] = height
            self._left -= 1
            top = height + self.blocks.sizes[block]
            for at in range(self.blocks.starts[block], self.blocks.ends[block]):
                here[at] -= 1
                heights[at] = top if here[at] else FAR
        first, limit = begin, end
        while first and heights[first - 1] == heights[max(begin - 1, 0)]:
            first -= 1
        while limit < len(heights) and heights[limit] == heights[end]:
            limit += 1
        choice.made = []
        for valley in self._valleys_in(first, limit):
            self._valleys[valley.begin] = valley
            choice.made.append(valley.begin)
        return True

    def _undo(self, choice: Choice) -> None:
        _, height, begin, end, moment, _, _, empty = choice.valley
        for made in choice.made:
            del self._valleys[made]
        self._heights[begin:end] = [height] * (end - begin)
        block = choice.taken
        if block == EMPTY or block is None:
            self._slack[moment] += (empty or height) - height
        else:
            self._is_left[block] = True
            self._left += 1
            for at in range(self.blocks.starts[block], self.blocks.ends[block]):
                self._here[at] += 1
        self._valleys[begin] = choice.valley
