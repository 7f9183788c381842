"""Find lost updates and conflicts between programs in a kernel as its author wrote it.

Both depend only on the kernel, not on a plan: `programs_meet` finds conflicts of any plan with several programs,
`lost_updates` what is lost even in a single program.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

from xdsl.ir import Operation, SSAValue

from ..dialect import KernelOp, RangeOp, TensorArgumentType, TileOp, WholeOp, WriteOp, axes_of
from ..dialect.blocks import terminator
from .accesses import LOOPS, MemoryAccess, accesses_of, ancestors, constant_of, same_index
from .grid_phases import grid_steps
from .launch_axes import axes_between_waits
from .meeting import clash, fixed_axes


@dataclass(frozen=True, eq=False)
class Race:
    """A write to an element that another access also touches, at another position of `axis`.

    `is_update`: the written value is computed from what `other` loaded at the same index.
    """

    write: MemoryAccess
    other: MemoryAccess
    axis: str
    is_update: bool


def find_races(kernel: KernelOp) -> Iterator[Race]:
    """The races of a kernel as written. Without any, its plan may have any number of programs."""
    found = accesses_of(kernel)
    alone = _alone(kernel)
    yield from lost_updates(found, alone)
    tiles = [op.axis.data for op in kernel.body.block.ops if isinstance(op, TileOp)]
    yield from programs_meet(kernel, found, [axis for axis in tiles if axis not in alone])


def unknown_results(kernel: KernelOp) -> Iterator[tuple[WriteOp, str]]:
    """Atomics whose results are used, with a tile axis that the updated value lacks: one of the programs along it makes
    the update, and the others would not know what it found."""
    alone, axes_at = _alone(kernel), axes_between_waits(kernel)
    for op in kernel.walk():
        if isinstance(op, WriteOp) and any(result.uses for result in op.results):
            yield from ((op, axis) for axis in axes_at(op) if axis not in alone and axis not in axes_of(op.tile))


def lost_updates(found: Iterable[MemoryAccess], alone: Collection[str]) -> Iterator[Race]:
    """Writes of a value computed from a load at the same index, if several positions share the element.

    `alone`: axes with one position. Of all positions that load the element, only one's result would remain.
    """
    loads: dict[SSAValue, list[MemoryAccess]] = {}
    for access in found:
        if not access.writes:
            loads.setdefault(access.base, []).append(access)
            continue
        updated = [] if access.atomic else [load for load in loads.get(access.base, ()) if _is_update(access, load)]
        fixed = fixed_axes(access, access) if updated else None
        free = [] if fixed is None else sorted(access.axes - fixed - set(alone))
        for load in updated:
            if free:
                yield Race(access, load, free[0], True)


def programs_meet(kernel: KernelOp, found: Iterable[MemoryAccess], axes: Collection[str]) -> Iterator[Race]:
    """Accesses to a tensor, one of them a write, with which programs along one of `axes` may touch the same element.

    Only the first program along an axis makes writes that lack the axis, so two such writes do not conflict; nor do
    accesses between which all programs wait for one another.
    """
    step_of, axes_at = grid_steps(kernel), axes_between_waits(kernel)
    of_tensors: dict[SSAValue, list[MemoryAccess]] = {}
    for access in found if axes else ():
        if isinstance(access.base.type, TensorArgumentType):
            of_tensors.setdefault(access.base, []).append(access)
    for accesses in of_tensors.values():
        for one, other in combinations(accesses, 2):
            if not clash(one, other) or step_of(one.op) != step_of(other.op):
                continue
            *_, loop = (None, *(op for op in ancestors(one.op) if isinstance(op, LOOPS)))
            fixed = fixed_axes(one, other, loop)  # what changes in any loop around changes in the outermost
            free = [] if fixed is None else [axis for axis in axes if axis not in fixed and axis in axes_at(one.op)]
            for axis in free:
                if not (one.writes and other.writes and axis not in one.axes | other.axes):
                    write, rest = (other, one) if other.writes else (one, other)
                    yield Race(write, rest, axis, not rest.writes and _is_update(write, rest))


def _alone(kernel: KernelOp) -> set[str]:
    """Axes with one position, whatever the sizes."""
    extents = {op.axis.data: constant_of(op.extent) for op in kernel.body.block.ops if isinstance(op, TileOp | WholeOp)}
    return {axis for axis, extent in extents.items() if extent is not None and extent <= 1}


def _is_update(write: MemoryAccess, load: MemoryAccess) -> bool:
    """Whether a write stores a value computed from a load at the same index."""
    is_same = all(same_index(one, other, loads=True) for one, other in zip(write.index, load.index, strict=True))
    return is_same and _depends(write.op.tile, load.op)


def _depends(value: SSAValue, source: Operation) -> bool:
    """Whether a value is computed from an operation's result, also through loops and conditionals."""
    seen: set[SSAValue] = set()
    todo = [value]
    while todo:
        value = todo.pop()
        if value.owner is source:
            return True
        if value not in seen:
            seen.add(value)
            todo += _computed_from(value)
    return False


def _computed_from(value: SSAValue) -> Iterable[SSAValue]:
    """A superset of the values that a value is computed from."""
    op = value.owner if isinstance(value.owner, Operation) else value.owner.parent_op()
    if op is None or isinstance(op, KernelOp):
        return ()
    if isinstance(op, RangeOp):
        if value is op.position:
            return (op.start, op.stop)
        number = op.carried.index(value) if value in op.carried else op.results.index(value)
        return (op.initial[number], terminator(op.body.block).operands[number])
    return [operand for inner in op.walk() for operand in inner.operands] if op.regions else op.operands
