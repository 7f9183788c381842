"""How many pairs of tasks meet what the coordinator aims at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from common import Quartiles

P50, P99, LEFT, OVERHEAD = 1.05, 1.25, 0.9, 1.01
"""Aims: the high task's p50 and p99 over those alone; what the low one gets of the time that is left; and p50 with high
priority over that without, both alone."""


@dataclass(frozen=True)
class Row:
    """Of one pair and setting: p50, p99 and answers' p99 over alone, the low task's rate over that by default, and over
    what it would get of the time in which the high task sleeps."""

    high: str
    low: str
    setting: str
    p50: Quartiles
    p99: Quartiles
    answer: Quartiles
    rate: Quartiles
    left: Quartiles


def verdicts(rows: Sequence[Row], overheads: Mapping[str, Quartiles]) -> list[str]:
    """A line for each aim, and how many pairs reach it in the middle of the rounds."""
    ours = [row for row in rows if row.setting == "ours"]
    idle = {(row.high, row.low): row for row in rows if row.setting == "idle class"}

    def count(name: str, is_met: Callable[[Row], bool]) -> str:
        return f"ours: {name}: {sum(map(is_met, ours))} of {len(ours)} pairs"

    def no_worse(row: Row) -> bool:
        other = idle[row.high, row.low]
        return row.p50.lower <= other.p50.upper and row.p99.lower <= other.p99.upper

    within = sum(each.median <= OVERHEAD for each in overheads.values())
    return [
        count(f"p50 at most {P50:g} times alone", lambda row: row.p50.median <= P50),
        count(f"p99 at most {P99:g} times alone", lambda row: row.p99.median <= P99),
        count("quartiles of p50 and p99 not above those of the idle class", no_worse),
        count(f"low at least {LEFT:g} of what is left", lambda row: row.left.median >= LEFT),
        f"high priority costs at most {OVERHEAD - 1:.0%} alone: {within} of {len(overheads)} tasks",
    ]
