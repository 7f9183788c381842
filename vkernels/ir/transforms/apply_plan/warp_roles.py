"""Loops over chunks that are divided among warps by role."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerType, TensorType, UnitAttr
from xdsl.ir import Operation, SSAValue

from ...analysis.descriptors import contiguous_dimension
from ...analysis.warp_roles import EXTENSIONS, WARP_SPECIALIZED, why_not_divided
from ...dialect import AccessOp, DotOp, LoadOp, axes_of_box, element_of
from ...errors import PlanError
from ...warp_roles import why_no_roles
from .mapping_state import MappingState
from .planned_kernel import PlannedKernel


def check_warp_roles(planned: PlannedKernel) -> None:
    """Raise `PlanError` for an axis whose loop no warps can divide, and for a plan that leaves them no room for it."""
    plan = planned.plan
    for axis in plan.warp_specialized:
        reason = why_no_roles(plan) or why_not_divided(planned.kernel, axis, plan.descriptors)
        if reason is None and planned.axes[axis].programs > 1:
            reason = f"programs share {axis}"
        if reason is not None:
            raise PlanError(f"the plan divides loops over {axis} among warps: {reason}", about=axis)


def give_roles(state: MappingState, axis: str, results: Sequence[SSAValue]) -> None:
    """Mark a loop over chunks, given its results, where the plan divides it and descriptors move all that it loads."""
    loop = results[0].owner if axis in state.plan.warp_specialized and results else None
    if isinstance(loop, scf.ForOp) and all(_is_divided(state, op) for op in loop.body.walk()):
        loop.attributes[WARP_SPECIALIZED] = UnitAttr()


def _is_divided(state: MappingState, op: Operation) -> bool:
    """Whether warps with roles can have an operation between them: masks of tiles would bring operands to registers,
    and so would bytes that are not side by side along a dot's axis. Triton 3.6 and 3.9 refuse the latter on sm_90."""
    if isinstance(op, AccessOp):
        return isinstance(op, LoadOp) and op.described is not None
    if isinstance(op, DotOp) and isinstance(element_of(op.left), IntegerType):
        return all(_is_side_by_side(state, each, op.axis.data) for each in (op.left, op.right))
    is_tile = any(isinstance(result.type, TensorType) for result in op.results)
    return not is_tile or isinstance(op, DotOp | EXTENSIONS)


def _is_side_by_side(state: MappingState, operand: SSAValue, axis: str) -> bool:
    """Whether neighbours along an axis of a loaded operand are neighbours in memory."""
    load = operand.owner
    while isinstance(load, EXTENSIONS):
        load = load.operands[0].owner
    if not isinstance(load, LoadOp):
        return False
    dimension = contiguous_dimension(state.facts, str(load.base.name_hint))
    axes = axes_of_box(load.index)
    return dimension is not None and axes is not None and axes[dimension] == axis
