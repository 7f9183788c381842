"""Scratchpads in two copies: a loop reads the old copy and writes the new one, then swaps them."""

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
    Raises `PlanError` where a scratchpad does not exist or its loop is not like this.
    """
    found: dict[SSAValue, Operation] = {}
    scratchpads = {op.label.data: op.result for op in analysis.kernel.body.block.ops if isinstance(op, ScratchOp)}
    for label in plan.copies:
        if label not in scratchpads:
            raise PlanError(f"the plan keeps two copies of {label}, which is no scratchpad of the kernel", about=label)
        base = scratchpads[label]
        structural = [op for op in analysis.structures if not isinstance(op, PhaseOp)]
        loops = [op for op in structural if any(a.base is base and a.writes for a in analysis.accesses(op))]
        for loop in loops:
            if not isinstance(loop, RangeOp) or len(loops) > 1:
                raise PlanError(
                    f"{label} is written in more than one loop, or not in a loop: it cannot have two copies",
                    about=label,
                )
            _check(analysis, loop, base, label)
            found[base] = loop
    return found


def _check(analysis: KernelAnalysis, loop: RangeOp, base: SSAValue, label: str) -> None:
    accesses = [access for access in analysis.accesses(loop) if access.base is base]
    writes = [access for access in accesses if access.writes]
    last_read = max((analysis.position[a.op] for a in accesses if not a.writes), default=-1)
    if any(analysis.position[write.op] < last_read for write in writes):
        raise PlanError(
            f"{label} is read after it is written in the same iteration: it cannot have two copies", about=label
        )
    if len(writes) != 1 or not _covers(writes[0], loop):
        raise PlanError(f"{label} is not written as a whole, once an iteration: it cannot have two copies", about=label)


def _covers(write: MemoryAccess, loop: RangeOp) -> bool:
    """Whether a store writes every element, each at its own position."""
    op, phase = write.op, write.op.parent_op()
    return (
        isinstance(phase, PhaseOp)
        and phase.parent_op() is loop
        and op.mask is None
        and not op.within.data
        and all(
            index.terms == ((dimension, 1),) and op.offset_of(number) is None
            for number, (index, dimension) in enumerate(zip(op.index, op.memory.shape, strict=True))
        )
    )
