"""Whether a plan is modelled to be far from what the device can do, which line of the kernel costs most, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from ..cost_model.loops import Loop, LoopAccess, LoopStep, executed
from ..cost_model.plan_batch import PlanBatch
from ..cost_model.roofline import roofline
from ..errors import Error, SourceRange
from ..locations import place_of
from ..plan import Plan
from ..slow_plan import SlowPlan
from .one_plan import batch_of, model_use
from .space import PlanSearchSpace

FAR_OFF = 20.0
"""A plan is slow if it is modelled to take more than this many times the roofline."""
WORTH_SECONDS = 20e-6
"""Calls that take less are mostly launches; whether they could be faster matters little."""
SIDE_BY_SIDE = 32
"""Bytes of a sector, the least that memory hands out: accesses of fewer bytes side by side waste the rest."""
READ_AGAIN = 4
"""Times that each element is accessed from which on the lack of reuse is a reason."""


def slow_plan(space: PlanSearchSpace, plan: Plan, seconds: float, bottom: str | None = None) -> SlowPlan | None:
    """How a plan, modelled to take so long, is slow; None if it is not, or if that cannot be told.

    `bottom`: why it is of the bottom rung, if it is.
    """
    if seconds <= WORTH_SECONDS:
        return None
    try:
        least = roofline(space.kernel, space.sizes, space.limits, space.needs).seconds
        if seconds <= FAR_OFF * least:
            return None
        batch = batch_of(space, plan)
        line = _costliest_line(space, plan, batch)
        reasons = _reasons(space, batch, line, bottom)
    except (Error, ArithmeticError, ValueError):  # what cannot be modelled is not said to be slow
        return None
    return SlowPlan(seconds, least, tuple(dict.fromkeys(reasons)), line.place)


@dataclass(frozen=True)
class _Line:
    """The steps of one line of the author's text, each with its loop."""

    place: SourceRange | None
    steps: tuple[tuple[Loop, LoopStep], ...]


def _costliest_line(space: PlanSearchSpace, plan: Plan, batch: PlanBatch) -> _Line:
    """The line whose steps alone are modelled to take longest."""
    use = space.use_of(plan)

    def seconds(line: _Line) -> float:
        steps = {id(step) for _, step in line.steps}
        kept = (replace(loop, steps=tuple(s for s in loop.steps if id(s) in steps)) for loop in batch.loops)
        alone = replace(batch, loops=tuple(loop for loop in kept if loop.steps))
        return float(model_use(alone, use, space.limits).seconds)

    return max(_lines(batch), key=seconds)


def _lines(batch: PlanBatch) -> list[_Line]:
    found: dict[tuple[str, int] | None, _Line] = {}
    for loop in batch.loops:
        for step in loop.steps:
            place = None if step.origin is None else place_of(step.origin)
            key = None if place is None else (place.file, place.line)
            line = found.get(key, _Line(place, ()))
            found[key] = _Line(line.place, (*line.steps, (loop, step)))
    return list(found.values())


def _reasons(space: PlanSearchSpace, batch: PlanBatch, line: _Line, bottom: str | None) -> Iterator[str]:
    if bottom is not None:
        yield f"the plan is of the bottom rung, one element at a time, everything in memory: the best plan {bottom}"
    programs, cores = float(np.max(batch.threads_of_work)), space.limits.multiprocessors
    if 2 * programs <= cores:
        yield f"{programs:.0f} of {cores} multiprocessors have work"
    for loop, step in line.steps:
        if step.touch is not None and step.touch.home is None:
            yield from _of_access(batch, loop, step, step.touch, space.limits.warp > 1)
    for loop, step in line.steps:
        at_once = float(np.max(batch.tile(step.axes)))
        if at_once < space.limits.warp or at_once == 1:
            yield f"{at_once:.0f} elements at a time" if at_once > 1 else "one element at a time"
        steps = float(np.max(batch.all_trips((*loop.ranges, *step.ranges))))
        if steps > 1:
            yield f"{steps:.0f} steps one after another in each program"
    yield f"the longest part is {_bottleneck(space, batch)}"


def _of_access(batch: PlanBatch, loop: Loop, step: LoopStep, touch: LoopAccess, on_gpu: bool) -> Iterator[str]:
    """What makes an access of a tensor slow."""
    together = float(np.max(batch.size(touch.run))) * touch.element_bytes if touch.run is not None else 0.0
    if touch.scattered:
        yield f"elements of `{touch.place}` are found by indices"
    elif on_gpu and together < SIDE_BY_SIDE:
        beside = f"{together:.0f} bytes" if touch.run is not None else "no two elements"
        yield f"{beside} of `{touch.place}` side by side in memory are accessed at a time"
    often = batch.programs * batch.all_trips((*loop.ranges, *executed(loop, step), *step.ranges))
    accessed = float(np.max(often * batch.tile(step.axes)))
    times = accessed / max(1, prod(max(1, batch.extents.get(axis, 1)) for axis in touch.axes))
    if times >= READ_AGAIN:
        yield f"each element of `{touch.place}` is accessed {times:.0f} times"


def _bottleneck(space: PlanSearchSpace, batch: PlanBatch) -> str:
    return model_use(batch, space.use_of(batch.first()), space.limits).bottleneck
