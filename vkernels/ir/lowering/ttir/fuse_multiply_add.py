"""Fuse products and sums of floats; Triton, which would fuse any of them, runs with its own fusion off."""

from __future__ import annotations

from xdsl.dialects import math
from xdsl.dialects.builtin import AnyFloat, FloatAttr
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from vkernels.ir.dialect import arith, tt

ROUNDED = "vk.rounded"
"""Marks products and sums that must stay apart, until this pass has run."""


def fuse_multiply_add(function: Operation) -> None:
    """Fuse a * b with one use into the sum or difference that uses it: one rounding, and one instruction."""
    for op in list(function.walk()):
        if isinstance(op, arith.AddfOp | arith.SubfOp) and ROUNDED not in op.attributes:
            _fuse(op)
    for op in function.walk():
        op.attributes.pop(ROUNDED, None)


def _fuse(op: arith.AddfOp | arith.SubfOp) -> None:
    for number in (0, 1):
        product = op.operands[number].owner
        if not isinstance(product, arith.MulfOp) or product.parent is not op.parent or ROUNDED in product.attributes:
            continue
        if product.result.uses.get_length() == 1:
            a, b = product.operands
            other = op.operands[1 - number]
            if isinstance(op, arith.SubfOp) and number:
                a = _negated(a, op)
            elif isinstance(op, arith.SubfOp):
                other = _negated(other, op)
            _replace(op, product, a, b, other)
            return


def _negated(value: SSAValue, before: Operation) -> SSAValue:
    """-0 - value: `arith.negf` on tensors does not go through Triton 3.6."""
    element = tt.element(value.type)
    assert isinstance(element, AnyFloat), "part of a float's product or sum"
    zero: Operation = arith.ConstantOp(FloatAttr(-0.0, element))
    _insert(zero, before)
    if tt.shape(value.type):
        zero = tt.SplatOp(zero.results[0], tt.shape(value.type))
        _insert(zero, before)
    op = arith.SubfOp(zero.results[0], value)
    _insert(op, before)
    return op.result


def _replace(op: Operation, product: Operation, a: SSAValue, b: SSAValue, c: SSAValue) -> None:
    fused = math.FmaOp(a, b, c)
    _insert(fused, op)
    fused.results[0].name_hint = op.results[0].name_hint
    op.results[0].replace_all_uses_with(fused.results[0])
    Rewriter.erase_op(op)
    Rewriter.erase_op(product)


def _insert(op: Operation, before: Operation) -> None:
    op.location = before.location
    Rewriter.insert_op(op, InsertPoint.before(before))
