"""When each byte was last accessed, and which accesses may not follow each other.

Every execution of a tensor operation has a number, its *time*. Programs run one after another here; on a device they
run at once, and so do the threads of each between two barriers. What a program did before an atomic update that
releases comes before what another does after one of the same element that acquires (happens-before; Lamport 1978): so
locks, and counters of the programs that are done, order accesses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ..numbers import Array

NEVER = 0


Released = Mapping[int, int]
"""Spans of time that are over for whoever acquires them: of programs, when each began, and until when."""


@dataclass
class InterpreterClock:
    """The time now, and when the current interval between barriers and the current program began. `acquired`: spans of
    earlier programs that come before what the current one does now."""

    now: int = NEVER
    interval: int = NEVER
    program: int = NEVER
    acquired: dict[int, int] = field(default_factory=dict)

    def tick(self) -> None:
        """Another operation begins."""
        self.now += 1

    def barrier(self) -> None:
        self.interval = self.now + 1

    def next_program(self) -> None:
        self.program = self.interval = self.now + 1
        self.acquired = {}

    def acquire(self, released: Released) -> None:
        """Come after these spans."""
        _extend(self.acquired, released)

    def release(self, before: Released) -> Released:
        """The spans of who acquires from now on what was released `before`, and now by the current program."""
        released = {**before}
        _extend(released, self.acquired)
        _extend(released, {self.program: self.now})
        return released


def _extend(spans: dict[int, int], others: Released) -> None:
    for began, ended in others.items():
        spans[began] = max(ended, spans.get(began, ended))


class _Times:
    """A time for each byte; `earliest` and `latest` bound them all, so that most questions need no array."""

    def __init__(self, size: int):
        self._size = size
        self._array: Array | None = None
        self.earliest = self.latest = NEVER

    def rows(self, width: int) -> Array:
        """The times of elements of `width` bytes: one row an element."""
        if self._array is None:
            self._array = np.zeros(self._size, np.int32)
        return self._array.reshape(-1, width)

    def set(self, cells: Array, width: int, now: int) -> None:
        self.rows(width)[cells] = now
        self.latest = now
        self.earliest = self.earliest or now

    def set_first(self, cells: Array, width: int, now: int) -> None:
        """Set the time where there is none yet."""
        before = self.rows(width)[cells]
        self.set(cells, width, now)
        self.rows(width)[cells] = np.where(before == NEVER, now, before)

    def since(self, cells: Array, width: int, time: int) -> Array | None:
        """Which elements have a byte with this time or a later one; None if there is no such byte at all."""
        if self.latest < time or self.latest == NEVER:
            return None
        return np.asarray((self.rows(width)[cells] >= time).any(axis=1))

    def before(self, cells: Array, width: int, time: int, over: Released) -> Array | None:
        """Which elements have a byte with an earlier time that is not in the spans that are `over`; None if there is no
        byte with an earlier time at all."""
        if self.earliest == NEVER or self.earliest >= time:
            return None
        rows = self.rows(width)[cells]
        found = (rows != NEVER) & (rows < time)
        if over:
            began = np.array(sorted(over), np.int64)
            ended = np.array([over[each] for each in began.tolist()], np.int64)
            span = np.searchsorted(began, rows, side="right") - 1
            found &= (span < 0) | (rows > ended[span])
        return np.asarray(found.any(axis=1))


@dataclass(frozen=True)
class Conflict:
    """Elements that an earlier access conflicts with: `earlier` is what it did, another program or this one."""

    elements: Array
    earlier: str
    other_program: bool


_DONE = {"reads": "read", "writes": "written", "updates": "updated"}
_MAY_NOT_FOLLOW = {
    "reads": ("written", "updated"),
    "writes": ("written", "updated", "read"),
    "updates": ("written", "read"),
}


class Stamps:
    """The times of accesses to an allocation's bytes: the last one of each kind, and the first read and update."""

    def __init__(self, size: int):
        self._last = {done: _Times(size) for done in _DONE.values()}
        self._first = {"read": _Times(size), "updated": _Times(size), "written": self._last["written"]}
        self._threads: dict[str, Array] = {}
        self._size = size

    def note(
        self, does: str, cells: Array, width: int, clock: InterpreterClock, between_programs: bool,
        threads: Array | None = None,
    ) -> Conflict | None:  # fmt: skip
        """Note that an access `reads`, `writes` or `updates` elements of `width` bytes, given by their numbers.

        `threads`: a number for the thread of each element, if threads are told apart: the accesses of one are in order.
        Returns the conflict with an earlier access, if there is one.
        """
        conflict = None
        for earlier in _MAY_NOT_FOLLOW[does]:
            conflict = conflict or self._after(earlier, cells, width, clock, between_programs, threads)
        done = _DONE[does]
        self._last[done].set(cells, width, clock.now)
        if threads is not None:
            self._threads_of(done, width)[cells] = threads[:, None]
        if between_programs and done != "written":
            self._first[done].set_first(cells, width, clock.now)
        return conflict

    def _threads_of(self, done: str, width: int) -> Array:
        """The thread of the last access to each byte: one row an element."""
        if done not in self._threads:
            self._threads[done] = np.full(self._size, -1, np.int64)
        return self._threads[done].reshape(-1, width)

    def _after(
        self, earlier: str, cells: Array, width: int, clock: InterpreterClock, between_programs: bool,
        threads: Array | None,
    ) -> Conflict | None:  # fmt: skip
        """The elements with an earlier access by another program, or by this one since the last barrier."""
        if between_programs:
            for times in (self._first[earlier], *([self._last[earlier]] if clock.acquired else [])):
                others = times.before(cells, width, clock.program, clock.acquired)
                if others is not None and others.any():
                    return Conflict(others, earlier, True)
        own = self._last[earlier].since(cells, width, clock.interval)
        if own is not None and threads is not None:
            own = own & (self._threads_of(earlier, width)[cells] != threads[:, None]).any(axis=1)
        return Conflict(own, earlier, False) if own is not None and own.any() else None
