"""Load operands of dots in the shape in which dots take them.

Triton copies a load to shared memory ahead of its dot, by 16 bytes a thread, if the dot takes it as it is. A tile with
a dimension for each axis, which is brought into a matrix first, goes there by 4 bytes on AMD's GPUs, or through
registers.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from vkernels.ir.dialect import tt

from .turns import Key, Turn, changes_to, inserted


def loads_of_dots(dots: Iterable[tt.DotOp]) -> None:
    """Compute pointers and masks of loads that one of these dots alone takes in its shape, and load what it takes.

    Only of loops whose sums are rescaled: gradients of attention, which take some of their operands twice, read up to a
    quarter more of shared memory so, by static bound.
    """
    made: dict[Key, SSAValue] = {}
    for dot in dict.fromkeys(dots):
        for number in (0, 1):
            _load_as_taken(dot, number, made)


def _load_as_taken(dot: tt.DotOp, number: int, made: dict[Key, SSAValue]) -> None:
    changes = changes_to(dot.operands[number])
    if not changes or len(tt.shape(dot.operands[number].type)) != 2:
        return
    turn, load, seen = Turn(tuple(changes)), changes[0].operands[0].owner, set[SSAValue]()
    if not isinstance(load, tt.LoadOp) or any(op.results[0].uses.get_length() > 1 for op in (*changes, load)):
        return
    if not all(turn.is_computed(operand, seen) for operand in load.operands):
        return
    new = tt.LoadOp.create(
        operands=[turn.computed(operand, made) for operand in load.operands],
        result_types=[TensorType(tt.element(load.result.type), list(turn.shape))],
        properties=load.properties,
        attributes=load.attributes,
    )
    dot.operands[number] = inserted(new, InsertPoint.before(load), load)
    dot.operands[number].name_hint = load.result.name_hint
    for op in (*reversed(changes), load):
        Rewriter.erase_op(op)
