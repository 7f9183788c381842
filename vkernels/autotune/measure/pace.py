"""How fast the machine is at the moment: memory and clocks are shared with others, and slow for seconds on end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import log

from .intervals import median
from .outcomes import Measured

NOTICED = 0.05
"""Part by which the moment has to differ from what is usual to count: less is the glance's own noise."""
MOST = 1.5
"""Times as long as usual, at most: what takes longer hits one plan harder than another."""
SETTLED = 5
"""Glances, at a known plan's time, whose median is what is usual from then on."""


@dataclass
class Pace:
    """`glance`: the seconds that a call of a known plan takes now. `usual`: what it takes else; None before it is
    known."""

    glance: Callable[[], float]
    usual: float | None = None
    _first: list[float] = field(default_factory=list)

    def now(self) -> float:
        """How many times as long as usual calls take now; 1 where that is not sure. What a second glance does not show
        as well was no moment, but an accident."""
        seconds = self.glance()
        usual = self.usual
        if usual is None:
            self._first.append(seconds)
            usual = median(self._first)
            self.usual = usual if len(self._first) >= SETTLED else None
        times = seconds / usual
        if abs(times - 1) > NOTICED:
            times = min(times, self.glance() / usual, key=lambda each: abs(log(each)))
        return min(MOST, max(1 / MOST, times)) if abs(times - 1) > NOTICED else 1.0


def at_usual_pace(measured: Measured, times: float) -> Measured:
    """What was measured while calls took so many times as long as usual, as it were else."""
    seconds, low, high = (each / times for each in (measured.seconds, measured.low, measured.high))
    return replace(measured, seconds=seconds, low=low, high=high)
