"""Dots whose operands are narrow elements straight from memory, as dot units take them."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from ..dialect import DotOp, LoadOp, arith, element_of
from ..dialect.words import depth_of


def narrow_loads(dot: Operation | None) -> tuple[LoadOp, LoadOp] | None:
    """The loads of a dot's left and right operand; None unless both load i8, or both bf16, for this dot alone."""
    if not isinstance(dot, DotOp):
        return None
    left, right = _narrow_load(dot.left), _narrow_load(dot.right)
    if left is None or right is None or element_of(left.result) != element_of(right.result):
        return None
    return left, right


def _narrow_load(value: SSAValue) -> LoadOp | None:
    extension = value.owner
    if not isinstance(extension, arith.ExtFOp | arith.ExtSIOp) or not value.has_one_use():
        return None
    narrow, wide = extension.operands[0], element_of(extension.results[0])
    load, depth = narrow.owner, depth_of(element_of(narrow))
    if not isinstance(load, LoadOp) or not narrow.has_one_use() or depth is None:
        return None
    return load if str(wide) in ("i32", "f32") else None
