"""Take small integers that are multiplied with bf16 or f16 as the same type, as dot units and tensor cores do."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType, bf16, f16, f32, i8
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ..dialect import DotOp, KernelOp, arith, element_of


def narrow_integers(kernel: KernelOp) -> None:
    """Round int8 and uint8 in f32 to bf16 or f16, and extend them again, where a dot multiplies them with extended
    elements of that type: dequantised weights, mostly. Both types hold every such integer exactly."""
    for dot in [op for op in kernel.walk() if isinstance(op, DotOp)]:
        for number in range(2):
            narrow = _extended_from(dot.operands[1 - number])
            if narrow is not None:
                _narrow(dot, number, narrow)


def _extended_from(value: SSAValue) -> Attribute | None:
    """The narrow type of which elements are extended to f32."""
    owner = value.owner
    if not isinstance(owner, arith.ExtFOp) or element_of(value) != f32:
        return None
    narrow = element_of(owner.operands[0])
    return narrow if narrow in (bf16, f16) else None


def _narrow(dot: DotOp, number: int, narrow: Attribute) -> None:
    value = dot.operands[number]
    conversion, type_ = value.owner, value.type
    if not isinstance(conversion, arith.SIToFPOp | arith.UIToFPOp) or not isinstance(type_, TensorType):
        return
    if element_of(conversion.operands[0]) != i8 or element_of(value) != f32:
        return
    narrowed = arith.TruncFOp(value, TensorType(narrow, type_.get_shape(), type_.encoding))
    widened = arith.ExtFOp(narrowed.result, type_)
    for op in (narrowed, widened):
        op.location = conversion.location
    widened.result.name_hint = value.name_hint
    Rewriter.insert_op([narrowed, widened], InsertPoint.before(dot))
    dot.operands[number] = widened.result
