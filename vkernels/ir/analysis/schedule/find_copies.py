"""Scratchpads in two copies: a loop reads the old one and writes the new one, then swaps them."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from ...dialect import PhaseOp, RangeOp, ScratchOp
from ...errors import PlanError
from ...plan import Plan
from ..accesses import MemoryAccess
from ..kernel_analysis import KernelAnalysis


def find_copies(analysis: KernelAnalysis, plan: Plan) -> dict[SSAValue, Operation]:
    """The scratchpads that the plan keeps twice, and the loop that swaps each.

    In that loop's body every read precedes every write, and one store writes all of the scratchpad.
    Raises `PlanError` where a scratchpad does not exist or a loop is not like that.
    """
    found: dict[SSAValue, Operation] = {}
    for label in plan.copies:
        scratch = next(
            (op for op in analysis.kernel.body.block.ops if isinstance(op, ScratchOp) and op.label.data == label), None
        )
        if scratch is None:
            raise PlanError(f"the plan keeps two copies of {label}, which is no scratchpad of the kernel")
        loops = [
            op for op in analysis.structures if not isinstance(op, PhaseOp) and _writes(analysis, op, scratch.result)
        ]
        for loop in loops:
            if not isinstance(loop, RangeOp) or len(loops) > 1:
                raise PlanError(
                    f"{label} is written in more than one loop, or not in a loop: it cannot have two copies"
                )
            _check(analysis, loop, scratch.result, label)
            found[scratch.result] = loop
    return found


def _writes(analysis: KernelAnalysis, op: Operation, base: SSAValue) -> bool:
    return any(access.base is base and access.writes for access in analysis.accesses(op))


def _check(analysis: KernelAnalysis, loop: RangeOp, base: SSAValue, label: str) -> None:
    accesses = [access for access in analysis.accesses(loop) if access.base is base]
    writes = [access for access in accesses if access.writes]
    last_read = max((analysis.position[a.op] for a in accesses if not a.writes), default=-1)
    if any(analysis.position[write.op] < last_read for write in writes):
        raise PlanError(f"{label} is read after it is written in the same iteration: it cannot have two copies")
    if len(writes) != 1 or not _covers(writes[0], loop):
        raise PlanError(f"{label} is not written as a whole, once an iteration: it cannot have two copies")


def _covers(write: MemoryAccess, loop: RangeOp) -> bool:
    """Whether a store writes every element, each at its own position."""
    op = write.op
    shape = op.memory.shape
    phase = op.parent_op()
    return (
        isinstance(phase, PhaseOp)
        and phase.parent_op() is loop
        and op.mask is None
        and not op.within.data
        and all(
            index.terms == ((dimension, 1),) and op.offset_of(number) is None
            for number, (index, dimension) in enumerate(zip(op.index, shape, strict=True))
        )
    )
