"""Dots whose operands are narrow elements straight from memory, as dot units take them."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import f32, i32
from xdsl.ir import Operation, SSAValue

from ..dialect import DotOp, ReadOp, arith, element_of
from ..dialect.words import depth_of


@dataclass(frozen=True)
class NarrowDot:
    """The loads of a dot's left and right operand, and their elements: `s8`, `u8`, `bf16` or `f16`."""

    left: ReadOp
    right: ReadOp
    elements: tuple[str, str]

    @property
    def loads(self) -> tuple[ReadOp, ReadOp]:
        return self.left, self.right


def narrow_dot(dot: Operation | None) -> NarrowDot | None:
    """How a dot takes narrow elements from memory; None unless both operands are loads of one narrow type, for this dot
    alone."""
    if not isinstance(dot, DotOp):
        return None
    left, right = _narrow_load(dot.left), _narrow_load(dot.right)
    if left is None or right is None or element_of(left[0].result) != element_of(right[0].result):
        return None
    return NarrowDot(left[0], right[0], (left[1], right[1]))


def narrow_dots_beside(dot: DotOp) -> int:
    """How many dots of narrow elements along the same axis are in a dot's block, itself included: they may share a
    loop."""
    block = dot.parent
    others = () if block is None else block.ops
    return sum(isinstance(op, DotOp) and op.axis == dot.axis and narrow_dot(op) is not None for op in others)


def _narrow_load(value: SSAValue) -> tuple[ReadOp, str] | None:
    """The load of an operand, and its elements."""
    extension = value.owner
    if not isinstance(extension, arith.ExtFOp | arith.ExtSIOp | arith.ExtUIOp) or not value.has_one_use():
        return None
    narrow, wide = extension.operands[0], element_of(extension.results[0])
    load, element = narrow.owner, element_of(narrow)
    if not isinstance(load, ReadOp) or not narrow.has_one_use() or depth_of(element) is None or wide not in (i32, f32):
        return None
    if isinstance(extension, arith.ExtFOp):
        return load, str(element)
    return load, "u8" if isinstance(extension, arith.ExtUIOp) else "s8"
