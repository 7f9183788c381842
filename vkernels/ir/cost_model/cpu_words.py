"""Which work of a loop is done on words, by a CPU's dot units."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from xdsl.ir import Operation

from ..analysis.words import narrow_loads
from ..dialect import DotOp, axes_of, element_of
from ..dot_units import unit_for
from ..limits import Limits
from .loops import Axes, LiveTile, Loop, LoopStep
from .plan_batch import Numbers, PlanBatch

NO_WORDS: Mapping[Operation, Numbers] = {}


def words_of(loop: Loop, at: PlanBatch, limits: Limits) -> Mapping[Operation, Numbers]:
    """The operations of a loop that take words under the plans: dots, their loads and extensions; with the elements of
    a word in each plan, 1 where its chunks are not whole words. As `apply_plan/words.py` decides it."""
    choices = at.choices
    if not limits.dot_units or not choices.packs or choices.lanes is None or choices.online:
        return NO_WORDS
    found: dict[Operation, Numbers] = {}
    packed = {step.origin for step in loop.steps if step.touch is not None and step.touch.place in choices.packs}
    for step in loop.steps:
        loads = narrow_loads(step.origin) if step.is_dot else None
        if loads is None or not isinstance(step.origin, DotOp):
            continue
        axis, unit = step.origin.axis.data, unit_for(limits.dot_units, element_of(loads[0].result))
        along = [choices.lanes in axes_of(load.result) for load in loads]
        if unit is None or sum(along) != 1 or choices.lanes == axis or not packed.issuperset(loads):
            continue
        depth = np.where(np.mod(at.size(axis), unit.depth) == 0, float(unit.depth), 1.0)
        extensions = [side.owner for side in (step.origin.left, step.origin.right)]
        found |= {op: depth for op in (step.origin, *loads, *extensions) if isinstance(op, Operation)}
    return found


def depth_of(step: LoopStep, words: Mapping[Operation, Numbers]) -> Numbers:
    """Elements that one element of a step's registers holds."""
    return 1.0 if step.origin is None else words.get(step.origin, 1.0)


def operations_of(step: LoopStep, words: Mapping[Operation, Numbers]) -> Numbers:
    """Operations for each element, in registers of words a part of one: a dot's products at once, an extension none."""
    depth = depth_of(step, words)
    if step.is_dot:
        return 1 / depth
    return step.operations * (depth == 1) if step.origin in words else step.operations


def depth_of_tile(tile: LiveTile, words: Mapping[Operation, Numbers]) -> Numbers:
    """Elements that one element of a live tile's registers holds: one that a dot on words takes."""
    return next((depth for op, depth in words.items() if not isinstance(op, DotOp) and _axes(op) == tile.axes), 1.0)


def _axes(op: Operation) -> Axes:
    return axes_of(op.results[0])
