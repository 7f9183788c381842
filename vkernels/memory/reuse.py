"""Predict when storages are used again, from the operations that ran before, and choose what to evict first.

Each use of a storage is known by the operation, its operand, and all operations of the iteration before it. When the
storage is used again, the distance is noted for the use before: the next time that the same operations run, the next
use is known. Iterations that begin alike share what was learnt of their common part. A use that is new after these
operations counts as the last one of the same operation with operands of the same sizes; without any, the storage that
has been unused the longest goes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any, Protocol

MAX_USES = 1 << 18
"""Uses whose distance is remembered."""
COMPACT = 1 << 12
"""Entries of the order, at which those out of date are removed."""
Use = tuple[Any, ...]


class Reused(Protocol):
    """A storage. `used`: the operation's number at its last use; `use`, `alike`: that use, exactly and by its like.

    `stamp`: of its entry in the order; 0: it is no candidate.
    """

    used: int
    stamp: int
    use: Use
    alike: Use


class ReuseOrder:
    """The order in which to evict. `now`: the number of the operation."""

    def __init__(self) -> None:
        self.now = 0
        self._prefix = 0
        """A hash of the iteration's operations so far."""
        self._distances: dict[Use, int] = {}
        self._next: list[tuple[int, int, Any]] = []
        self._unknown: list[tuple[int, int, Any]] = []
        """Heaps: the latest next use first, and the longest unused first. Entries of other stamps are out of date."""
        self._stamp = 0
        self._compact_at = COMPACT

    def begin(self) -> None:
        """Begin an iteration."""
        self._prefix = 0

    def note(self, name: str, used: Sequence[Reused], sizes: Sequence[int]) -> None:
        """Note an operation and the storages that it used and made."""
        self.now += 1
        if len(self._distances) > MAX_USES:
            self._distances.clear()
        alike = hash((name, *sizes))
        self._prefix = hash((self._prefix, alike))
        for operand, each in enumerate(used):
            if each.use:
                self._distances[each.use] = self._distances[each.alike] = self.now - each.used
            each.used, each.use, each.alike = self.now, (self._prefix, operand), (alike, operand, name)
            self.push(each)
        if len(self._next) + len(self._unknown) > self._compact_at:
            for heap in (self._next, self._unknown):
                heap[:] = sorted(entry for entry in heap if entry[1] == entry[2].stamp)
            self._compact_at = COMPACT + 2 * (len(self._next) + len(self._unknown))

    def push(self, each: Reused) -> None:
        """Make a storage a candidate for eviction."""
        self._stamp = each.stamp = self._stamp + 1
        distance = self._distances.get(each.use) or self._distances.get(each.alike)
        if distance is None:
            heappush(self._unknown, (each.used, each.stamp, each))
        else:
            heappush(self._next, (-each.used - distance, each.stamp, each))

    def pop(self) -> Any:
        """Remove and return the storage to evict first; None if there is none."""
        _skip(self._next)
        _skip(self._unknown)
        if not self._next or not self._unknown:
            heap = self._next or self._unknown
        else:
            is_later = -self._next[0][0] - self.now > self.now - self._unknown[0][0]
            heap = self._next if is_later else self._unknown
        return heappop(heap)[2] if heap else None


def _skip(heap: list[tuple[int, int, Any]]) -> None:
    while heap and heap[0][1] != heap[0][2].stamp:
        heappop(heap)
