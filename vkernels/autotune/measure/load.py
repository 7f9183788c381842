"""Whether others work on the cores of a measurement: what the system counts, against what this process used itself."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

STATISTICS = Path("/proc/stat")
_USED = (0, 1, 2, 5, 6, 7)
"""Columns of time that somebody ran: user, nice, system, interrupts of both kinds, and what was stolen from a virtual
machine. Guests are counted in user."""


@dataclass(frozen=True)
class Moment:
    """Seconds: of wall time, that these cores were in use, and that this process and its children used any."""

    wall: float
    used: float
    own: float


def busy_seconds(cores: Collection[int], file: Path = STATISTICS) -> float | None:
    """Seconds that some cores have been in use since the machine started; None where the system does not tell."""
    tick = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
    wanted = {f"cpu{core}" for core in cores}
    total, found = 0, 0
    try:
        for line in file.read_text().splitlines():
            words = line.split()
            if words and words[0] in wanted:
                numbers = [int(word) for word in words[1:]]
                total += sum(numbers[column] for column in _USED if column < len(numbers))
                found += 1
    except (OSError, ValueError):
        return None
    return total / tick if found == len(wanted) else None


def own_seconds() -> float:
    """Seconds of processor time that this process and the children that it waited for have used."""
    used = os.times()
    return time.process_time() + used.children_user + used.children_system


class LoadWatch:
    """How much others used some cores since it was made. Where the system does not tell, nobody did."""

    def __init__(
        self,
        cores: Collection[int],
        busy: Callable[[Collection[int]], float | None] = busy_seconds,
        own: Callable[[], float] = own_seconds,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._cores, self._busy, self._own, self._clock = tuple(cores), busy, own, clock
        self._ticks = 2 * len(self._cores) / (os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100)
        self._began = self._now()

    def others(self) -> float:
        """The part of these cores' time, 0 to 1, that others used. Counters are coarse: what may be their rounding is
        taken off, so that a short while counts as quiet."""
        began, now = self._began, self._now()
        if began is None or now is None or not self._cores:
            return 0.0
        wall = now.wall - began.wall
        by_others = (now.used - began.used) - (now.own - began.own) - self._ticks
        return min(1.0, max(0.0, by_others / (wall * len(self._cores)))) if wall > 0 else 0.0

    def _now(self) -> Moment | None:
        used = self._busy(self._cores)
        return None if used is None else Moment(self._clock(), used, self._own())
