"""Where all programs of a kernel wait for one another: what comes after is a launch of its own."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Block, Operation

from ..dialect import BoundaryOp, KernelOp, PhaseOp


def last_phase(op: Operation) -> PhaseOp | None:
    """The last phase of an operation, itself or in its regions; None without phases."""
    return next((each for each in reversed(list(op.walk())) if isinstance(each, PhaseOp)), None)


def mark_grid_phase(block: Block, end: Operation | None) -> None:
    """Mark the last phase of a block, before `end` if given, as one that all programs complete; nothing where there is
    none."""
    op = block.last_op if end is None else end.prev_op
    while op is not None and not op.regions:
        op = op.prev_op
    phase = None if op is None else last_phase(op)
    if phase is not None:
        phase.grid = UnitAttr()


def ends_of_launches(kernel: KernelOp) -> dict[Operation, str]:
    """The operations of a kernel's own block that may end a launch, with the phase after which it ends: phases, and
    loops and conditionals at whose end all programs wait."""
    found: dict[Operation, str] = {}
    for op in kernel.body.block.ops:
        if isinstance(op, PhaseOp):
            found[op] = op.phase.data
        elif (marked := _marked(op)) is not None:
            found[op] = marked
    return found


def grid_phases(kernel: KernelOp) -> tuple[str, ...]:
    """The labels of the phases that all programs complete before any goes on, if there is more work after them."""
    found: list[str] = []
    waiting: list[str] = []
    for op in kernel.body.block.ops:
        if op.regions:
            found += waiting
            marked = _marked(op)
            waiting = [] if marked is None else [marked]
    return tuple(found)


def grid_steps(kernel: KernelOp) -> Callable[[Operation], int]:
    """For each operation of a kernel, as written or in phases, how often all programs have waited before it."""
    steps: dict[Operation, int] = {}
    step = 0
    for op in kernel.body.block.ops:
        steps[op] = step
        for inner in op.walk():
            step += isinstance(inner, BoundaryOp | PhaseOp) and inner.grid is not None

    def step_of(op: Operation) -> int:
        while op not in steps:
            parent = op.parent_op()
            assert parent is not None, "an operation of the kernel"
            op = parent
        return steps[op]

    return step_of


def _marked(op: Operation) -> str | None:
    """The phase in an operation that all programs complete before any goes on."""
    phases = (each for each in op.walk() if isinstance(each, PhaseOp))
    return next((each.phase.data for each in phases if each.grid is not None), None)
