"""How much of the gaps between a thread's calls is filled by calls of lower priority in other threads."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

Interval = tuple[float, float]
"""Begin and end, in seconds."""


@dataclass(frozen=True)
class Filled:
    """When something runs: intervals in order, apart from each other. `before`: seconds in all earlier ones."""

    begins: Sequence[float]
    ends: Sequence[float]
    before: Sequence[float]

    @staticmethod
    def of(intervals: Iterable[Interval]) -> Filled:
        """What these intervals cover together."""
        merged: list[list[float]] = []
        for begin, end in sorted(intervals):
            if merged and begin <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([begin, end])
        begins, ends = [begin for begin, _ in merged], [end for _, end in merged]
        return Filled(begins, ends, [0.0, *accumulate(end - begin for begin, end in merged)])

    def seconds(self, begin: float, end: float) -> float:
        """Seconds between two times at which something runs."""
        return self._until(end) - self._until(begin)

    def _until(self, time: float) -> float:
        """Seconds before this time at which something runs."""
        at = bisect_left(self.begins, time)
        if at == 0:
            return 0.0
        return self.before[at - 1] + min(time, self.ends[at - 1]) - self.begins[at - 1]
