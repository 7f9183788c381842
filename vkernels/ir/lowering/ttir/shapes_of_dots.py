"""Compute what lies between dots in the shape in which dots give and take it.

A dot whose sides have several axes, or stand in the other order, gives a matrix, which is brought into a tile's shape;
what is computed from it is brought back for the next dot. That only names Triton's registers anew, but its passes look
for a dot's result, or what a loop carries, right where the next dot takes it: they keep an operand in registers or in
tensor memory, and let a sum stay there from trip to trip, while the dot before is still under way. Else the operand
goes through shared memory, and each trip waits for its dots. And they divide a dot's result among warps by rows where
something is reduced along its rows as they are, which then needs no other warp's part.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from vkernels.ir.dialect import tt

from .turns import Key, Turn, changes_to, grouped, inserted, is_elementwise

_SUM = 2


def shapes_of_dots(function: Operation) -> list[tt.DotOp]:
    """Move changes of shape from between elementwise operations and dots to before these operations, where they undo
    those of dots' results and of carried tiles, and to behind reductions along one side of them. Returns the dots of
    the loops where that was done.

    Only for dots whose sum is rescaled, as in attention. Its gradients, where it is not, read more of shared memory so:
    8 % longer by static bound on sm_80.
    """
    made: dict[Key, SSAValue] = {}
    changed: list[tt.DotOp] = []
    for dot in [op for op in function.walk() if isinstance(op, tt.DotOp)]:
        if _move(dot, _SUM, made) is not None and (block := dot.parent) is not None:
            changed += [op for op in block.ops if isinstance(op, tt.DotOp)]
            for turn in (_move(dot, number, made) for number in (0, 1)):
                for reduction in [op for op in block.ops if isinstance(op, tt.ReduceOp)]:
                    if turn is not None:
                        _reduce_along_side(reduction, turn, made)
    return changed


def _move(dot: tt.DotOp, number: int, made: dict[Key, SSAValue]) -> Turn | None:
    """Compute an operand in the dot's shape. Returns how its shape changed, or None if that cannot be."""
    changes = tuple(changes_to(dot.operands[number]))
    if not changes or len(tt.shape(dot.operands[number].type)) != 2:
        return None
    turn, source = Turn(changes), changes[0].operands[0]
    if not is_elementwise(source) or not turn.reaches(source, made):
        return None
    taken = turn.applied(source, made)
    dot.operands[number] = taken
    for change in reversed(changes):
        if not any(change.results[0].uses):
            Rewriter.erase_op(change)
    return turn


def _reduce_along_side(reduction: tt.ReduceOp, turn: Turn, made: dict[Key, SSAValue]) -> None:
    """Reduce what can be computed in a dot's shape in that shape, if it is reduced along one of its sides."""
    if len(reduction.operands) != 1 or tt.shape((value := reduction.operands[0]).type) != turn.before:
        return
    dimensions = [tuple(each) for each in grouped(range(len(turn.order)), turn.before)]
    along = dimensions.pop(reduction.axis.value.data)
    across = tuple(bit for each in dimensions for bit in each)
    sides = turn.sides
    if sorted(sides) != sorted([along, across]) or not turn.reaches(value, made):
        return
    body = reduction.detach_region(reduction.regions[0])
    new = tt.ReduceOp(turn.applied(value, made), sides.index(along), body)
    at = InsertPoint.before(reduction)
    back = tt.ReshapeOp(inserted(new, at, reduction), tt.shape(reduction.results[0].type))
    result = inserted(back, at, reduction)
    result.name_hint = reduction.results[0].name_hint
    reduction.results[0].replace_all_uses_with(result)
    Rewriter.erase_op(reduction)
