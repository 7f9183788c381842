"""Maxima and sums that can go online: recognised by what they compute, whatever they are called."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import math
from xdsl.ir import Operation

from ...dialect import BroadcastOp, MaxOp, SumOp, arith
from ...errors import PlanError
from ...plan import Plan
from ..kernel_analysis import KernelAnalysis


@dataclass(frozen=True, eq=False)
class Online:
    """`total` sums `exponential` of `difference`: what `maximum` is the maximum of, minus it."""

    maximum: MaxOp
    total: SumOp
    exponential: Operation
    difference: Operation


def find_online(analysis: KernelAnalysis, plan: Plan) -> list[Online]:
    """Every pair along the axes that the plan names; axes that are held at once need none.

    Raises `PlanError` where an axis is not one that the kernel processes in chunks, is split, or has no pair.
    """
    found: list[Online] = []
    for name in plan.online:
        axis = analysis.axes.get(name)
        if axis is None or axis.is_tile:
            raise PlanError(f"the plan goes online along {name}, which is no whole axis of the kernel")
        if axis.programs > 1:
            raise PlanError(f"axis {name} is split over programs: a maximum and a sum along it cannot go online")
        if not axis.is_chunked:
            continue
        sums = [
            op for op in analysis.phase if isinstance(op, SumOp) and analysis.chunks(op) == {name} == {op.axis.data}
        ]
        pairs = [pair for op in sums if (pair := _pair_of(analysis, op)) is not None]
        if not pairs:
            raise PlanError(
                f"the plan goes online along {name}: no sum of exp(x - m) along it follows m, the maximum of x"
            )
        found += pairs
    return found


def _pair_of(analysis: KernelAnalysis, total: SumOp) -> Online | None:
    exponential = analysis.source(total.tile).owner
    if not isinstance(exponential, math.ExpOp | math.Exp2Op):
        return None
    difference = analysis.source(exponential.operand).owner
    if not isinstance(difference, arith.SubfOp):
        return None
    repeated = analysis.source(difference.rhs).owner
    if not isinstance(repeated, BroadcastOp):
        return None
    maximum = analysis.source(repeated.operands[0]).owner
    if (
        not isinstance(maximum, MaxOp)
        or maximum.axis != total.axis
        or analysis.source(maximum.tile) is not analysis.source(difference.lhs)
        or maximum not in analysis.phase
        or analysis.phase[maximum].parent is not analysis.phase[total].parent
    ):
        return None
    return Online(maximum, total, exponential, difference)
