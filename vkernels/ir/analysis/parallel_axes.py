"""The whole axes along which a launch of a kernel is parallel: its programs can divide them, and combine nothing.

Splitting an axis (`splits`) needs a step that combines what the programs found. Here none is needed: no reduction of
the launch goes along the axis, and all that the launch leaves has the axis.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations

from xdsl.ir import Operation

from ..dialect import AccessOp, KernelOp, PhaseOp, ScanByOp, ScanOp, TensorArgumentType, WholeOp, axes_of
from .accesses import LOOPS, MemoryAccess, accesses_of, ancestors, has_effect
from .launch_axes import launch_axes
from .meeting import clash, elementwise


@dataclass(frozen=True)
class _PhaseWork:
    """What decides whether a phase is parallel along an axis.

    `combined`: axes of which its operations combine positions; `recomputed`: those for which that is part of a value
    with whole axes, which later launches may compute again. `accesses`: of memory. `can_divide`: false for what only
    one program may do, such as an atomic update or an access of a scratchpad.
    """

    op: PhaseOp
    combined: frozenset[str]
    recomputed: frozenset[str]
    accesses: tuple[MemoryAccess, ...]
    can_divide: bool


class ParallelAxes:
    """The whole axes of a kernel in phases along which its launches are parallel."""

    def __init__(self, kernel: KernelOp):
        self.kernel = kernel
        self.wholes = [op.axis.data for op in kernel.body.block.ops if isinstance(op, WholeOp)]
        self._works = {op.phase.data: _work_of(op, self.wholes) for op in kernel.walk() if isinstance(op, PhaseOp)}
        self._found: dict[tuple[str, ...], tuple[frozenset[str], ...]] = {}

    def of(self, launches: Collection[str]) -> tuple[frozenset[str], ...]:
        """The axes of each launch, if a launch begins after each of some phases; none where there is one launch."""
        key = tuple(launches)
        if key not in self._found:
            parts = launch_axes(self.kernel).phases(launches)
            works = [[self._works[name] for name in part] for part in parts]
            self._found[key] = tuple(
                self._of_part(works[number], works[:number]) if len(works) > 1 else frozenset()
                for number in range(len(works))
            )
        return self._found[key]

    def _of_part(self, part: Sequence[_PhaseWork], before: Sequence[Sequence[_PhaseWork]]) -> frozenset[str]:
        if not all(work.can_divide for work in part):
            return frozenset()
        taken = {axis for work in part for axis in work.combined}
        taken |= {axis for works in before for work in works for axis in work.recomputed}
        ops = {work.op for work in part}
        results = (value for work in part for value in work.op.results)
        left = [value for value in results if any(ops.isdisjoint(ancestors(use.operation)) for use in value.uses)]
        accesses = [access for work in part for access in work.accesses]
        return frozenset(
            axis
            for axis in self.wholes
            if axis not in taken
            and all(axis in axes_of(value) for value in left)
            and all(axis in access.axes for access in accesses if access.writes)
            and (left or any(access.writes for access in accesses))
            and not _meet(accesses, axis)
        )


def parallel_axes(kernel: KernelOp) -> ParallelAxes:
    """Those of a kernel in phases; kept with the kernel."""
    found = kernel.analyses.get("parallel axes")
    if not isinstance(found, ParallelAxes):
        found = kernel.analyses["parallel axes"] = ParallelAxes(kernel)
    return found


def _meet(accesses: Sequence[MemoryAccess], axis: str) -> bool:
    """Whether programs along an axis may meet in memory: in one access, or in two."""
    pairs = [*combinations(accesses, 2), *((access, access) for access in accesses if access.writes)]
    return any(clash(one, other) and not elementwise(one, other, [axis], _outermost(one.op)) for one, other in pairs)


def _outermost(op: Operation) -> Operation | None:
    """The outermost loop around an operation: what changes in any changes in it."""
    *_, loop = (None, *(each for each in ancestors(op) if isinstance(each, LOOPS)))
    return loop


def _work_of(phase: PhaseOp, wholes: Collection[str]) -> _PhaseWork:
    combined: set[str] = set()
    recomputed: set[str] = set()
    for op in phase.body.walk():
        along = _combined(op)
        combined |= along
        if any(set(axes_of(value)).intersection(wholes) for value in op.results):
            recomputed |= along
    accesses = tuple(accesses_of(phase))
    is_plain = all(isinstance(access.base.type, TensorArgumentType) and not access.atomic for access in accesses)
    others = any(has_effect(op) for op in phase.body.walk() if not isinstance(op, AccessOp) and not op.regions)
    is_outside = isinstance(phase.parent_op(), KernelOp)
    return _PhaseWork(
        phase, frozenset(combined), frozenset(recomputed), accesses, is_plain and not others and is_outside
    )


def _combined(op: Operation) -> set[str]:
    """The axes of which an operation takes several positions for one of its result: those that its results lack, and
    those of scans."""
    if isinstance(op, ScanOp | ScanByOp):
        return {op.axis.data}
    if not op.results:
        return set()
    taken = {axis for operand in op.operands for axis in axes_of(operand)}
    return taken - {axis for result in op.results for axis in axes_of(result)}
