"""How many bytes each level of memory moves under a plan: what is touched again, and whether it is still at hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .cache_sets import RowsApart, Sets, bytes_apart, part_lost, row_of
from .index_sums import Region
from .kept_loops import kept_along
from .line_waste import wasted
from .loops import Axes, Loop, LoopAccess, LoopStep, executed, trip_of
from .plan_batch import Numbers, PlanBatch
from .repeating import GROUP, repeating
from .windows import Window, elements_in, overlap, windows_of

Table = NDArray[np.float64]
_Scope = tuple[int, ...] | None
"""The loops whose work one trip of a loop holds, by their numbers; None: all, as each program does."""
_Key = tuple[str | Window, _Scope, frozenset[str], bool]
"""A loop's axis, or a window, what one trip of it holds, the axes inside it, and whether it is `alone`."""


_Touched = tuple[Axes, tuple[Window, ...], bool, RowsApart | None, float]
"""The axes and windows of a touch, whether it is of a home, its rows for `Sets`, bytes of an element in all copies."""


@dataclass(frozen=True)
class _Row:
    """Touches that move the same bytes: the number of their loop, and one of them. `met`: the work, by number, that
    touched the same last; None where none did."""

    number: int
    step: LoopStep
    touch: LoopAccess
    met: int | None


@dataclass(frozen=True)
class _Repeat:
    """A loop around a touch. `alone`: each program has these bytes to itself; `taken`: bytes of one trip; `again`:
    how often the loop goes through them."""

    alone: bool
    taken: Numbers
    again: Numbers


@dataclass(frozen=True, eq=False)
class _Tables:
    """What touches and the loops that repeat them are like, with a row for each and a column for each plan.

    Of loops: `taken` and `again` as in `_Repeat`, `alone`, and whether the touch is `scattered`. Of touches: whether
    what one touches was `met` before, and whether it `writes`. `turns`: touches, and the loop that repeats each: first
    those of the outermost loops.
    """

    taken: Table
    again: Table
    alone: NDArray[np.bool_]
    scattered: NDArray[np.bool_]
    turns: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]]
    met: NDArray[np.bool_]
    writes: NDArray[np.bool_]


class CacheTraffic:
    """Bytes that a level of memory with some capacity must fetch from the next, over all programs.

    A touch is repeated by every loop around it that does not decide which elements it takes. What all touches inside
    one trip of that loop take together is compared with the capacity: if it fits, the repetition costs nothing.

    Programs run in the plan's order, so the loops over the two fastest tile axes m and n of a plan with groups are:
    groups of programs along m, n, programs of a group. What lacks n is found again if the strips of one group fit, and
    what lacks m is read again by every group, not by every program along m. `sets`: where rows compete for lines.
    `on_chip_counts`: the level is a CPU's, whose programs run in turn and keep what the next ones would compute again.
    """

    def __init__(self, at: PlanBatch, on_chip_counts: bool, resident: Numbers = 1, sets: Sets | None = None):
        self.at, self.sets = at, sets
        self.resident = resident
        self.in_turn = on_chip_counts
        self.swizzle, order = at.choices.swizzle, at.choices.order
        self.grouped = order[-2] if self.swizzle > 1 and len(order) > 1 else None
        self.programs = (*order, GROUP) if self.grouped else order
        """The loops over programs, outermost first: along the grouped axis one over groups and, innermost, `GROUP`."""
        self.touches = [
            (number, step, touch, region)
            for number, loop in enumerate(at.loops)
            for (step, touch), region in zip(loop.touches, at.regions.of(loop), strict=True)
            if on_chip_counts or not at.is_on_chip(touch)
        ]
        self._footprints: dict[tuple[_Scope, frozenset[str]], Numbers] = {}
        self._repeats: dict[_Key, _Repeat] = {}
        self._grown: dict[tuple[Axes, tuple[Window, ...], bool, frozenset[str]], Numbers] = {}
        self._moved: dict[int, Table] = {}
        self._touched: dict[_Scope, Counter[tuple[_Touched, ...]]] = {}
        self._trips_of: dict[tuple[int, int], tuple[_Scope, frozenset[str]]] = {}

    @cached_property
    def _alike(self) -> tuple[list[_Row], NDArray[np.int64]]:
        """Touches of one loop that move the same bytes, whatever they take, as one row; and the row of every touch."""
        row_of: dict[Any, int] = {}
        rows: list[_Row] = []
        places: list[int] = []
        met: dict[tuple[Region, bool], int] = {}
        for number, step, touch, region in self.touches:
            was_met = met.get((region, touch.writes), met.get((region, True)) if touch.home is not None else None)
            met[region, touch.writes] = number
            key = (
                number, was_met, step.axes, step.ranges, touch.axes, touch.home, touch.scattered, touch.element_bytes,
                touch.run, touch.spread, touch.alignment, touch.tensor, touch.place in self.at.choices.packs,
                windows_of(touch),
            )  # fmt: skip
            if key not in row_of:
                row_of[key] = len(rows)
                rows.append(_Row(number, step, touch, was_met))
            places.append(row_of[key])
        return rows, np.array(places, np.int64)

    @cached_property
    def _of_tensors(self) -> dict[Region, float]:
        """Bytes that are touched of each tensor, each element once."""
        sizes: dict[Region, float] = {}
        for _, _, touch, region in self.touches:
            if touch.home is None:
                sizes[region] = max(sizes.get(region, 0.0), self._elements(touch) * bytes_apart(touch))
        return sizes

    def distinct(self, without: Collection[str] = ()) -> float:
        """Bytes of all tensors that are touched, each element once, but of those `without`."""
        return sum(size for (place, _), size in self._of_tensors.items() if place not in without)

    def written(self, places: Collection[str] | None = None) -> Numbers:
        """Bytes that stores to tensors, or to some of them, write, each element once."""
        sizes = {
            region: self._elements(touch) * bytes_apart(touch)
            for _, _, touch, region in self.touches
            if touch.writes and touch.home is None
        }
        return sum(size for (place, _), size in sizes.items() if places is None or place in places)

    def least(self, line: int) -> Numbers:
        """Bytes that any cache misses at least, read or written: of each region what one of its accesses moves."""
        moved: dict[tuple[Region, bool], Numbers] = {}
        for number, step, touch, region in self.touches:
            if touch.home is None and (region, touch.writes) not in moved:
                waste = wasted(touch, self.at.loops[number], step, self.at, line)
                moved[region, touch.writes] = self._elements(touch) * touch.element_bytes * waste
        return sum(moved.values(), start=0.0)

    def missed(self, capacity: Numbers, line: int, users: Numbers = 1, gradual: float = 0.0) -> tuple[Numbers, Numbers]:
        """Bytes read from beyond a cache of `capacity` bytes, and bytes written there, in whole lines.

        `users`: programs that have the cache at once, each with what it touches by itself. `gradual`: what takes this
        part less than the capacity is found again wholly, what takes this part more not at all, and between them some.
        """
        return self.read_and_written(self.missed_by_touch(capacity, line, users, gradual))

    def read_and_written(self, moved: Table) -> tuple[Numbers, Numbers]:
        """The bytes of all touches that read, and of all that write."""
        return _added(moved[~self._tables.writes]), _added(moved[self._tables.writes])

    def by_step(self, moved: Table) -> dict[tuple[int, int], Numbers]:
        """The bytes of each touch, by the number of its loop and its step's identity."""
        return {(number, id(step)): row for (number, step, *_), row in zip(self.touches, moved, strict=True)}

    def missed_by_touch(self, capacity: Numbers, line: int, users: Numbers = 1, gradual: float = 0.0) -> Table:
        """What `missed` adds up: the bytes of every touch, a row each."""
        if not self.touches:
            return np.empty((0, *self.at.shape))
        tables = self._tables
        taken = tables.taken * np.where(tables.alone, users, 1)
        lost = part_lost(taken, capacity, gradual)
        if gradual and tables.scattered.any():  # in no order: what is there is found, whatever came before
            found = np.minimum(lost, np.maximum(0, 1 - capacity / np.maximum(1, taken)))
            lost = np.where(tables.scattered, found, lost)
        times = 1 + lost * (tables.again - 1)
        moved = self._moved_once(line).copy()
        for touches, repeats in tables.turns:
            moved[touches] *= times[repeats]
        if any(loop.visits for loop in self.at.loops):  # what masks leave out of one program is touched by another
            moved = np.maximum(self._moved_once(line), moved * self._parts)
        for met in np.flatnonzero(tables.met):
            since = self._footprint(*self._since_met(self._alike[0][met]))
            moved[met] = np.where(since * users <= capacity, 0, moved[met])
        for place, row in enumerate(self._alike[0]):
            if row.touch.tensor:  # indices may point anywhere in it
                whole = self._bytes_of(row.touch)
                once = np.minimum(moved[place], whole)
                moved[place] = once + (moved[place] - once) * np.maximum(0, 1 - capacity / max(1.0, whole))
        return moved[self._alike[1]]

    def _bytes_of(self, touch: LoopAccess) -> float:
        """Of a whole tensor in which elements are found."""
        lengths = (self.at.sizes_of_call.get(each, 1) if isinstance(each, str) else each for each in touch.tensor)
        return prod(lengths, start=float(touch.element_bytes))

    def _since_met(self, row: _Row) -> tuple[_Scope, frozenset[str]]:
        """The work since a touch's elements were touched before, and the axes that it goes through: one trip of the
        ranges around both, or a program."""
        ranges = self.at.loops[row.number].ranges
        if row.met is None or not ranges or self.at.loops[row.met].ranges != ranges or ranges[-1] not in row.touch.axes:
            return None, self._inside_programs
        return self._trip_of(row.number, len(ranges) - 1)

    def _moved_once(self, line: int) -> Table:
        """The bytes that touches move without repetition: the same for all caches."""
        if line not in self._moved:
            self._moved[line] = self._stacked([
                self._elements(row.touch) * row.touch.element_bytes
                * wasted(row.touch, self.at.loops[row.number], row.step, self.at, line)
                for row in self._alike[0]
            ])  # fmt: skip
        return self._moved[line]

    @cached_property
    def _parts(self) -> Table:
        """The part of its chunks that touches are executed in."""
        return self._stacked([self._part(self.at.loops[row.number], row.step) for row in self._alike[0]])

    def _part(self, loop: Loop, step: LoopStep) -> Numbers:
        visited = self.at.within(loop).visited
        return prod((part for axis, part in visited.items() if axis in executed(loop, step)), start=1.0)

    def _stacked(self, rows: Sequence[Numbers]) -> Table:
        table = np.empty((len(rows), *self.at.shape))
        for number, row in enumerate(rows):
            table[number] = row
        return table

    @cached_property
    def _tables(self) -> _Tables:
        """The loops that repeat touches, as tables."""
        row_of: dict[tuple[_Key, bool], int] = {}
        turns: dict[int, tuple[list[int], list[int]]] = {}
        for place, row in enumerate(self._alike[0]):
            for turn, key in enumerate(self._repeats_of(row.number, row.step, row.touch)):
                touches, repeats = turns.setdefault(turn, ([], []))
                touches.append(place)
                repeats.append(row_of.setdefault((key, row.touch.scattered), len(row_of)))
        found = [self._repeats[key] for key, _ in row_of]
        beside = (-1, *(1 for _ in self.at.shape))
        return _Tables(
            self._stacked([repeat.taken for repeat in found]), self._stacked([repeat.again for repeat in found]),
            np.array([repeat.alone for repeat in found], bool).reshape(beside),
            np.array([scattered for _, scattered in row_of], bool).reshape(beside),
            [(np.array(touches), np.array(repeats)) for touches, repeats in turns.values()],
            np.array([row.met is not None for row in self._alike[0]], bool),
            np.array([touch.writes for _, _, touch, _ in self.touches], bool),
        )  # fmt: skip

    def _axes(self, touch: LoopAccess) -> Axes:
        """The axes that decide which elements are touched; a home is the same memory in every program."""
        order = self.at.choices.order
        return touch.axes if touch.home is None else tuple(axis for axis in touch.axes if axis not in order)

    def _elements(self, touch: LoopAccess) -> Numbers:
        grows = tuple(touch.home is None or axis not in self.at.choices.order for axis in touch.axes)
        return self._taken(touch.axes, windows_of(touch), grows)

    def _repeats_of(self, number: int, step: LoopStep, touch: LoopAccess) -> list[_Key]:
        """The loops that repeat a touch, by all axes that each of their trips goes through."""
        own, loop = self._axes(touch), self.at.loops[number]
        kept = kept_along(loop, self.at) if self.in_turn else ()
        programs = tuple(axis for axis in self.programs if axis not in kept)
        outer = len(programs)
        loops = (*programs, *loop.ranges, *executed(loop, step))
        around = (*loops, *step.ranges)
        scattered = touch.axes if touch.scattered else ()
        keys: list[_Key] = []
        for place, axis, inner in repeating(around, outer, own, scattered, self._inside_programs, self.grouped):
            across = place < outer
            scope: _Scope = None if across else (number,)
            if outer <= place < len(loops):
                scope, gone_through = self._trip_of(number, place - outer)
                inner = inner | gone_through
            alone = not across or touch.home is not None  # each program has homes of its own
            key = axis, scope, inner, alone
            if key not in self._repeats:
                self._repeats[key] = _Repeat(alone, self._footprint(scope, inner), self._again(axis, inner, alone))
            keys.append(key)
        return keys + [self._overlap_of(window, around) for window in windows_of(touch)]

    def _overlap_of(self, window: Window, around: Axes) -> _Key:
        """The loop that takes elements of a window again: the outermost over one of its axes."""
        moving = {axis for axis, _ in window}
        place = next((place for place, axis in enumerate(around) if axis in moving), len(around))
        inner = frozenset(around[place + 1 : len(self.programs)]) | self._inside_programs
        key = window, None, inner, False
        if key not in self._repeats:
            again = overlap(window, lambda axis: max(1, self.at.extents.get(axis, 1)))
            self._repeats[key] = _Repeat(False, self._footprint(None, inner), again)
        return key

    def _trip_of(self, number: int, depth: int) -> tuple[_Scope, frozenset[str]]:
        """What one trip holds of the loop at some depth around a loop's work, and the axes that it goes through."""
        if (number, depth) not in self._trips_of:
            self._trips_of[number, depth] = trip_of(self.at.loops, number, depth)
        return self._trips_of[number, depth]

    def _again(self, axis: str, inner: frozenset[str], alone: bool) -> Numbers:
        """How often a loop repeats a touch: programs that run at once share what they find."""
        if alone:
            return self._trips(axis)
        beside = self.resident / prod((self._trips(axis) for axis in self.programs if axis in inner), start=1.0)
        return np.maximum(1, self._trips(axis) / np.maximum(1, beside))

    def _trips(self, axis: str) -> Numbers:
        """Trips of a loop; along the grouped axis those over groups, or over the programs of a group."""
        if axis == GROUP:
            return np.minimum(self.swizzle, self.at.trips(str(self.grouped)))
        return np.ceil(self.at.trips(axis) / self.swizzle) if axis == self.grouped else self.at.trips(axis)

    @cached_property
    def _inside_programs(self) -> frozenset[str]:
        return frozenset({*self.at.sizes, *self.at.extents}) - frozenset(self.at.choices.order)

    def _footprint(self, scope: _Scope, inner: frozenset[str]) -> Numbers:
        """Bytes touched in some loops, or in all, while some axes are gone through."""
        if (found := self._footprints.get((scope, inner))) is None:
            found = 0
            for touched, regions in self._touched_in(scope).items():
                taken = (self._bytes_through(each, inner) for each in touched)
                found = found + regions * reduce(np.maximum, taken)
            self._footprints[scope, inner] = found
        return found

    def _touched_in(self, scope: _Scope) -> Counter[tuple[_Touched, ...]]:
        """What is touched of a region in some loops, or in all, and of how many regions the same is."""
        if scope not in self._touched:
            found: dict[Region, dict[_Touched, None]] = {}
            for number, _, touch, region in self.touches:
                if scope is None or number in scope:
                    is_packed = touch.place in self.at.choices.packs
                    width = touch.element_bytes if is_packed else bytes_apart(touch)
                    width = width * (2 if touch.place in self.at.choices.copies else 1)
                    rows = None if self.sets is None else row_of(touch, self.at)
                    found.setdefault(region, {})[touch.axes, windows_of(touch), touch.home is not None, rows, width] = (
                        None
                    )
            self._touched[scope] = Counter(map(tuple, found.values()))
        return self._touched[scope]

    def _bytes_through(self, touched: _Touched, inner: frozenset[str]) -> Numbers:
        """Bytes that a touch takes of a cache while some axes are gone through."""
        *_, rows, width = touched
        elements = self._gone_through(touched, inner)
        if rows is None or self.sets is None:
            return elements * width
        group = self.grouped if GROUP in inner and self.grouped not in inner else None
        along = self._positions(rows.run, rows.run in inner or rows.run == group, group)
        return self.sets.taken(elements / along, along * width, rows.stride)

    def _gone_through(self, touched: _Touched, inner: frozenset[str]) -> Numbers:
        """Elements that a touch takes while some axes are gone through."""
        axes, windows, homed, _, _ = touched
        if (key := (axes, windows, homed, inner)) in self._grown:
            return self._grown[key]
        programs = self.at.choices.order if homed else ()
        group = self.grouped if GROUP in inner and self.grouped not in inner else None
        grows = tuple((axis in inner or axis == group) and axis not in programs for axis in axes)
        found = self._grown[key] = self._taken(axes, windows, grows, group)
        return found

    def _taken(
        self, axes: Axes, windows: tuple[Window, ...], grows: tuple[bool, ...], group: str | None = None
    ) -> Numbers:
        """Elements of all positions of the axes that grow, of the programs of a group along one of them, and of one
        step along the others."""
        known, alike = self.at.terms.elements, (axes, windows, grows, group, self.swizzle)
        if (found := known.get(alike)) is None:
            grown = dict(zip(axes, grows, strict=True))
            found = known[alike] = elements_in(axes, windows, lambda axis: self._positions(axis, grown[axis], group))
        return found

    def _positions(self, axis: str, grows: bool, group: str | None) -> Numbers:
        size = self.at.size(axis)
        if not grows:
            return size
        extent = max(1, self.at.extents.get(axis, 1))
        return extent if axis != group else np.minimum(extent, self.swizzle * size)


def _added(rows: Table) -> Numbers:
    """The sum of rows, one after another: NumPy's own sum of few columns adds in another order."""
    return np.add.accumulate(rows, axis=0)[-1] if len(rows) else 0.0
