"""Compute what lies between dots in the shape in which dots give and take it.

A dot whose sides have several axes, or stand in the other order, gives a matrix, which is brought into a tile's shape;
what is computed from it is brought back for the next dot. That only names Triton's registers anew, but its passes look
for a dot's result, or what a loop carries, right where the next dot takes it: they keep an operand in registers or in
tensor memory, and let a sum stay there from trip to trip, while the dot before is still under way. Else the operand
goes through shared memory, and each trip waits for its dots. And they divide a dot's result among warps by rows where
something is reduced along its rows as they are, which then needs no other warp's part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.scf import ForOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from vkernels.ir.dialect import tt
from vkernels.ir.dialect.blocks import terminator

_Change = tt.ReshapeOp | tt.TransOp
_SUM = 2
_Key: TypeAlias = tuple[SSAValue, tuple[int, ...], tuple[int, ...]]


def shapes_of_dots(function: Operation) -> None:
    """Move changes of shape from between elementwise operations and dots to before these operations, where they undo
    those of dots' results and of carried tiles, and to behind reductions along one side of them.

    Only for dots whose sum is rescaled, as in attention. Its gradients, where it is not, read more of shared memory so:
    8 % longer by static bound on sm_80.
    """
    made: dict[_Key, SSAValue] = {}
    for dot in [op for op in function.walk() if isinstance(op, tt.DotOp)]:
        if _move(dot, _SUM, made) is not None and (block := dot.parent) is not None:
            for turn in (_move(dot, number, made) for number in (0, 1)):
                for reduction in [op for op in block.ops if isinstance(op, tt.ReduceOp)]:
                    if turn is not None:
                        _reduce_along_side(reduction, turn, made)


def _move(dot: tt.DotOp, number: int, made: dict[_Key, SSAValue]) -> _Turn | None:
    """Compute an operand in the dot's shape. Returns how its shape changed, or None if that cannot be."""
    changes = tuple(_changes_to(dot.operands[number]))
    if not changes or len(tt.shape(dot.operands[number].type)) != 2:
        return None
    turn, source = _Turn(changes), changes[0].operands[0]
    if not _is_elementwise(source) or not turn.reaches(source, made):
        return None
    taken = turn.applied(source, made)
    dot.operands[number] = taken
    for change in reversed(changes):
        if not any(change.results[0].uses):
            Rewriter.erase_op(change)
    return turn


def _reduce_along_side(reduction: tt.ReduceOp, turn: _Turn, made: dict[_Key, SSAValue]) -> None:
    """Reduce what can be computed in a dot's shape in that shape, if it is reduced along one of its sides."""
    if len(reduction.operands) != 1 or tt.shape((value := reduction.operands[0]).type) != turn.before:
        return
    dimensions = [tuple(each) for each in _grouped(range(len(turn.order)), turn.before)]
    along = dimensions.pop(reduction.axis.value.data)
    across = tuple(bit for each in dimensions for bit in each)
    sides = [tuple(each) for each in _grouped(turn.order, turn.shape)]
    if sorted(sides) != sorted([along, across]) or not turn.reaches(value, made):
        return
    body = reduction.detach_region(reduction.regions[0])
    new = tt.ReduceOp(turn.applied(value, made), sides.index(along), body)
    at = InsertPoint.before(reduction)
    back = tt.ReshapeOp(_inserted(new, at, reduction), tt.shape(reduction.results[0].type))
    result = _inserted(back, at, reduction)
    result.name_hint = reduction.results[0].name_hint
    reduction.results[0].replace_all_uses_with(result)
    Rewriter.erase_op(reduction)


def _changes_to(value: SSAValue) -> Sequence[_Change]:
    """The changes of shape that lead to a value, the first one first."""
    found: list[_Change] = []
    while isinstance(value.owner, _Change):
        found.append(value.owner)
        value = value.owner.operands[0]
    return found[::-1]


def _is_elementwise(value: SSAValue) -> bool:
    op = value.owner
    if isinstance(op, Block) or op.regions or len(op.results) != 1 or not op.operands:
        return False
    same = {tt.shape(each.type) for each in (*op.operands, *op.results)}
    return op.name.startswith(("arith.", "math.", "tt.fp_to_fp", "tt.bitcast")) and same == {tt.shape(value.type)}


@dataclass(frozen=True)
class _Turn:
    """Changes of shape, one after another. Sizes are powers of two, so each only orders and groups an index's bits."""

    changes: tuple[_Change, ...]

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
                groups = _grouped(bits, tt.shape(change.operands[0].type))
                bits = [bit for d in change.order.get_values() for bit in groups[d]]
        return tuple(bits)

    def reaches(self, value: SSAValue, made: Mapping[_Key, SSAValue]) -> bool:
        """Whether all that elementwise operations compute a value from can have the last shape: for some of it, dots
        have it already, or loops that carry it, or it was `made` so."""
        seen, waiting, anchors = set[SSAValue](), [value], 0
        while waiting:
            if (each := waiting.pop()) in seen:
                continue
            seen.add(each)
            if self._is_undone(each) or self._is_carried(each) or (each, self.order, self.shape) in made:
                anchors += 1
            elif _is_elementwise(each) or isinstance(each.owner, tt.ExpandDimsOp):
                waiting += each.owner.operands  # type: ignore[union-attr]
            elif not isinstance(each.owner, tt.SplatOp) and self._side(each) is None:
                return False
        return anchors > 0

    def _is_undone(self, value: SSAValue) -> bool:
        """Whether a value is a dot's result, brought out of the last shape."""
        back = _changes_to(value)
        if not back or not isinstance(back[0].operands[0].owner, tt.DotOp):
            return False
        there = _Turn((*back, *self.changes))
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
        """Along which dimension of the last shape a broadcast value differs; None for what is otherwise."""
        if not isinstance(value.owner, tt.BroadcastOp):
            return None
        source = tt.shape(value.owner.src.type)
        long = [d for d, size in enumerate(source) if size > 1]
        if len(long) != 1:
            return None
        bits = tuple(_grouped(range(len(self.order)), tt.shape(value.type))[long[0]])
        sides = [tuple(each) for each in _grouped(self.order, self.shape)]
        return sides.index(bits) if bits in sides else None

    def applied(self, value: SSAValue, made: dict[_Key, SSAValue]) -> SSAValue:
        """A value that can have the last shape in it."""
        key = (value, self.order, self.shape)
        if key not in made:
            made[key] = self._applied(value, made)
        return made[key]

    def _applied(self, value: SSAValue, made: dict[_Key, SSAValue]) -> SSAValue:
        if self._is_undone(value):
            return _changes_to(value)[0].operands[0]
        type_, op = TensorType(tt.element(value.type), list(self.shape)), value.owner
        if isinstance(op, Block):
            return _changed(value, self.changes, InsertPoint.at_start(op), op.parent_op())
        if isinstance(op, tt.SplatOp):
            return _inserted(tt.SplatOp(op.src, self.shape), InsertPoint.before(op), op)
        if (side := self._side(value)) is not None:
            return self._broadcast(op, side)
        operands = [self.applied(operand, made) for operand in op.operands]
        if isinstance(op, tt.ExpandDimsOp):
            return operands[0]
        new = type(op).create(
            operands=operands, result_types=[type_], properties=op.properties, attributes=op.attributes
        )
        taken = _inserted(new, InsertPoint.before(op), op)
        taken.name_hint = value.name_hint
        undone = self._undone(taken, op)
        made[undone, self.order, self.shape] = taken  # operations that come later have it as an operand
        value.replace_all_uses_with(undone)
        Rewriter.erase_op(op)
        return taken

    def _broadcast(self, op: Operation, side: int) -> SSAValue:
        """What is the same along one dimension of the last shape."""
        at, source = InsertPoint.before(op), op.operands[0]
        while isinstance(source.owner, tt.ExpandDimsOp) and len(tt.shape(source.type)) > 1:
            source = source.owner.src
        if len(tt.shape(source.type)) != 1:
            source = _inserted(tt.ReshapeOp(source, [self.shape[side]]), at, op)
        return _inserted(tt.BroadcastOp(_inserted(tt.ExpandDimsOp(source, 1 - side), at, op), self.shape), at, op)

    def _undone(self, value: SSAValue, before: Operation) -> SSAValue:
        """A value of the last shape in the first."""
        for change in reversed(self.changes):
            if isinstance(change, tt.TransOp):
                order = list(change.order.get_values())
                back: Operation = tt.TransOp(value, [order.index(d) for d in range(len(order))])
            else:
                back = tt.ReshapeOp(value, tt.shape(change.operands[0].type))
            value = _inserted(back, InsertPoint.before(before), before)
        shape = tt.shape(before.results[0].type)
        return (
            value if shape == self.before else _inserted(tt.ReshapeOp(value, shape), InsertPoint.before(before), before)
        )


def _changed(value: SSAValue, changes: Sequence[_Change], at: InsertPoint, like: Operation | None) -> SSAValue:
    """A value after such changes."""
    for change in changes:
        if isinstance(change, tt.TransOp):
            new: Operation = tt.TransOp(value, change.order.get_values())
        else:
            new = tt.ReshapeOp(value, tt.shape(change.results[0].type))
        value = _inserted(new, at, like)
    return value


def _inserted(op: Operation, at: InsertPoint, like: Operation | None) -> SSAValue:
    if like is not None:
        op.location = like.location
    Rewriter.insert_op(op, at)
    return op.results[0]


def _log(size: int) -> int:
    return size.bit_length() - 1


def _grouped(bits: Sequence[int], shape: Sequence[int]) -> list[Sequence[int]]:
    """An index's bits by dimension."""
    found, begin = list[Sequence[int]](), 0
    for size in shape:
        found.append(bits[begin : begin + _log(size)])
        begin += _log(size)
    return found
