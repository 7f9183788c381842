"""Limits of a search: run it until one is reached, and divide the seconds of a tuning run."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from statistics import median
from time import monotonic

from vkernels.ir.errors import OptionError

from .measure import Effort
from .rerank import CONTENDERS, MAX_ROUNDS, ROUNDS
from .searches.search import Outcome, Search
from .space import Point

RERANK_PART, MAX_RERANK = 0.25, 15.0
"""Share of the seconds, and their maximum, reserved for the finalists and for ablating the best plan. What these turn
out not to need goes back to the search."""
FINALIST_COST, CONTENDER_COST = 1.5, 0.6
"""Maximal cost of a finalist, and of a contender in another comparison, relative to measuring a plan."""
FRESH_INPUTS_SECONDS = 2.0
"""Seconds reserved for timing finalists with new inputs elsewhere in memory; with less time there are none."""
MAX_ABLATIONS = 8
MANY = 1 << 30
CANDIDATE_PART, MIN_TIMING, MAX_TIMING = 0.002, 0.03, 0.25
"""Share of the seconds, their minimum and maximum, for timing one candidate."""
MAX_TIMEOUT, MIN_TIMEOUT, SLOWEST_TIMES = 60.0, 4.0, 10.0
"""Limits of a candidate's seconds, and of its slowness relative to the quickest candidate: a short budget is not for
plans that take long to compile."""


LEAST_SECONDS = 0.1
"""Seconds of a search if the budget is spent before it begins: the default plan is tried."""
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_TIME = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)([smh])")
_COUNT = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class Stop:
    """The limits of a search; the first one that is reached ends it.

    `evaluations`: number of trials, including seeds and earlier ones. `seconds`: since `drive` began; the present
    trial is still completed. `patience`: trials without a new best that improves the time by more than the fraction
    `worthwhile`.
    """

    evaluations: int | None = None
    seconds: float | None = None
    patience: int | None = None
    worthwhile: float = 0.0

    def after(self, seconds: float) -> Stop:
        """The limits that are left after so many seconds; a search may at least begin."""
        return self if self.seconds is None else replace(self, seconds=max(LEAST_SECONDS, self.seconds - seconds))


def stop_from(budget: str | float, option: str = "budget") -> Stop:
    """A budget as limits of a search: seconds as a number; a time (`60s`, `2m`, `1h`), a number of plans (`200`), or
    both with a comma as text. Raises `OptionError` that names the `option`."""
    if not isinstance(budget, str):
        if isinstance(budget, bool) or not isinstance(budget, int | float) or not 0 < budget < float("inf"):
            raise OptionError(f"{option}: expected seconds, as 60.0, or a text as 60s, 200 or 2m,200; got {budget!r}")
        return Stop(seconds=float(budget))
    found: dict[str, float] = {}
    for part in budget.split(","):
        time, count = _TIME.fullmatch(part.strip()), _COUNT.fullmatch(part.strip())
        if time:
            found["seconds"] = float(time[1]) * _SECONDS[time[2]]
        elif count:
            found["evaluations"] = int(count[0])
        if not (time or count) or not all(found.values()):
            raise OptionError(f"{option}: expected a time as 60s, 2m or 1h, or a number of plans as 200, got {part!r}")
    seconds, evaluations = found.get("seconds"), found.get("evaluations")
    return Stop(evaluations=None if evaluations is None else int(evaluations), seconds=seconds)


def drive(
    search: Search,
    measure: Callable[[Point], Outcome],
    stop: Stop,
    clock: Callable[[], float] = monotonic,
    at_once: Callable[[], int] = lambda: 1,
    prepare: Callable[[Sequence[Point]], object] = lambda points: None,
    rolling: bool = False,
) -> str:
    """Measure what a search proposes until it stops; return the limit that was reached, or `space` if all was tried.

    `at_once`: number of points to propose before they are measured one after another; `prepare` gets them first if
    there are several. `rolling`: propose another point after each measurement, which `prepare` gets, too, rather than
    all of them when none is left. Exceptions of `measure` pass through; a search can be driven on, and then proposes
    unmeasured points again.
    """
    began = clock()
    waiting: list[Point] = []
    try:
        while not (reached := _reached(search, stop, clock() - began)):
            if rolling or not waiting:
                left = at_once() if stop.evaluations is None else min(at_once(), stop.evaluations - len(search.told))
                new = list(islice(iter(search.ask, None), max(0, left - len(waiting))))
                waiting += new
                if len(new) > 1 or (new and rolling):
                    prepare(tuple(new))
            if not waiting:
                return "space"
            outcome = measure(waiting[0])
            search.tell(waiting.pop(0), outcome)
    finally:
        for point in waiting:
            search.give_back(point)
    return reached


def _reached(search: Search, stop: Stop, seconds: float) -> str:
    if stop.evaluations is not None and len(search.told) >= stop.evaluations:
        return "evaluations"
    if stop.seconds is not None and seconds >= stop.seconds:
        return "seconds"
    if stop.patience is not None and since_gain(search, stop.worthwhile) >= stop.patience:
        return "patience"
    return ""


def since_gain(search: Search, worthwhile: float = 0.0) -> int:
    """Number of trials since the best time improved by more than this fraction."""
    best, since = float("inf"), 0
    for told in search.told:
        since += 1
        if told.seconds < best * (1 - worthwhile):
            best, since = told.seconds, 0
    return since


@dataclass
class TimeBudget:
    """Divides the seconds of a run, which began at a time of the `clock`. `took`: the seconds of each measurement."""

    stop: Stop
    began: float
    clock: Callable[[], float] = monotonic
    took: list[float] = field(default_factory=list)

    @property
    def reserved(self) -> float:
        """Seconds that are reserved at first for the finalists."""
        return 0.0 if self.stop.seconds is None else min(MAX_RERANK, RERANK_PART * self.stop.seconds)

    @property
    def timeout(self) -> float:
        """Time limit of the next candidate."""
        if self.stop.seconds is None:
            return MAX_TIMEOUT
        most = min(MAX_TIMEOUT, self.stop.seconds / 3)
        return min(most, max(MIN_TIMEOUT, SLOWEST_TIMES * min(self.took, default=most)))

    def rerank(self, finalists: int, loaded: Sequence[bool], settings: int = 1) -> float:
        """Expected seconds of comparing this many finalists, in so many settings, and of ablating a new best.

        `loaded`: for each measurement, whether there was other load, which requires more comparisons.
        """
        usual = median(self.took) if self.took else 0.0
        again = (MAX_ROUNDS if 2 * sum(loaded) > len(loaded) else ROUNDS) - 1
        contenders = again + sum(CONTENDERS) + (again - len(CONTENDERS)) * CONTENDERS[-1]
        comparisons = settings * (FINALIST_COST * finalists + CONTENDER_COST * contenders)
        return min(self.reserved, FRESH_INPUTS_SECONDS + (comparisons + MAX_ABLATIONS / 2) * usual)

    def affordable(self, settings: int) -> int:
        """How many finalists can be compared once, in so many settings, in the time that is left."""
        usual = median(self.took) if self.took else 0.0
        left = self.left()
        return MANY if left == float("inf") or not usual else int(left / (settings * FINALIST_COST * usual))

    def share(self, parts: int) -> Callable[[float], bool]:
        """Whether so many seconds are left of the next one of equally long parts, the first of which begins now."""
        until = self.left() / max(1, parts)
        began = self.clock()
        return lambda seconds: self.clock() - began + seconds < until or until == float("inf")

    def left(self, reserved: float = 0.0) -> float:
        """Seconds that are left beside the reserved ones; infinite without a time limit."""
        if self.stop.seconds is None:
            return float("inf")
        return max(0.0, self.stop.seconds - reserved - (self.clock() - self.began))


def end_of(stop: Stop) -> float:
    """When the seconds of a run that begins now end, on the monotonic clock."""
    return float("inf") if stop.seconds is None else monotonic() + stop.seconds


def effort_of(stop: Stop) -> Effort:
    """How carefully to time one candidate, given the time for all."""
    wished = MAX_TIMING if stop.seconds is None else stop.seconds * CANDIDATE_PART
    return Effort(seconds=min(MAX_TIMING, max(MIN_TIMING, wished)))
