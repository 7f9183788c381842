"""Asks a search, measures, tells it, until it is time to stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
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
    search: Search,
    measure: Callable[[Point], Outcome],
    stop: Stop,
    clock: Callable[[], float] = monotonic,
    at_once: Callable[[], int] = lambda: 1,
    prepare: Callable[[Sequence[Point]], object] = lambda points: None,
) -> str:
    """Measure what the search asks for until `stop` says so; which limit it was: a name of `Stop`'s, or `space`.

    `at_once`: how many points are asked for before they are measured one after another; `prepare` is called with them,
    where they are several. What `measure` raises is raised, and the search goes on from there when driven again: points
    that were asked for and not measured are asked for anew.
    """
    began = clock()
    waiting: list[Point] = []
    try:
        while not (reached := _reached(search, stop, clock() - began)):
            if not waiting:
                waiting = _asked(search, stop, at_once())
                if len(waiting) > 1:
                    prepare(tuple(waiting))
            if not waiting:
                return "space"
            outcome = measure(waiting[0])
            search.tell(waiting.pop(0), outcome)
    finally:
        for point in waiting:
            search.give_back(point)
    return reached


def _reached(search: Search, stop: Stop, seconds: float) -> str:
    """The limit that was reached, if one was."""
    if stop.evaluations is not None and len(search.told) >= stop.evaluations:
        return "evaluations"
    if stop.seconds is not None and seconds >= stop.seconds:
        return "seconds"
    if stop.patience is not None and since_gain(search, stop.worthwhile) >= stop.patience:
        return "patience"
    return ""


def _asked(search: Search, stop: Stop, count: int) -> list[Point]:
    """So many points, or as many as there are, or as may be told."""
    most = count if stop.evaluations is None else min(count, stop.evaluations - len(search.told))
    return list(islice(iter(search.ask, None), most))


def since_gain(search: Search, worthwhile: float = 0.0) -> int:
    """Points told since the best was bettered by more than this part of its time."""
    best, since = float("inf"), 0
    for told in search.told:
        since += 1
        if told.seconds < best * (1 - worthwhile):
            best, since = told.seconds, 0
    return since
