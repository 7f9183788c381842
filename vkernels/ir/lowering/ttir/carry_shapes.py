"""Carry tiles through loops in the shape in which the loops use them.

A dot with several axes on a side takes its sum with these joined. Were a loop to carry the sum with one dimension for
each axis, it would change the shape in every iteration. Triton may then move the sum through shared memory, and version
3.6 refuses to pipeline such loops for warp groups ("operand #0 does not dominate this use").
"""

from __future__ import annotations

from xdsl.dialects.scf import ForOp, YieldOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from vkernels.ir.dialect import tt

_Change = tt.ReshapeOp | tt.TransOp


def carry_shapes(function: Operation) -> None:
    """Move changes of the shapes of carried tiles out of loops, from inner loops to outer ones."""
    loops = [op for op in function.walk() if isinstance(op, ForOp)]
    for loop in reversed(loops):
        for number in range(len(loop.iter_args)):
            while (changes := _changes(loop, number)) is not None:
                _move_out(loop, number, *changes)


def _changes(loop: ForOp, number: int) -> tuple[_Change, _Change] | None:
    """What each iteration does first with a carried tile, and what it does last, where the two undo each other."""
    carried, yielded = loop.body.block.args[1 + number], _yield_of(loop).operands[number]
    first, last = _only_user(carried), yielded.owner
    if not isinstance(first, _Change) or not isinstance(last, _Change):
        return None
    if last.parent is not loop.body.block or type(first) is not type(last):
        return None
    if first.results[0].type != last.operands[0].type:
        return None
    return (first, last) if isinstance(first, tt.ReshapeOp) or _undo(first, last) else None


def _undo(first: Operation, last: Operation) -> bool:
    """Whether the second of two orders of dimensions leads back to where the first began."""
    orders = [op.order.get_values() for op in (first, last) if isinstance(op, tt.TransOp)]
    return [orders[0][d] for d in orders[1]] == list(range(len(orders[0])))


def _only_user(value: SSAValue) -> Operation | None:
    uses = [*value.uses]
    return uses[0].operation if len(uses) == 1 else None


def _yield_of(loop: ForOp) -> YieldOp:
    last = loop.body.block.last_op
    assert isinstance(last, YieldOp), "verified"
    return last


def _move_out(loop: ForOp, number: int, first: _Change, last: _Change) -> None:
    """Do the first change before the loop and the last one after it."""
    used = [*loop.results[number].uses]
    before, after = first.clone(), last.clone()
    before.location, after.location = first.location, last.location
    before.operands[0] = loop.iter_args[number]
    Rewriter.insert_op(before, InsertPoint.before(loop))
    inside = last.operands[0]
    loop.operands[_FIRST_CARRIED + number] = before.results[0]
    _yield_of(loop).operands[number] = inside
    carried = Rewriter.replace_value_with_new_type(loop.body.block.args[1 + number], inside.type)
    first.results[0].replace_all_uses_with(carried)
    Rewriter.erase_op(first)
    if not any(last.results[0].uses):
        Rewriter.erase_op(last)
    result = Rewriter.replace_value_with_new_type(loop.results[number], inside.type)
    after.operands[0] = result
    Rewriter.insert_op(after, InsertPoint.after(loop))
    for use in used:
        use.operation.operands[use.index] = after.results[0]


_FIRST_CARRIED = 3
"""The operands of a loop before those that it carries: its bounds and its step."""
