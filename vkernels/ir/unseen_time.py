"""What a call on a GPU takes by what no binary shows, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class UnseenTime:
    """`least`: seconds of a call at least. `by_residency`: of each launch, with one program on a multiprocessor, with
    two, and so on. `launches`: of starting them, beside which nothing is done."""

    least: float = 0.0
    by_residency: tuple[tuple[float, ...], ...] = ()
    launches: float = 0.0

    def seconds(self, resident: Sequence[int]) -> float:
        """Of a call, given how many programs of each launch a multiprocessor holds."""
        launches = zip(self.by_residency, resident, strict=False)
        return max(self.least, sum(each[min(max(1, number), len(each)) - 1] for each, number in launches))


NOTHING_UNSEEN = UnseenTime()
