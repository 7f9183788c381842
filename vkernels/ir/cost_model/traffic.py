"""How many bytes each level of memory moves under a plan: what is touched again, and whether it is still at hand."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

import numpy as np

from .loops import Axes, Loop, LoopAccess, LoopStep
from .plan_batch import Numbers, PlanBatch, clipped

_Key = tuple[str, int | None, frozenset[str], bool]
"""A loop's axis, its number unless it is one over programs, the axes inside it, and whether it is `alone`."""
GROUP = "programs of a group"
"""The loop over the programs of one group along the second-fastest tile axis, where a plan has groups."""


@dataclass(frozen=True)
class _Repeat:
    """A loop around a touch. `alone`: each program has these bytes to itself; `taken`: bytes of one trip; `again`:
    how often the loop goes through them."""

    alone: bool
    taken: Numbers
    again: Numbers


class CacheTraffic:
    """Bytes that a level of memory with some capacity must fetch from the next, over all programs.

    A touch is repeated by every loop around it that does not decide which elements it takes. What all touches inside
    one trip of that loop take together is compared with the capacity: if it fits, the repetition costs nothing.

    Programs run in the plan's order, so the loops over the two fastest tile axes m and n of a plan with groups are:
    groups of programs along m, n, programs of a group. What lacks n is found again if the strips of one group fit, and
    what lacks m is read again by every group, not by every program along m.
    """

    def __init__(self, at: PlanBatch, on_chip_counts: bool, resident: Numbers = 1):
        self.at = at
        self.resident = resident
        self.swizzle, order = at.choices.swizzle, at.choices.order
        self.grouped = order[-2] if self.swizzle > 1 and len(order) > 1 else None
        self.programs = (*order, GROUP) if self.grouped else order
        """The loops over programs, outermost first: along the grouped axis one over groups and, innermost, `GROUP`."""
        self.touches = [
            (number, step, step.touch)
            for number, loop in enumerate(at.loops)
            for step in loop.steps
            if step.touch is not None and (on_chip_counts or not at.is_on_chip(step.touch))
        ]
        self._footprints: dict[tuple[int | None, frozenset[str]], Numbers] = {}
        self._elements_of: dict[tuple[Axes, tuple[bool, ...], str | None], Numbers] = {}
        self._repeats: dict[_Key, _Repeat] = {}
        self._moved: dict[int, list[tuple[LoopAccess, Numbers, Numbers | None, list[_Key]]]] = {}

    def distinct(self, without: Collection[str] = ()) -> Numbers:
        """Bytes of all tensors that are touched, each element once, but of those `without`."""
        sizes: dict[str, Numbers] = {}
        for _, _, touch in self.touches:
            if touch.home is None and touch.place not in without:
                sizes[touch.place] = np.maximum(sizes.get(touch.place, 0), self._elements(touch) * touch.element_bytes)
        return sum(sizes.values()) if sizes else 0

    def written(self, places: Collection[str] | None = None) -> Numbers:
        """Bytes that stores to tensors, or to some of them, write, each element once."""
        sizes = {
            t.place: self._elements(t) * t.element_bytes for _, _, t in self.touches if t.writes and t.home is None
        }
        return sum(size for place, size in sizes.items() if places is None or place in places)

    def missed(self, capacity: Numbers, line: int, users: Numbers = 1, gradual: float = 0.0) -> tuple[Numbers, Numbers]:
        """Bytes read from beyond a cache of `capacity` bytes, and bytes written there, in whole lines.

        `users`: programs that have the cache at once, each with what it touches by itself. `gradual`: what takes this
        part less than the capacity is found again wholly, what takes this part more not at all, and between them some.
        """
        each = list(self.missed_by_touch(capacity, line, users, gradual))
        reads = sum((moved for touch, moved in each if not touch.writes), start=0.0)
        return reads, sum((moved for touch, moved in each if touch.writes), start=0.0)

    def missed_by_touch(
        self, capacity: Numbers, line: int, users: Numbers = 1, gradual: float = 0.0
    ) -> Iterator[tuple[LoopAccess, Numbers]]:
        """What `missed` adds up: the bytes of each touch."""
        met: set[tuple[str, bool]] = set()
        program = self._footprint(None, self._inside_programs) * users <= capacity
        times: dict[tuple[_Key, bool], Numbers] = {}
        for touch, once, part, repeats in self._moved_by(line):
            moved = once
            for key in repeats:
                if (key, touch.scattered) not in times:
                    repeat = self._repeats[key]
                    taken = repeat.taken * (users if repeat.alone else 1)
                    lost = _beyond(taken, capacity, gradual)
                    if gradual and touch.scattered:  # in no order: what is there is found, whatever came before
                        lost = np.minimum(lost, np.maximum(0, 1 - capacity / np.maximum(1, taken)))
                    times[key, touch.scattered] = 1 + lost * (repeat.again - 1)
                moved = moved * times[key, touch.scattered]
            if part is not None:  # what masks leave out of one program is touched by another
                moved = np.maximum(once, moved * part)
            if (touch.place, touch.writes) in met or (touch.home is not None and (touch.place, True) in met):
                moved = np.where(program, 0, moved)
            met.add((touch.place, touch.writes))
            yield touch, moved

    def _moved_by(self, line: int) -> list[tuple[LoopAccess, Numbers, Numbers | None, list[_Key]]]:
        """Every touch, the bytes that it moves without repetition, the part of its chunks that is visited (None: all),
        and the loops that repeat it: the same for all caches."""
        if line not in self._moved:
            self._moved[line] = [
                (
                    touch,
                    self._elements(touch) * touch.element_bytes * self._waste(touch, self.at.loops[number], step, line),
                    self._part(self.at.loops[number], step),
                    list(self._repeats_of(number, step, touch)),
                )
                for number, step, touch in self.touches
            ]
        return self._moved[line]

    def _part(self, loop: Loop, step: LoopStep) -> Numbers | None:
        if not loop.visits:
            return None
        visited = self.at.within(loop).visited
        return prod((part for axis, part in visited.items() if axis in executed(loop, step)), start=1.0)

    def _axes(self, touch: LoopAccess) -> Axes:
        """The axes that decide which elements are touched; a home is the same memory in every program."""
        order = self.at.choices.order
        return touch.axes if touch.home is None else tuple(axis for axis in touch.axes if axis not in order)

    def _elements(self, touch: LoopAccess) -> Numbers:
        own = self.at.choices.order if touch.home is not None else ()
        sizes = (self.at.size(axis) if axis in own else max(1, self.at.extents.get(axis, 1)) for axis in touch.axes)
        return prod(sizes, start=1.0)

    def _repeats_of(self, number: int, step: LoopStep, touch: LoopAccess) -> Iterator[_Key]:
        """The loops that repeat a touch, by all axes that each of their trips goes through."""
        own, loop = self._axes(touch), self.at.loops[number]
        around = [*self.programs, *loop.ranges, *executed(loop, step), *step.ranges]
        for place, axis in enumerate(around):
            if (self.grouped if axis == GROUP else axis) in own or axis in around[:place]:
                continue
            across = axis in self.programs
            inner = frozenset(around[place + 1 :]) if not across else self._inside(axis)
            if touch.scattered:
                inner |= frozenset(touch.axes)
            alone = not across or touch.home is not None  # each program has homes of its own
            key = axis, None if across else number, inner, alone
            if key not in self._repeats:
                self._repeats[key] = _Repeat(alone, self._footprint(key[1], inner), self._again(axis, inner, alone))
            yield key

    def _again(self, axis: str, inner: frozenset[str], alone: bool) -> Numbers:
        """How often a loop repeats a touch: programs that run at once share what they find."""
        again = self._trips(axis)
        if alone:
            return again
        beside = self.resident / prod((self._trips(axis) for axis in self.programs if axis in inner), start=1.0)
        return np.maximum(1, again / np.maximum(1, beside))

    def _trips(self, axis: str) -> Numbers:
        """Trips of a loop; along the grouped axis those over groups, or over the programs of a group."""
        if axis == GROUP:
            return np.minimum(self.swizzle, self.at.trips(str(self.grouped)))
        return np.ceil(self.at.trips(axis) / self.swizzle) if axis == self.grouped else self.at.trips(axis)

    def _inside(self, tile: str) -> frozenset[str]:
        return frozenset(self.programs[self.programs.index(tile) + 1 :]) | self._inside_programs

    @cached_property
    def _inside_programs(self) -> frozenset[str]:
        return frozenset({*self.at.sizes, *self.at.extents}) - frozenset(self.at.choices.order)

    def _footprint(self, number: int | None, inner: frozenset[str]) -> Numbers:
        """Bytes touched in a loop, or in all loops, while some axes are gone through."""
        found = self._footprints.get((number, inner))
        if found is None:
            places: dict[str, Numbers] = {}
            for loop, _, touch in self.touches:
                if number is None or loop == number:
                    width = touch.element_bytes * (2 if touch.place in self.at.choices.copies else 1)
                    taken = self._gone_through(touch, inner) * width
                    before = places.get(touch.place)
                    places[touch.place] = taken if before is None else np.maximum(before, taken)
            found = self._footprints[number, inner] = sum(places.values()) if places else 0
        return found

    def _gone_through(self, touch: LoopAccess, inner: frozenset[str]) -> Numbers:
        """Elements that a touch takes while some axes are gone through."""
        programs = self.at.choices.order if touch.home is not None else ()
        group = self.grouped if GROUP in inner and self.grouped not in inner else None
        grows = tuple((axis in inner or axis == group) and axis not in programs for axis in touch.axes)
        found = self._elements_of.get((touch.axes, grows, group))
        if found is None:
            most = {axis: max(1, self.at.extents.get(axis, 1)) for axis in touch.axes}
            if group in most:
                most[group] = np.minimum(most[group], self.swizzle * self.at.size(group))
            sizes = (most[axis] if grown else self.at.size(axis) for axis, grown in zip(touch.axes, grows, strict=True))
            found = self._elements_of[touch.axes, grows, group] = prod(sizes, start=1.0)
        return found

    def _waste(self, touch: LoopAccess, loop: Loop, step: LoopStep, line: int) -> Numbers:
        """Bytes of lines for each byte that is used, where too few elements of a line are side by side in one
        program."""
        if touch.run is None or touch.home is not None or touch.place in self.at.choices.packs:
            return 1
        together = self.at.size(touch.run)
        if touch.run in (*loop.axes, *loop.ranges, *step.ranges, *self.at.choices.held):
            together = max(1, self.at.extents.get(touch.run, 1))
        return clipped(line / (together * touch.element_bytes), 1, line / touch.element_bytes)


def _beyond(taken: Numbers, capacity: Numbers, gradual: float) -> Numbers:
    """The part of what is touched again that a cache has lost meanwhile."""
    if not gradual:
        return np.where(taken <= capacity, 0.0, 1.0)
    least = capacity * (1 - gradual)
    return clipped((taken - least) / np.maximum(1, 2 * gradual * capacity), 0, 1)


def executed(loop: Loop, step: LoopStep) -> Axes:
    """The chunk loops that a step runs in: down to the innermost of its own."""
    return _down_to(loop.axes, step.axes)


@lru_cache(maxsize=4096)
def _down_to(loops: Axes, axes: Axes) -> Axes:
    depth = max((loops.index(axis) + 1 for axis in axes if axis in loops), default=0)
    return loops[:depth]
