"""Which operand of a `vk.dot` gives the rows of the product of matrices."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation, SSAValue
from xdsl.traits import IsTerminator

from ..dialect import BroadcastOp, DotOp, GatherOp, LoadOp, ReductionOp, arith, axes_of

LEAST_ROWS = 64
"""Rows that the matrix units of sm_90 and later need; columns may be few. Dots with fewer columns are not turned."""


def prefers_turned(dot: DotOp) -> bool:
    """Whether (b a)ᵀ should be computed for a b: the right operand gives the rows then.

    Threads hold whole rows, or parts of them, and units read the left operand from registers. So what is added up next
    should lie along the columns, as keys do in attention: no thread waits for another then. Otherwise an operand that
    was computed should be the left one: the right one goes through shared memory.
    """
    rows = {*axes_of(dot.left)} - {*axes_of(dot.right)}
    columns = {*axes_of(dot.right)} - {*axes_of(dot.left)}
    contracted = {*_contracted_next(dot.result)} & (rows | columns)
    if contracted:
        return not contracted & columns
    return _is_loaded(dot.left) and not _is_loaded(dot.right)


def feeds_dot(dot: DotOp) -> bool:
    """Whether what is computed from a dot, element by element, is an operand of another."""
    return any(isinstance(op, DotOp) for op in _combined_next(dot.result))


def _contracted_next(value: SSAValue) -> Iterator[str]:
    """The axes along which what is computed from a value, element by element, is reduced or multiplied."""
    return (op.axis.data for op in _combined_next(value))


def _combined_next(value: SSAValue) -> Iterator[ReductionOp | DotOp]:
    """The reductions and products of what is computed from a value, element by element."""
    seen, waiting = set[SSAValue](), [value]
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        for use in value.uses:
            op = use.operation
            if isinstance(op, ReductionOp):
                yield op
            elif isinstance(op, DotOp):
                if value in (op.left, op.right):
                    yield op
            elif op.has_trait(IsTerminator):
                waiting += _handed_to(op, use.index)
            elif not op.regions:
                waiting += op.results


def _handed_to(terminator: Operation, index: int) -> Iterator[SSAValue]:
    """The result of the operation around that an operand of a block's last operation becomes."""
    around = terminator.parent_op()
    if around is not None and len(around.results) == len(terminator.operands):
        yield around.results[index]


def _is_loaded(value: SSAValue) -> bool:
    """Whether a tile comes from memory, at most converted, or from a loop or a memory around."""
    while isinstance(value.owner, arith.ExtFOp | arith.TruncFOp | BroadcastOp):
        value = value.owner.operands[0]
    return not isinstance(value.owner, Operation) or isinstance(value.owner, LoadOp | GatherOp)
