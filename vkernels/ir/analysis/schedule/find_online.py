"""Pairs of a maximum and a sum of exponentials that one loop can compute, recognised by what they compute."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import math
from xdsl.ir import Operation

from ...dialect import BroadcastOp, MaxOp, SumOp, arith
from ...errors import PlanError
from ...plan import Plan
from ..kernel_analysis import KernelAnalysis

_EXPONENTIALS = (math.ExpOp, math.Exp2Op)


@dataclass(frozen=True, eq=False)
class Online:
    """`total` is the sum of `exponential` of `difference`, which is the operand of `maximum` minus its result."""

    maximum: MaxOp
    total: SumOp
    exponential: Operation
    difference: Operation


def find_online(analysis: KernelAnalysis, plan: Plan) -> list[Online]:
    """Every pair along the axes that the plan names, except held axes, which need none.

    Raises `PlanError` where an axis is not a whole axis, is split, or has no pair.
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
    difference = analysis.source(exponential.operand).owner if isinstance(exponential, _EXPONENTIALS) else None
    repeated = analysis.source(difference.rhs).owner if isinstance(difference, arith.SubfOp) else None
    maximum = analysis.source(repeated.operands[0]).owner if isinstance(repeated, BroadcastOp) else None
    if (
        not isinstance(exponential, Operation)
        or not isinstance(difference, arith.SubfOp)
        or not isinstance(maximum, MaxOp)
        or maximum.axis != total.axis
        or analysis.source(maximum.tile) is not analysis.source(difference.lhs)
        or maximum not in analysis.phase
        or analysis.phase[maximum].parent is not analysis.phase[total].parent
    ):
        return None
    return Online(maximum, total, exponential, difference)
