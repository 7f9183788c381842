"""Changes of a tile's shape, and what is computed in the shape that they lead to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.scf import ForOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from vkernels.ir.dialect import tt
from vkernels.ir.dialect.blocks import terminator

Change = tt.ReshapeOp | tt.TransOp
Key: TypeAlias = tuple[SSAValue, tuple[int, ...], tuple[int, ...]]
"""A value, and the order and shape that it is wanted in."""
_ELEMENTWISE = ("arith.", "math.", "tt.fp_to_fp", "tt.bitcast", "tt.addptr")


def changes_to(value: SSAValue) -> Sequence[Change]:
    """The changes of shape that lead to a value, the first one first."""
    found: list[Change] = []
    while isinstance(value.owner, Change):
        found.append(value.owner)
        value = value.owner.operands[0]
    return found[::-1]


def is_elementwise(value: SSAValue) -> bool:
    op = value.owner
    if isinstance(op, Block) or op.regions or len(op.results) != 1 or not op.operands:
        return False
    same = {tt.shape(each.type) for each in (*op.operands, *op.results)}
    return op.name.startswith(_ELEMENTWISE) and same == {tt.shape(value.type)}


def _keeps_elements(op: Operation | Block) -> bool:
    """Whether an operation only adds dimensions of size 1."""
    if isinstance(op, tt.BroadcastOp):
        return prod(tt.shape(op.src.type)) == prod(tt.shape(op.results[0].type))
    return isinstance(op, tt.ExpandDimsOp)


@dataclass(frozen=True)
class Turn:
    """Changes of shape, one after another. Sizes are powers of two, so each only orders and groups an index's bits."""

    changes: tuple[Change, ...]

    @property
    def before(self) -> tuple[int, ...]:
        return tuple(tt.shape(self.changes[0].operands[0].type))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(tt.shape(self.changes[-1].results[0].type))

    @property
    def order(self) -> tuple[int, ...]:
        """Where each bit of the last index is in the first."""
        bits = list(range(sum(map(_log, self.before))))
        for change in self.changes:
            if isinstance(change, tt.TransOp):
                groups = grouped(bits, tt.shape(change.operands[0].type))
                bits = [bit for d in change.order.get_values() for bit in groups[d]]
        return tuple(bits)

    @property
    def sides(self) -> list[tuple[int, ...]]:
        """The bits of the first index that each dimension of the last shape has."""
        return [tuple(each) for each in grouped(self.order, self.shape)]

    def reaches(self, value: SSAValue, made: Mapping[Key, SSAValue]) -> bool:
        """Whether all that elementwise operations compute a value from can have the last shape: for some of it, dots
        have it already, or loops that carry it, or it was `made` so."""
        seen, waiting, anchors = set[SSAValue](), [value], 0
        while waiting:
            if (each := waiting.pop()) in seen:
                continue
            seen.add(each)
            if self._is_undone(each) or self._is_carried(each) or (each, self.order, self.shape) in made:
                anchors += 1
            elif is_elementwise(each) or isinstance(each.owner, tt.ExpandDimsOp):
                waiting += each.owner.operands  # type: ignore[union-attr]
            elif not isinstance(each.owner, tt.SplatOp) and self._side(each) is None:
                return False
        return anchors > 0

    def _is_undone(self, value: SSAValue) -> bool:
        """Whether a value is a dot's result, brought out of the last shape."""
        back = changes_to(value)
        if not back or not isinstance(back[0].operands[0].owner, tt.DotOp):
            return False
        there = Turn((*back, *self.changes))
        return there.before == self.shape and there.order == tuple(range(len(there.order)))

    def _is_carried(self, value: SSAValue) -> bool:
        """Whether a loop carries a value to which each trip gives a dot's result."""
        if not isinstance(value, BlockArgument) or not isinstance(loop := value.block.parent_op(), ForOp):
            return False
        if tt.shape(value.type) != self.before:
            return False
        last = terminator(loop.body.block)
        return value.index > 0 and self._is_undone(last.operands[value.index - 1])

    def _side(self, value: SSAValue) -> int | None:
        """Along which dimension of the last shape a broadcast value differs, if any; None for what is otherwise."""
        if not isinstance(value.owner, tt.BroadcastOp):
            return None
        source = tt.shape(value.owner.src.type)
        long = [d for d, size in enumerate(source) if size > 1]
        if not long and len(self.shape) == 2:
            return 0
        if len(long) != 1:
            return None
        bits = tuple(grouped(range(len(self.order)), tt.shape(value.type))[long[0]])
        return self.sides.index(bits) if bits in self.sides else None

    def applied(self, value: SSAValue, made: dict[Key, SSAValue]) -> SSAValue:
        """A value that can have the last shape in it."""
        key = (value, self.order, self.shape)
        if key not in made:
            made[key] = self._applied(value, made)
        return made[key]

    def _applied(self, value: SSAValue, made: dict[Key, SSAValue]) -> SSAValue:
        if self._is_undone(value):
            return changes_to(value)[0].operands[0]
        type_, op = TensorType(tt.element(value.type), list(self.shape)), value.owner
        if isinstance(op, Block):
            return _changed(value, self.changes, InsertPoint.at_start(op), op.parent_op())
        if isinstance(op, tt.SplatOp):
            return inserted(tt.SplatOp(op.src, self.shape), InsertPoint.before(op), op)
        if (side := self._side(value)) is not None:
            return self._broadcast(op, side)
        operands = [self.applied(operand, made) for operand in op.operands]
        if isinstance(op, tt.ExpandDimsOp):
            return operands[0]
        new = type(op).create(
            operands=operands, result_types=[type_], properties=op.properties, attributes=op.attributes
        )
        taken = inserted(new, InsertPoint.before(op), op)
        taken.name_hint = value.name_hint
        undone = self._undone(taken, op)
        made[undone, self.order, self.shape] = taken  # operations that come later have it as an operand
        value.replace_all_uses_with(undone)
        Rewriter.erase_op(op)
        return taken

    def is_computed(self, value: SSAValue, seen: set[SSAValue]) -> bool:
        """Whether elementwise operations compute a value from scalars and from what differs along one side of the last
        shape, so that it can be computed anew there. `seen`: values of which this is known."""
        if value in seen or isinstance(value.owner, tt.SplatOp) or self._side(value) is not None:
            return True
        if not (_keeps_elements(value.owner) or is_elementwise(value)) or isinstance(value.owner, Block):
            return False
        seen.add(value)
        return all(self.is_computed(operand, seen) for operand in value.owner.operands)

    def computed(self, value: SSAValue, made: dict[Key, SSAValue]) -> SSAValue:
        """A value that `is_computed`, anew in the last shape; what it is computed from stays as it is."""
        key = (value, self.order, self.shape)
        if key not in made:
            made[key] = self._computed(value, made)
        return made[key]

    def _computed(self, value: SSAValue, made: dict[Key, SSAValue]) -> SSAValue:
        op = value.owner
        assert isinstance(op, Operation), "computed by elementwise operations"
        if isinstance(op, tt.SplatOp):
            return inserted(tt.SplatOp(op.src, self.shape), InsertPoint.before(op), op)
        if (side := self._side(value)) is not None:
            return self._broadcast(op, side)
        operands = [self.computed(operand, made) for operand in op.operands]
        if _keeps_elements(op):
            return operands[0]
        type_ = TensorType(tt.element(value.type), list(self.shape))
        new = type(op).create(
            operands=operands, result_types=[type_], properties=op.properties, attributes=op.attributes
        )
        return inserted(new, InsertPoint.before(op), op)

    def _broadcast(self, op: Operation, side: int) -> SSAValue:
        """What is the same along one dimension of the last shape, or along both."""
        at, source = InsertPoint.before(op), op.operands[0]
        while isinstance(source.owner, tt.ExpandDimsOp) and len(tt.shape(source.type)) > 1:
            source = source.owner.src
        if len(tt.shape(source.type)) != 1:
            source = inserted(tt.ReshapeOp(source, [prod(tt.shape(source.type))]), at, op)
        return inserted(tt.BroadcastOp(inserted(tt.ExpandDimsOp(source, 1 - side), at, op), self.shape), at, op)

    def _undone(self, value: SSAValue, before: Operation) -> SSAValue:
        """A value of the last shape in the first."""
        for change in reversed(self.changes):
            if isinstance(change, tt.TransOp):
                order = list(change.order.get_values())
                back: Operation = tt.TransOp(value, [order.index(d) for d in range(len(order))])
            else:
                back = tt.ReshapeOp(value, tt.shape(change.operands[0].type))
            value = inserted(back, InsertPoint.before(before), before)
        shape = tt.shape(before.results[0].type)
        return (
            value if shape == self.before else inserted(tt.ReshapeOp(value, shape), InsertPoint.before(before), before)
        )


def _changed(value: SSAValue, changes: Sequence[Change], at: InsertPoint, like: Operation | None) -> SSAValue:
    """A value after such changes."""
    for change in changes:
        if isinstance(change, tt.TransOp):
            new: Operation = tt.TransOp(value, change.order.get_values())
        else:
            new = tt.ReshapeOp(value, tt.shape(change.results[0].type))
        value = inserted(new, at, like)
    return value


def inserted(op: Operation, at: InsertPoint, like: Operation | None) -> SSAValue:
    if like is not None:
        op.location = like.location
    Rewriter.insert_op(op, at)
    return op.results[0]


def _log(size: int) -> int:
    return size.bit_length() - 1


def grouped(bits: Sequence[int], shape: Sequence[int]) -> list[Sequence[int]]:
    """An index's bits by dimension."""
    found, begin = list[Sequence[int]](), 0
    for size in shape:
        found.append(bits[begin : begin + _log(size)])
        begin += _log(size)
    return found
