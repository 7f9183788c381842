"""How many bytes each level of memory moves under a plan: what is touched again, and whether it is still at hand."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from .loops import Axes, Loop, Step, Touch
from .setting import Numbers, Setting


class Traffic:
    """Bytes that a level of memory with some capacity must fetch from the next, over all programs.

    A touch is repeated by every loop around it that does not decide which elements it takes. What all touches inside
    one trip of that loop take together is compared with the capacity: if it fits, the repetition costs nothing.
    """

    def __init__(self, at: Setting, on_chip_counts: bool, resident: Numbers = 1):
        self.at = at
        self.resident = resident
        self.touches = [
            (number, step, step.touch)
            for number, loop in enumerate(at.loops)
            for step in loop.steps
            if step.touch is not None and (on_chip_counts or not at.is_on_chip(step.touch))
        ]
        self._footprints: dict[tuple[int | None, frozenset[str]], Numbers] = {}

    def distinct(self, without: Collection[str] = ()) -> Numbers:
        """Bytes of all tensors that are touched, each element once, but of those `without`."""
        sizes: dict[str, Numbers] = {}
        for _, _, touch in self.touches:
            if touch.home is None and touch.place not in without:
                sizes[touch.place] = np.maximum(sizes.get(touch.place, 0), self._elements(touch) * touch.element_bytes)
        return sum(sizes.values()) if sizes else 0

    def written(self, places: Collection[str]) -> Numbers:
        """Bytes that stores to some tensors write, each element once."""
        sizes = {t.place: self._elements(t) * t.element_bytes for _, _, t in self.touches if t.writes}
        return sum(size for place, size in sizes.items() if place in places)

    def missed(self, capacity: Numbers, line: int, users: Numbers = 1) -> tuple[Numbers, Numbers]:
        """Bytes read from beyond a cache of so many bytes, and written there, in whole lines.

        `users`: programs that have the cache at once, each with what it touches by itself.
        """
        reads: Numbers = 0.0
        writes: Numbers = 0.0
        met: set[tuple[str, bool]] = set()
        program = self._footprint(None, self._inside_programs())
        for number, step, touch in self.touches:
            loop = self.at.loops[number]
            moved = self._elements(touch) * touch.element_bytes * self._waste(touch, loop, step, line)
            for repeat, inner in self._repeats(loop, step, touch):
                across = repeat in self.at.order
                alone = not across or touch.home is not None  # each program has homes of its own
                taken = self._footprint(None if across else number, inner) * (users if alone else 1)
                fits = taken <= capacity
                again = self.at.trips(repeat)
                if not alone:
                    beside = self.resident / self.at.all_trips(axis for axis in self.at.order if axis in inner)
                    again = np.maximum(1, again / np.maximum(1, beside))
                moved = moved * np.where(fits, 1, again)
            if (touch.place, touch.writes) in met or (touch.home is not None and (touch.place, True) in met):
                moved = np.where(program * users <= capacity, 0, moved)
            met.add((touch.place, touch.writes))
            if touch.writes:
                writes = writes + moved
            else:
                reads = reads + moved
        return reads, writes

    def _axes(self, touch: Touch) -> Axes:
        """Those that decide which elements; a home is the same memory in every program."""
        return touch.axes if touch.home is None else tuple(axis for axis in touch.axes if axis not in self.at.order)

    def _elements(self, touch: Touch) -> Numbers:
        """Elements of all of a touch's axes."""
        elements: Numbers = 1.0
        for axis in touch.axes:
            of_home = touch.home is not None and axis in self.at.order
            elements = elements * (self.at.size(axis) if of_home else max(1, self.at.extents.get(axis, 1)))
        return elements

    def _repeats(self, loop: Loop, step: Step, touch: Touch) -> Iterator[tuple[str, frozenset[str]]]:
        """The loops that repeat a touch, and all axes that each of their trips goes through."""
        own = self._axes(touch)
        around = [*self.at.order, *loop.ranges, *executed(loop, step), *step.ranges]
        for place, axis in enumerate(around):
            if axis not in own and axis not in around[:place]:
                inner = around[place + 1 :] if axis not in self.at.order else self._inside(axis)
                yield axis, frozenset({*inner, *touch.axes}) if touch.scattered else frozenset(inner)

    def _inside(self, tile: str) -> Axes:
        faster = self.at.order[self.at.order.index(tile) + 1 :]
        return (*faster, *self._inside_programs())

    def _inside_programs(self) -> frozenset[str]:
        return frozenset({*self.at.sizes, *self.at.extents}) - frozenset(self.at.order)

    def _footprint(self, number: int | None, inner: frozenset[str]) -> Numbers:
        """Bytes that the touches of a loop, or of all, take while some axes are gone through."""
        found = self._footprints.get((number, inner))
        if found is None:
            places: dict[str, Numbers] = {}
            for loop, _, touch in self.touches:
                if number is None or loop == number:
                    taken: Numbers = float(touch.element_bytes) * (2 if touch.place in self.at.copies else 1)
                    for axis in touch.axes:
                        grows = axis in inner and not (touch.home is not None and axis in self.at.order)
                        taken = taken * (max(1, self.at.extents.get(axis, 1)) if grows else self.at.size(axis))
                    places[touch.place] = np.maximum(places.get(touch.place, 0), taken)
            found = self._footprints[number, inner] = sum(places.values()) if places else 0
        return found

    def _waste(self, touch: Touch, loop: Loop, step: Step, line: int) -> Numbers:
        """Bytes of lines beside bytes asked for, where too few of a line lie side by side in one program."""
        if touch.run is None or touch.home is not None or touch.place in self.at.packs:
            return 1
        together = self.at.size(touch.run)
        if touch.run in (*loop.axes, *loop.ranges, *step.ranges, *self.at.held):
            together = max(1, self.at.extents.get(touch.run, 1))
        return np.clip(line / (together * touch.element_bytes), 1, line / touch.element_bytes)


def executed(loop: Loop, step: Step) -> Axes:
    """The chunk loops that a step runs in: down to the innermost of its own."""
    depth = max((loop.axes.index(axis) + 1 for axis in step.axes if axis in loop.axes), default=0)
    return loop.axes[:depth]
