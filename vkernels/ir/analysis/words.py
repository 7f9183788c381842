"""Dots whose operands are narrow elements, as dot units take them."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import f32, i32
from xdsl.ir import BlockArgument, Operation, SSAValue

from ..dialect import BroadcastOp, DotOp, PhaseOp, RangeOp, ReadOp, ReductionOp, YieldOp, arith, axes_of, element_of
from ..dialect.blocks import terminator
from ..dialect.words import depth_of
from .sources import source_of

EXTENSIONS = (arith.ExtFOp, arith.ExtSIOp, arith.ExtUIOp)


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


def shares_words(narrow: NarrowDot, operand: SSAValue) -> bool:
    """Whether an operand of a dot is extended for several dots at once, so that they have the same words of it."""
    extension = narrow.extensions[narrow.operands.index(operand)]
    return only_user(extension.results[0]) is None


def narrow_dot(dot: Operation | None) -> NarrowDot | None:
    """How a dot takes narrow elements; None unless both operands are extended from one narrow type for this dot alone,
    or for dots like it, and at least one of them is loaded for these alone."""
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
    """The load of an operand that is loaded for a dot alone, or for dots that are alike."""
    load = operand.owner
    if not isinstance(load, ReadOp) or (only_user(operand) is None and not _dots_alike(operand)):
        return None
    return load


def dots_sharing(dot: DotOp) -> tuple[DotOp, ...]:
    """A dot, and those that share operands with it: all of them run on one unit, or none."""
    shared = (_dots_alike(extension.operands[0]) for extension in map(_extended, (dot.left, dot.right)) if extension)
    return tuple(dict.fromkeys((dot, *(each for dots in shared for each in dots))))


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
    """What extends narrow elements for a dot alone, or for dots that are alike."""
    extension = _extended(value)
    if extension is None or only_user(extension.results[0]) is not None or _dots_alike(extension.operands[0]):
        return extension
    return None


def _extended(value: SSAValue) -> Operation | None:
    """The operation that extends elements which units take."""
    extension = source_of(value).owner
    if not isinstance(extension, EXTENSIONS):
        return None
    narrow, wide = element_of(extension.operands[0]), element_of(extension.results[0])
    return extension if depth_of(narrow) is not None and wide in (i32, f32) else None


def _dots_alike(narrow: SSAValue) -> tuple[DotOp, ...]:
    """The dots that share narrow elements, or share others with such dots, if all take them in the same way: any plan
    then gives them the same layout. None if there are fewer than two, or something else needs these elements."""
    found = dict.fromkeys(_dots_of(source_of(narrow)))
    waiting = list(found)
    while waiting:
        dot = waiting.pop()
        for extension in map(_extended, (dot.left, dot.right)):
            dots = () if extension is None else _dots_of(source_of(extension.operands[0]))
            if not dots:
                return ()
            waiting += [each for each in dots if each not in found]
            found.update(dict.fromkeys(dots))
    return tuple(found) if len(found) > 1 and len({_manner(dot) for dot in found}) == 1 else ()


def _dots_of(narrow: SSAValue) -> tuple[DotOp, ...]:
    """The dots that take narrow elements, extended; none if there are other users."""
    extensions = [use.operation for use in narrow.uses]
    if not all(isinstance(each, EXTENSIONS) for each in extensions):
        return ()
    users = [use.operation for each in extensions for use in each.results[0].uses]
    dots = tuple(user for user in users if isinstance(user, DotOp))
    return dots if len(dots) == len(users) else ()


def _manner(dot: DotOp) -> tuple[object, ...]:
    """What decides how a dot takes its elements in a plan."""
    sides = (dot.left, dot.right)
    elements = sorted(_element(extension) for side in sides if (extension := _extended(side)) is not None)
    is_loaded = any(isinstance(source_of(each.operands[0]).owner, ReadOp) for each in map(_extended, sides) if each)
    return dot.parent, dot.axis, frozenset(map(axes_of, sides)), tuple(elements), is_loaded


def _element(extension: Operation) -> str:
    """The elements that are extended, and whether they have a sign."""
    if isinstance(extension, arith.ExtFOp):
        return str(element_of(extension.operands[0]))
    return "u8" if isinstance(extension, arith.ExtUIOp) else "s8"
