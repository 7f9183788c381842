"""Loops over chunks that are divided among warps by role."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import TensorType, UnitAttr
from xdsl.ir import Operation, SSAValue

from ...analysis.warp_roles import EXTENSIONS, WARP_SPECIALIZED, why_not_divided
from ...dialect import AccessOp, DotOp, LoadOp
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
            raise PlanError(f"the plan divides loops over {axis} among warps: {reason}")


def give_roles(state: MappingState, axis: str, results: Sequence[SSAValue]) -> None:
    """Mark a loop over chunks, given its results, where the plan divides it and descriptors move all that it loads."""
    loop = results[0].owner if axis in state.plan.warp_specialized and results else None
    if isinstance(loop, scf.ForOp) and all(map(_is_divided, loop.body.walk())):
        loop.attributes[WARP_SPECIALIZED] = UnitAttr()


def _is_divided(op: Operation) -> bool:
    """Whether warps with roles can have an operation between them: masks of tiles would bring operands to registers."""
    if isinstance(op, AccessOp):
        return isinstance(op, LoadOp) and op.described is not None
    is_tile = any(isinstance(result.type, TensorType) for result in op.results)
    return not is_tile or isinstance(op, DotOp | EXTENSIONS)
