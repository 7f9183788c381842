"""Free resources while a schedule is built: memory by operation, and time on the links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = "NDArray[np.float64]"
Sizes: TypeAlias = "NDArray[np.int64]"


class FreeBytes:
    """Bytes used at each moment of a repeating iteration; ranges may wrap into the next."""

    def __init__(self, used: Sequence[int], limit: float):
        self.used: Sizes = np.array(used, dtype=np.int64)
        self.limit = limit

    def add(self, start: int, end: int, size: int) -> None:
        """Use `size` more bytes from `start` until before `end`; fewer if negative."""
        for part in self.parts(start, end):
            self.used[part] += size

    def fits(self, start: int, end: int, size: int) -> bool:
        """Whether `size` more bytes stay within the limit."""
        return all(self.used[part].max(initial=0) + size <= self.limit for part in self.parts(start, end))

    def earliest(self, start: int, end: int, size: int) -> int:
        """The first moment from `start` on, from which `size` more bytes fit until before `end`."""
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
        """The moments from `start` until before `end`, in order, as slices of one iteration."""
        count = len(self.used)
        if end <= start:
            return []
        begin = start % count
        length = min(end - start, count)
        if begin + length <= count:
            return [slice(begin, begin + length)]
        return [slice(begin, count), slice(0, begin + length - count)]


class LinkTime:
    """Free seconds of one link and direction during each operation, if all operations run on time."""

    def __init__(self, seconds: Sequence[float]):
        self.left = list(seconds)

    def end(self, moments: range, work: float) -> int | None:
        """The operation of `moments` in which a transfer of `work` seconds ends; None if none is late enough."""
        for at in moments:
            work -= self.left[at % len(self.left)]
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
