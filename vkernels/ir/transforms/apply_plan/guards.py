"""Tests of single chunks: whether a mask lets anything of a chunk through."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from xdsl.ir import Operation, SSAValue

from ...analysis.masks.conditions import All, Any, Condition, Holds
from ...analysis.schedule.reach import Reach
from ...analysis.schedule.reach import check_guards as check_reaches
from ...dialect import arith
from ...dialect.combining import constant
from .access import excess_mask, value_in
from .frames import LoopFrame, both, broadcast, is_anywhere
from .mapping_state import MappingState
from .planned_kernel import PlannedKernel


def check_guards(planned: PlannedKernel) -> None:
    """Raise `PlanError` where the plan guards an axis of which no mask can be tested."""
    check_reaches(planned.reaches)


def guard(
    state: MappingState, frame: LoopFrame, reach: Reach, position: SSAValue, firsts: Sequence[SSAValue]
) -> SSAValue:
    """Whether to visit the chunk of a frame, which begins at a position: a condition may hold in it, or it is the first
    chunk of one."""
    parts = [test for one in reach if (test := _test(state, frame, one)) is not None]
    parts += [frame.add(arith.CmpiOp(position, first, "eq")) for first in dict.fromkeys(firsts)]
    return reduce(lambda a, b: frame.make(arith.OrIOp, a, b), parts)


def _test(state: MappingState, frame: LoopFrame, condition: Condition) -> SSAValue | None:
    """Whether a condition may hold in the chunk; None if that cannot be told."""
    if isinstance(condition, Holds):
        return _any(state, frame, condition)
    if not isinstance(condition, All | Any):
        return None
    tests = [test for part in condition.parts if (test := _test(state, frame, part)) is not None]
    kind: type[Operation] = arith.AndIOp if isinstance(condition, All) else arith.OrIOp
    is_known = bool(tests) and (isinstance(condition, All) or len(tests) == len(condition.parts))
    return reduce(lambda a, b: frame.make(kind, a, b), tests) if is_known else None


def _any(state: MappingState, frame: LoopFrame, condition: Holds) -> SSAValue:
    """Whether a truth value is as expected at any position of the chunk."""
    key = ("any", condition)
    if key not in frame.cache:
        made = value_in(state, frame, condition.value)
        if not condition.is_true:
            made = frame.make(arith.XOrIOp, made, broadcast(frame, frame.add(constant(made.type, 1)), made.type))
        made = both(frame, [made, excess_mask(state, frame, made.type)]) or made
        frame.cache[key] = is_anywhere(frame, made)
    return frame.cache[key]
