"""How the seconds of a tuning run are shared out: to the search, to one candidate, and to comparing the best again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from time import monotonic

from .drive import Stop
from .measure import Effort
from .rerank import CONTENDERS, MAX_ROUNDS, ROUNDS

RERANK_PART, MAX_RERANK = 0.25, 15.0
"""Part of the seconds, and seconds at most, that are kept at first for the finalists and for ablating the best plan.
What these turn out not to need is searched on with."""
FINALIST_COST, CONTENDER_COST = 1.5, 0.6
"""What a finalist takes at most, and one that is compiled in another comparison, as multiples of what measuring a plan
usually took."""
FRESH_INPUTS_SECONDS = 2.0
"""Seconds kept for timing finalists elsewhere in memory, for which inputs are made anew; with less left none are."""
MAX_ABLATIONS = 8
"""Choices of the best plan that are undone one by one to see what each won, at most."""
CANDIDATE_PART, MIN_TIMING, MAX_TIMING = 0.002, 0.03, 0.25
"""Part of the seconds, and seconds, that timing one candidate may take."""
MAX_TIMEOUT, MIN_TIMEOUT, SLOWEST_TIMES = 60.0, 4.0, 10.0
"""Seconds that a candidate may take in all, and how many times as long as the quickest one so far: plans that take long
to compile are not the ones that a short budget is for."""


@dataclass
class TimeBudget:
    """The seconds of one run, which began at `began`. `took`: seconds that measuring each plan took so far."""

    stop: Stop
    began: float
    took: list[float] = field(default_factory=list)

    @property
    def reserved(self) -> float:
        """Seconds that are kept at first for the finalists."""
        return 0.0 if self.stop.seconds is None else min(MAX_RERANK, RERANK_PART * self.stop.seconds)

    @property
    def timeout(self) -> float:
        """Seconds that the next candidate may take."""
        if self.stop.seconds is None:
            return MAX_TIMEOUT
        most = max(MIN_TIMEOUT, min(MAX_TIMEOUT, self.stop.seconds / 3))
        return max(MIN_TIMEOUT, min(most, SLOWEST_TIMES * min(self.took, default=most)))

    def rerank(self, finalists: int, loaded: Sequence[bool]) -> float:
        """Seconds that so many finalists are expected to take, and undoing some choices of a new best. `loaded`:
        whether each measurement was made under other load, with which finalists are compared more often."""
        usual = median(self.took) if self.took else 0.0
        again = (MAX_ROUNDS if 2 * sum(loaded) > len(loaded) else ROUNDS) - 1
        contenders = again + sum(CONTENDERS) + (again - len(CONTENDERS)) * CONTENDERS[-1]
        comparisons = FINALIST_COST * finalists + CONTENDER_COST * contenders
        return min(self.reserved, FRESH_INPUTS_SECONDS + (comparisons + MAX_ABLATIONS / 2) * usual)

    def left(self, reserved: float = 0.0) -> float:
        """Seconds that are left beside those that are reserved; infinite where none were set."""
        if self.stop.seconds is None:
            return float("inf")
        return max(0.0, self.stop.seconds - reserved - (monotonic() - self.began))


def effort_of(stop: Stop) -> Effort:
    """How carefully one candidate is timed, where so much time is for all."""
    wished = MAX_TIMING if stop.seconds is None else stop.seconds * CANDIDATE_PART
    return Effort(seconds=min(MAX_TIMING, max(MIN_TIMING, wished)))
