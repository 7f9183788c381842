"""Asks a search, measures, tells it, until it is time to stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from .searches.search import Outcome, Search
from .space import Point


@dataclass(frozen=True)
class Stop:
    """When a search ends, if not for want of points: at the first that is reached.

    `evaluations`: points told, seeds and those of before a resumption included. `seconds`: since `drive` began; a point
    that is being measured then is still told. `patience`: evaluations without a new best, or with one that is better by
    less than `worthwhile`, as a part of the time.
    """

    evaluations: int | None = None
    seconds: float | None = None
    patience: int | None = None
    worthwhile: float = 0.0


def drive(
    search: Search, measure: Callable[[Point], Outcome], stop: Stop, clock: Callable[[], float] = monotonic
) -> str:
    """Measure what the search asks for until `stop` says so; which limit it was: a name of `Stop`'s, or `space`.

    What `measure` raises is raised, and the search goes on from there when driven again: the point that was being
    measured is asked for anew.
    """
    began = clock()
    while True:
        if stop.evaluations is not None and len(search.told) >= stop.evaluations:
            return "evaluations"
        if stop.seconds is not None and clock() - began >= stop.seconds:
            return "seconds"
        if stop.patience is not None and since_gain(search, stop.worthwhile) >= stop.patience:
            return "patience"
        point = search.ask()
        if point is None:
            return "space"
        try:
            outcome = measure(point)
        except BaseException:
            search.give_back(point)
            raise
        search.tell(point, outcome)


def since_gain(search: Search, worthwhile: float = 0.0) -> int:
    """Points told since the best was bettered by more than this part of its time."""
    best, since = float("inf"), 0
    for told in search.told:
        since += 1
        if told.seconds < best * (1 - worthwhile):
            best, since = told.seconds, 0
    return since
