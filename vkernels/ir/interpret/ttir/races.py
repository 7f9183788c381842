"""When each byte was last accessed, and which accesses may not follow each other.

Every execution of a tensor operation has a number, its *time*. Programs run one after another here; on a device they
run at once, and so do the threads of each between two barriers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..numbers import Array

NEVER = 0


@dataclass
class InterpreterClock:
    """The time now, and when the current interval between barriers and the current program began."""

    now: int = NEVER
    interval: int = NEVER
    program: int = NEVER

    def tick(self) -> None:
        """Another operation begins."""
        self.now += 1

    def barrier(self) -> None:
        self.interval = self.now + 1

    def next_program(self) -> None:
        self.program = self.interval = self.now + 1


class _Times:
    """A time for each byte, with what is known of all of them so as not to look."""

    def __init__(self, size: int):
        self._size = size
        self._array: Array | None = None
        self.earliest = self.latest = NEVER

    def rows(self, width: int) -> Array:
        """The times by elements of so many bytes: one row an element."""
        if self._array is None:
            self._array = np.zeros(self._size, np.int32)
        return self._array.reshape(-1, width)

    def _note(self, now: int) -> None:
        self.latest = now
        self.earliest = self.earliest or now

    def set(self, cells: Array, width: int, now: int) -> None:
        self.rows(width)[cells] = now
        self._note(now)

    def set_first(self, cells: Array, width: int, now: int) -> None:
        """Where there is none yet."""
        rows = self.rows(width)
        before = rows[cells]
        rows[cells] = np.where(before == NEVER, now, before)
        self._note(now)

    def since(self, cells: Array, width: int, time: int) -> Array | None:
        """Which elements have a byte with this time or a later one; None if there is no such byte at all."""
        if self.latest < time or self.latest == NEVER:
            return None
        return np.asarray((self.rows(width)[cells] >= time).any(axis=1))

    def before(self, cells: Array, width: int, time: int) -> Array | None:
        """Which elements have a byte with an earlier time; None if there is no such byte at all."""
        if self.earliest == NEVER or self.earliest >= time:
            return None
        rows = self.rows(width)[cells]
        return np.asarray(((rows != NEVER) & (rows < time)).any(axis=1))


@dataclass(frozen=True)
class Conflict:
    """Elements that another access has met: `earlier` is what it did; `other_program`, or else this one's threads."""

    elements: Array
    earlier: str
    other_program: bool


class Stamps:
    """The times of accesses to an allocation's bytes."""

    def __init__(self, size: int):
        self._write, self._read, self._first_read = _Times(size), _Times(size), _Times(size)
        self._update, self._first_update = _Times(size), _Times(size)

    def read(self, cells: Array, width: int, clock: InterpreterClock, between_programs: bool) -> Conflict | None:
        """Note a read of elements of `width` bytes, given as their numbers; returns what it may not follow."""
        conflict = self._after(cells, width, clock, between_programs, "written", self._write, self._write)
        conflict = conflict or self._after(
            cells, width, clock, between_programs, "updated", self._update, self._first_update
        )
        self._read.set(cells, width, clock.now)
        if between_programs:
            self._first_read.set_first(cells, width, clock.now)
        return conflict

    def write(self, cells: Array, width: int, clock: InterpreterClock, between_programs: bool) -> Conflict | None:
        """Note a write; returns what it may not follow."""
        conflict = self._after(cells, width, clock, between_programs, "written", self._write, self._write)
        conflict = conflict or self._after(
            cells, width, clock, between_programs, "updated", self._update, self._first_update
        )
        conflict = conflict or self._after(cells, width, clock, between_programs, "read", self._read, self._first_read)
        self._write.set(cells, width, clock.now)
        return conflict

    def update(self, cells: Array, width: int, clock: InterpreterClock, between_programs: bool) -> Conflict | None:
        """Note an atomic update; returns what it may not follow."""
        conflict = self._after(cells, width, clock, between_programs, "written", self._write, self._write)
        conflict = conflict or self._after(cells, width, clock, between_programs, "read", self._read, self._first_read)
        self._update.set(cells, width, clock.now)
        if between_programs:
            self._first_update.set_first(cells, width, clock.now)
        return conflict

    def _after(
        self,
        cells: Array,
        width: int,
        clock: InterpreterClock,
        between_programs: bool,
        earlier: str,
        last: _Times,
        first: _Times,
    ) -> Conflict | None:
        """Accesses of another program, or of this one since the last barrier; noted as first and last accesses."""
        if between_programs:
            others = first.before(cells, width, clock.program)
            if others is not None and others.any():
                return Conflict(others, earlier, True)
        own = last.since(cells, width, clock.interval)
        return Conflict(own, earlier, False) if own is not None and own.any() else None
