"""Loads that a sequential loop can make some iterations ahead (`load-ahead`)."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Block, SSAValue

from ..dialect import AccessOp, DotOp, KernelOp, LoadOp, PhaseOp, RangeOp, TensorArgumentType, WriteOp
from .accesses import ancestors, is_inside


def loads_ahead(kernel: KernelOp) -> Mapping[LoadOp, bool]:
    """The loads of tensors that nothing writes, directly in a range over single positions, whose places the loop
    neither carries nor loads; and whether the place changes with the position.

    None in kernels with dots: compilers pipeline the loads of these. Computed once for each kernel.
    """
    found = kernel.analyses.get("loads ahead")
    if not isinstance(found, dict):
        found = kernel.analyses["loads ahead"] = _found(kernel)
    return found


def _found(kernel: KernelOp) -> dict[LoadOp, bool]:
    ops = list(kernel.walk())
    if any(isinstance(op, DotOp) for op in ops):
        return {}
    written = {op.base for op in ops if isinstance(op, WriteOp)}
    found: dict[LoadOp, bool] = {}
    for op in ops:
        if isinstance(op, LoadOp) and isinstance(op.base.type, TensorArgumentType) and op.base not in written:
            around = next((each for each in ancestors(op) if not isinstance(each, PhaseOp)), None)
            if isinstance(around, RangeOp) and not around.is_ragged:
                moves = [_moves(operand, around) for operand in op.operands]
                if None not in moves:
                    found[op] = any(moves)
    return found


def _moves(value: SSAValue, loop: RangeOp) -> bool | None:
    """Whether a value changes with a loop's position; None if it depends on anything else of the loop."""
    if value is loop.position:
        return True
    if not is_inside(value, loop):
        return False
    owner = value.owner
    if isinstance(owner, Block) or owner.regions or isinstance(owner, AccessOp):
        return None
    moves = [_moves(operand, loop) for operand in owner.operands]
    return None if None in moves else any(moves)
