"""Form dots from sums of products: `vk.sum(a[i, k] * b[k, j], axis=k)` is `vk.dot(a[i, k], b[k, j])`.

A dot never holds all products, and runs on matrix units. A product of which one factor has all axes stays: it is no
larger than that factor.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import Float32Type, Float64Type, FloatAttr
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from vkernels.ir.dialect import BroadcastOp, DotOp, KernelOp, SumOp, arith, axes_of, element_of

from .contracted_axis import contracted_axis


def form_dots(kernel: KernelOp) -> None:
    """Replace each sum of products that nothing else uses, where both factors have an axis that the other lacks."""
    for op in _sums(kernel):
        if op.parent is not None:
            _reorder(op)
    for op in _sums(kernel):
        factors = _factors(op)
        if factors is not None:
            _replace(op, *factors)


def _sums(kernel: KernelOp) -> list[SumOp]:
    return [each for each in kernel.walk() if isinstance(each, SumOp)]


def _reorder(op: SumOp) -> None:
    """Of sums of a product one after another, make the first along the axis that a dot contracts best."""
    product, sums = op.tile.owner, [*_sums_in_turn(op)]
    if len(sums) == 1 or not isinstance(product, arith.MulfOp):
        return
    factors = [_before_broadcasts(each) for each in product.operands]
    axes = [each.axis.data for each in sums]
    shared = [axis for axis in axes if all(axis in axes_of(factor) for factor in factors)]
    if not shared or (best := contracted_axis(factors, shared)) == axes[0]:
        return
    tile = op.tile
    for each, axis in zip(sums, [best, *(axis for axis in axes if axis != best)], strict=True):
        made = SumOp(tile, axis)
        made.location, made.result.name_hint = each.location, each.result.name_hint
        Rewriter.insert_op(made, InsertPoint.before(each))
        tile = made.result
    sums[-1].result.replace_all_uses_with(tile)
    for each in reversed(sums):
        Rewriter.erase_op(each)


def _sums_in_turn(op: SumOp) -> Iterator[SumOp]:
    """A sum of no sum, and those of it that nothing else uses."""
    if isinstance(op.tile.owner, SumOp):
        return
    yield op
    while op.result.has_one_use() and isinstance(user := next(iter(op.result.uses)).operation, SumOp):
        if user.parent is not op.parent:
            return
        yield (op := user)


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
