"""Loops that Triton divides among warps by role: which of those that a plan divides it takes."""

from __future__ import annotations

from xdsl.dialects.builtin import UnitAttr
from xdsl.dialects.scf import ForOp, IfOp, WhileOp
from xdsl.ir import Operation

from vkernels.ir.analysis.warp_roles import WARP_SPECIALIZED
from vkernels.ir.dialect import LaunchOp

HAS_ROLES = "tt.warp_specialize"
"""What Triton 3.6 and 3.9 call such a loop, as an attribute of it."""


def keep_roles(mapped: ForOp, lowered: ForOp) -> None:
    """Mark the loop that a mapped loop becomes, if that is marked and Triton takes it: where it is not the only loop of
    its launch, or anything runs on a condition, as partial tiles do, Triton fails or leaves it as it is."""
    if WARP_SPECIALIZED in mapped.attributes and isinstance(launch := mapped.parent_op(), LaunchOp):
        around: list[Operation] = [op for op in launch.body.walk() if isinstance(op, ForOp | WhileOp | IfOp)]
        if around == [mapped]:
            lowered.attributes[HAS_ROLES] = UnitAttr()
