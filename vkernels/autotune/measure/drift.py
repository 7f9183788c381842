"""How fast the machine is at the moment: memory and clocks are shared with others, and slow for seconds on end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import log

from .intervals import median
from .outcomes import Measurement

NOTICED = 0.05
"""Part by which the moment has to differ from what is usual to count: less is the probe's own noise."""
MAX_FACTOR = 1.5
"""Times as long as usual, at most: what takes longer hits one plan harder than another."""
SETTLED = 5
"""Probes, at a known plan's time, whose median is what is usual from then on."""


@dataclass
class DriftCorrection:
    """How much slower than usual the machine is at the moment. `probe`: the seconds that a call of a known plan takes
    now. `usual`: what it usually takes; None before it is known."""

    probe: Callable[[], float]
    usual: float | None = None
    _first: list[float] = field(default_factory=list)

    def now(self) -> float:
        """How many times as long as usual calls take now; 1 where that is not sure. What a second probe does not show
        as well was an accident."""
        seconds = self.probe()
        usual = self.usual
        if usual is None:
            self._first.append(seconds)
            usual = median(self._first)
            self.usual = usual if len(self._first) >= SETTLED else None
        times = seconds / usual
        if abs(times - 1) > NOTICED:
            times = min(times, self.probe() / usual, key=lambda each: abs(log(each)))
        return min(MAX_FACTOR, max(1 / MAX_FACTOR, times)) if abs(times - 1) > NOTICED else 1.0


def corrected_for_drift(measured: Measurement, times: float) -> Measurement:
    """A measurement made while calls took `times` as long as usual, scaled to the usual speed."""
    seconds, low, high = (each / times for each in (measured.seconds, measured.low, measured.high))
    return replace(measured, seconds=seconds, low=low, high=high)
