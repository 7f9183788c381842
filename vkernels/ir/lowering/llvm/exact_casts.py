"""Conversions that change no value."""

from __future__ import annotations

from xdsl.dialects.builtin import i8
from xdsl.ir import Operation, SSAValue

from ...dialect import arith, element_of


def never_rounded(operation: Operation) -> SSAValue | None:
    """The value that was rounded to bf16 or f16 before it is extended, where that changes nothing: an integer of eight
    bits."""
    rounded = operation.operands[0].owner
    if not isinstance(operation, arith.ExtFOp) or not isinstance(rounded, arith.TruncFOp):
        return None
    value = rounded.operands[0]
    is_small = isinstance(value.owner, arith.SIToFPOp | arith.UIToFPOp) and element_of(value.owner.operands[0]) == i8
    return value if is_small and value.type == operation.results[0].type else None
