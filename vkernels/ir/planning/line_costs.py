"""Divide the modelled time of a plan among the phases of a kernel and the author's lines."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from ..analysis.needs import NeedsUse
from ..cost_model.loops import Loop, LoopStep
from ..cost_model.plan_batch import PlanBatch
from ..limits import Limits
from ..locations import place_of
from .one_plan import model_use

Line = tuple[str, int]
"""File and line number."""
Group = TypeVar("Group", bound=Hashable)


@dataclass(frozen=True)
class WorkShares:
    """Seconds of each part of the modelled time (`ModeledTimes.parts`), by phase and by line.

    The share of some work is the mean of two modelled times: what it takes alone, and what the kernel saves without it.
    These are the same unless work shares something, such as rows that two lines read and one cache miss pays for. None
    is more than the whole: alone, work may find less in caches.
    """

    phases: Mapping[str, Mapping[str, float]]
    lines: Mapping[Line, Mapping[str, float]]


def work_shares(at: PlanBatch, use: NeedsUse, limits: Limits) -> WorkShares:
    """The shares of the phases and of the lines in the modelled time of the one plan of a batch."""
    return WorkShares(
        _shares(at, use, limits, lambda loop, step: loop.phase),
        _shares(at, use, limits, lambda loop, step: _line(step)),
    )


def _line(step: LoopStep) -> Line | None:
    place = place_of(step.origin) if step.origin is not None else None
    return None if place is None else (place.file, place.line)


def _shares(
    at: PlanBatch, use: NeedsUse, limits: Limits, group: Callable[[Loop, LoopStep], Group | None]
) -> dict[Group, dict[str, float]]:
    def parts(keep: Callable[[Loop, LoopStep], bool]) -> Mapping[str, float]:
        loops = tuple(_only(loop, keep) for loop in at.loops)
        return model_use(replace(at, loops=loops), use, limits).parts

    whole, nothing = parts(lambda loop, step: True), parts(lambda loop, step: False)
    groups = dict.fromkeys(group(loop, step) for loop in at.loops for step in loop.steps)
    found: dict[Group, dict[str, float]] = {}
    for one in (each for each in groups if each is not None):
        alone = parts(lambda loop, step, one=one: group(loop, step) == one)  # type: ignore[misc]
        without = parts(lambda loop, step, one=one: group(loop, step) != one)  # type: ignore[misc]
        found[one] = {
            name: min(max(0.0, ((alone[name] - nothing[name]) + (whole[name] - without[name])) / 2), whole[name])
            for name in whole
        }
    return found


def _only(loop: Loop, keep: Callable[[Loop, LoopStep], bool]) -> Loop:
    times = loop.times or (1,) * len(loop.steps)
    kept = [(step, each) for step, each in zip(loop.steps, times, strict=True) if keep(loop, step)]
    return replace(
        loop, steps=tuple(step for step, _ in kept), times=tuple(each for _, each in kept) if loop.times else ()
    )
