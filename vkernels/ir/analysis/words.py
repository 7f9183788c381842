"""Dots whose operands are narrow elements, as dot units take them."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import f32, i32
from xdsl.ir import BlockArgument, Operation, SSAValue

from ..dialect import BroadcastOp, DotOp, PhaseOp, RangeOp, ReadOp, ReductionOp, YieldOp, arith, axes_of, element_of
from ..dialect.blocks import terminator
from ..dialect.words import depth_of
from .sources import source_of


@dataclass(frozen=True)
class NarrowDot:
    """What extends a dot's left and right operand, and the elements before: `s8`, `u8`, `bf16` or `f16`."""

    extensions: tuple[Operation, Operation]
    elements: tuple[str, str]

    @property
    def operands(self) -> tuple[SSAValue, SSAValue]:
        """Both operands before they are extended."""
        left, right = self.extensions
        return source_of(left.operands[0]), source_of(right.operands[0])


def narrow_dot(dot: Operation | None) -> NarrowDot | None:
    """How a dot takes narrow elements; None unless both operands are extended from one narrow type for this dot alone,
    and at least one of them is loaded for it alone."""
    if not isinstance(dot, DotOp):
        return None
    left, right = _extension(dot.left), _extension(dot.right)
    if left is None or right is None:
        return None
    narrow = NarrowDot((left, right), (_element(left), _element(right)))
    one, other = narrow.operands
    if element_of(one) != element_of(other) or (load_of(one) is None and load_of(other) is None):
        return None
    return narrow


def narrow_dots_along(op: DotOp | ReductionOp) -> int:
    """How many dots of narrow elements along the same axis are in the block of a dot, itself included, or of a
    reduction: they may share a loop."""
    others = () if op.parent is None else op.parent.ops
    return sum(isinstance(each, DotOp) and each.axis == op.axis and narrow_dot(each) is not None for each in others)


def load_of(operand: SSAValue) -> ReadOp | None:
    """The load of an operand that is loaded for a dot alone."""
    load = operand.owner
    return load if isinstance(load, ReadOp) and only_user(operand) is not None else None


def carried_by(dot: DotOp) -> tuple[str, ...]:
    """The ranges around a dot, from the innermost on, that only hand on its sum from one step to the next."""
    total, result, found = _as_made(dot.sum), dot.result, []
    while isinstance(total, BlockArgument) and isinstance(loop := total.block.parent_op(), RangeOp):
        place = total.index - 1
        if not total.has_one_use() or _as_made(terminator(total.block).operands[place]) is not result:
            break
        found.append(loop.axis.data)
        total, result = _as_made(loop.initial[place]), loop.results[place]
    return tuple(found)


def _as_made(value: SSAValue) -> SSAValue:
    """A value where it is made: in a phase, and before it is broadcast to the axes that it has."""
    value = source_of(value)
    repeated = value.owner
    if isinstance(repeated, BroadcastOp) and axes_of(repeated.source) == axes_of(value):
        return _as_made(repeated.source)
    return value


def only_user(value: SSAValue) -> Operation | None:
    """The one operation that uses a value, in its phase or a later one; None if there are several."""
    uses = list(value.uses)
    if len(uses) != 1:
        return None
    user, phase = uses[0].operation, uses[0].operation.parent_op()
    if isinstance(user, YieldOp) and isinstance(phase, PhaseOp):
        return only_user(phase.results[uses[0].index])
    return user


def _extension(value: SSAValue) -> Operation | None:
    """What extends narrow elements for a dot alone."""
    value = source_of(value)
    extension = value.owner
    if not isinstance(extension, arith.ExtFOp | arith.ExtSIOp | arith.ExtUIOp) or only_user(value) is None:
        return None
    narrow, wide = element_of(extension.operands[0]), element_of(extension.results[0])
    return extension if depth_of(narrow) is not None and wide in (i32, f32) else None


def _element(extension: Operation) -> str:
    """The elements that are extended, and whether they have a sign."""
    if isinstance(extension, arith.ExtFOp):
        return str(element_of(extension.operands[0]))
    return "u8" if isinstance(extension, arith.ExtUIOp) else "s8"
