"""The operations that trips of a sequential loop cannot do at once: each needs what the trip before left."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from xdsl.ir import Block, Operation, OpResult, SSAValue

from ..analysis.accesses import ancestors
from ..dialect import KernelOp, PhaseOp, RangeOp
from .operation_weights import FREE_OPERATIONS

DEPENDENT_CYCLES = 4
"""Cycles from one operation to the next that needs its result: of NVIDIA's since 7.0 and AMD's CDNA, as published
microbenchmarks find."""
FUSED = 2
"""Operations that one instruction does at most: a product and a sum."""


def chain_cycles(kernel: KernelOp, extents: Mapping[str, int]) -> float:
    """Cycles of the longest chain of operations through all trips of a loop."""
    loops = [op for op in kernel.walk() if isinstance(op, RangeOp) and not op.is_ragged]
    return max((_trips(loop, extents) * _cycles(loop) for loop in loops), default=0.0)


def _trips(loop: RangeOp, extents: Mapping[str, int]) -> int:
    around = [each for each in ancestors(loop) if isinstance(each, RangeOp)]
    return prod(extents.get(each.axis.data, 1) for each in (loop, *around))


def _cycles(loop: RangeOp) -> float:
    """Cycles from a value that the loop carries to the same value of the next trip."""
    last = loop.body.block.last_op
    assert last is not None
    steps = (_steps(after, before, {}) for before, after in zip(loop.carried, last.operands, strict=True))
    return DEPENDENT_CYCLES * max((each for each in steps if each is not None), default=0) / FUSED


def _steps(value: SSAValue, start: SSAValue, known: dict[SSAValue, int | None]) -> int | None:
    """Operations one after another from one value to another; None where the other does not depend on it."""
    if value is start:
        return 0
    if value not in known:
        known[value] = None
        op = value.owner
        if isinstance(op, PhaseOp) and isinstance(value, OpResult):
            last = op.body.block.last_op
            assert last is not None
            known[value] = _steps(last.operands[value.index], start, known)
        elif not isinstance(op, Block) and not op.regions:
            steps = [each for operand in op.operands if (each := _steps(operand, start, known)) is not None]
            known[value] = max(steps) + _counts(op) if steps else None
    return known[value]


def _counts(op: Operation) -> int:
    return 0 if op.name in FREE_OPERATIONS else 1
