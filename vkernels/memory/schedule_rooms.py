"""What is still free while a schedule is being made: room by operation, and time on the links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = "NDArray[np.float64]"
Sizes: TypeAlias = "NDArray[np.int64]"


class FreeBytes:
    """Bytes used at each moment of an iteration that repeats; ranges may wrap into the next."""

    def __init__(self, used: Sequence[int], limit: float):
        self.used: Sizes = np.array(used, dtype=np.int64)
        self.limit = limit

    def add(self, start: int, end: int, size: int) -> None:
        """`size` bytes more from `start` until before `end`; fewer if negative."""
        for part in self.parts(start, end):
            self.used[part] += size

    def fits(self, start: int, end: int, size: int) -> bool:
        """Whether `size` bytes more stay within the limit."""
        return all(self.used[part].max(initial=0) + size <= self.limit for part in self.parts(start, end))

    def earliest(self, start: int, end: int, size: int) -> int:
        """The first moment from `start` on from which `size` bytes more fit until before `end`."""
        for part in reversed(self.parts(start, end)):
            over = np.flatnonzero(self.used[part] + size > self.limit)
            if len(over):
                return end - int(part.stop - 1 - part.start - over[-1])
            end -= part.stop - part.start
        return start

    def excess(self) -> Sizes:
        """Bytes over the limit, at each moment."""
        over: Sizes = np.maximum(self.used - np.int64(min(self.limit, 1 << 62)), 0)
        return over

    def parts(self, start: int, end: int) -> list[slice]:
        """The moments from `start` until before `end`, in order, as pieces of one iteration."""
        count = len(self.used)
        if end <= start:
            return []
        begin = start % count
        length = min(end - start, count)
        if begin + length <= count:
            return [slice(begin, begin + length)]
        return [slice(begin, count), slice(0, begin + length - count)]


class LinkTime:
    """Seconds of one link and direction that are not booked yet, operation by operation, as though all ran on time."""

    def __init__(self, seconds: Sequence[float]):
        self.left = list(seconds)

    def forward(self, start: int, end: int, work: float) -> int | None:
        """The operation with whose end a transfer of `work` seconds is over that begins with operation `start`; None
        where that is not before `end`."""
        count = len(self.left)
        for at in range(start, end):
            work -= self.left[at % count]
            if work <= 0:
                return at
        return None

    def backward(self, start: int, end: int, work: float) -> int | None:
        """The operation at whose start a transfer has to begin that must be over before operation `end`; None where
        that is before `start`."""
        count = len(self.left)
        for at in range(end - 1, start - 1, -1):
            work -= self.left[at % count]
            if work <= 0:
                return at
        return None

    def take(self, moments: range, work: float) -> None:
        """Book `work` seconds of the link, in the order of `moments`."""
        count = len(self.left)
        for at in moments:
            part = min(work, self.left[at % count])
            self.left[at % count] -= part
            work -= part
            if work <= 0:
                return
