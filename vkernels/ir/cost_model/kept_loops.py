"""Loops whose results a CPU's programs keep for those after them: see `transforms/keep_between_programs.py`."""

from __future__ import annotations

import numpy as np

from .loops import Axes, Loop
from .plan_batch import Numbers, PlanBatch


def kept_along(loop: Loop, at: PlanBatch) -> Axes:
    """The fastest tile axes that a loop over chunks does not depend on, and what is in the same outermost loop neither:
    of the programs along them the first alone runs it."""
    key = "kept", loop, loop.numbers, tuple(each.numbers for each in at.loops), at.loops, at.choices
    found: Axes | None = at.terms.loops.get(key)
    if found is None:
        found = at.terms.loops[key] = _kept_along(loop, at)
    return found


def _kept_along(loop: Loop, at: PlanBatch) -> Axes:
    if not loop.axes or loop.ranges or at.choices.split is not None or at.choices.private_copies:
        return ()
    together = [each for each in at.loops if each is loop or (loop.numbers and each.numbers[:1] == loop.numbers[:1])]
    steps = [step for each in together for step in each.steps]
    if any(step.touch is not None and step.touch.writes and step.touch.home is None for step in steps):
        return ()
    matter = {axis for step in steps for axis in (*step.axes, *step.beside, *step.ranges)}
    matter |= {axis for step in steps if step.touch is not None for axis in (*step.touch.axes, *step.touch.found)}
    if at.choices.swizzle > 1 and matter.intersection(at.choices.order[-2:]):
        return ()  # places along the two fastest axes both depend on both coordinates
    found: list[str] = []
    for axis in reversed(at.choices.order):
        if axis in matter:
            break
        found.insert(0, axis)
    return tuple(found)


def programs_in_turn(loop: Loop, at: PlanBatch, cores: int) -> Numbers:
    """For how many programs one run of a loop is, each core with a part of them that follow one another."""
    along = kept_along(loop, at)
    return np.maximum(1, np.minimum(at.all_trips(along), at.programs / cores)) if along else 1.0
