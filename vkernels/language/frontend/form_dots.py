"""Form dots from sums of products: `vk.sum(a[i, k] * b[k, j], axis=k)` is `vk.dot(a[i, k], b[k, j])`.

A dot never holds all products, and runs on matrix units. A product of which one factor has all axes stays: it is no
larger than that factor.
"""

from __future__ import annotations

from xdsl.dialects.builtin import Float32Type, Float64Type, FloatAttr
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from vkernels.ir.dialect import BroadcastOp, DotOp, KernelOp, SumOp, arith, axes_of, element_of


def form_dots(kernel: KernelOp) -> None:
    """Replace each sum of products that nothing else uses, where both factors have an axis that the other lacks."""
    for op in [each for each in kernel.walk() if isinstance(each, SumOp)]:
        factors = _factors(op)
        if factors is not None:
            _replace(op, *factors)


def _factors(op: SumOp) -> tuple[SSAValue, SSAValue] | None:
    """The factors of what is summed, each with its own axes alone; None where their sum is no contraction."""
    product = op.tile.owner
    if not isinstance(product, arith.MulfOp) or product.parent is not op.parent or not op.tile.has_one_use():
        return None
    if not isinstance(element_of(op.tile), Float32Type | Float64Type):
        return None
    left, right = (_before_broadcasts(each) for each in product.operands)
    ours, theirs = set(axes_of(left)), set(axes_of(right))
    is_contraction = op.axis.data in ours & theirs and ours - theirs and theirs - ours
    return (left, right) if is_contraction and ours | theirs == set(axes_of(op.tile)) else None


def _before_broadcasts(value: SSAValue) -> SSAValue:
    while isinstance(value.owner, BroadcastOp):
        value = value.owner.source
    return value


def _replace(op: SumOp, left: SSAValue, right: SSAValue) -> None:
    element = element_of(op.result)
    assert isinstance(element, Float32Type | Float64Type), "see `_factors`"
    zero = arith.ConstantOp(FloatAttr(0.0, element))
    start = BroadcastOp(zero.result, op.result.type)
    dot = DotOp(left, right, start.result, op.axis.data)
    for each in (zero, start, dot):
        each.location = op.location
    dot.result.name_hint = op.result.name_hint
    product = op.tile.owner
    assert isinstance(product, arith.MulfOp), "see `_factors`"
    Rewriter.insert_op((zero, start, dot), InsertPoint.before(op))
    Rewriter.replace_op(op, (), (dot.result,))
    Rewriter.erase_op(product)
