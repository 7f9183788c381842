"""Loops of dots that a plan divides among warps by role: some move operands by descriptors, the others multiply.

Triton calls this warp specialisation. What it takes was found by compiling with 3.6 and 3.9 for sm_90, sm_100 and
sm_120: other loops it leaves as they are, or refuses.
"""

from __future__ import annotations

from collections.abc import Collection

from ..dialect import DotOp, KernelOp, LoadOp, ScratchOp, WholeOp, arith, axes_of
from ..limits import Limits
from ..plan import Plan
from .descriptors import feeds_dots, is_box
from .needs.traffic import operand_bytes

EXTENSIONS = arith.ExtFOp | arith.ExtSIOp | arith.ExtUIOp
"""Conversions of operands that dots make themselves."""
WARP_SPECIALIZED = "vk.warp_specialized"
"""The attribute of a mapped loop that warps divide."""
GROUP_WARPS = (4,)
"""The same where groups of four warps multiply what their own registers hold: with others Triton gives no roles."""


def why_not_divided(kernel: KernelOp, axis: str, described: Collection[str]) -> str | None:
    """Why no loop over a whole axis can be divided among warps, whatever the sizes; None if one can.

    The loop has one dot and nothing else but the loads of its operands, by descriptors of the tensors in `described`.
    """
    if axis not in [op.axis.data for op in kernel.walk() if isinstance(op, WholeOp)]:
        return f"{axis} is no whole axis of {kernel.sym_name.data}"
    along = [op for op in kernel.walk() if any(axis in axes_of(value) for value in (*op.operands, *op.results))]
    dots = [op for op in along if isinstance(op, DotOp)]
    if len(dots) != 1 or dots[0].axis.data != axis:
        return f"{axis} has {len(dots)} dots; a loop that is divided has one, along its axis"
    if operand_bytes(dots[0]) == 4 and dots[0].precision.data == "ieee":
        return f"the dot along {axis} is of exact f32, which tensor cores do not multiply"
    others = [op for op in along if not isinstance(op, LoadOp | DotOp | WholeOp | EXTENSIONS)]
    if pads := [op.label.data for op in kernel.walk() if isinstance(op, ScratchOp)]:
        return f"scratchpad {pads[0]} is shared by all warps of a program"
    if others:
        return f"{others[0].name} is along {axis}, too; a loop that is divided has loads and their dot alone"
    for load in along:
        if isinstance(load, LoadOp):
            name = load.base.name_hint or "a tensor"
            if not is_box(load) or not feeds_dots(load):
                return f"{name} is no operand that a descriptor can move, in a loop over {axis}"
            if name not in described:
                return f"{name} is moved by threads; name it in `descriptors`"
    return None


def why_not_on(limits: Limits, plan: Plan) -> str | None:
    """Why a device cannot divide the loops of a plan; None if it can, or has no roles and leaves them as they are."""
    if not plan.warp_specialized or not limits.tensor_copies:
        return None
    if has_groups(limits) and plan.warps not in GROUP_WARPS:
        least = " or ".join(map(str, GROUP_WARPS))
        return f"it divides loops over {plan.warp_specialized[0]} among {plan.warps} warps; this GPU takes {least}"
    return None


def has_groups(limits: Limits) -> bool:
    """Whether groups of four warps multiply what their own registers hold, as on sm_90."""
    return limits.dots_from_shared and not limits.tensor_memory
