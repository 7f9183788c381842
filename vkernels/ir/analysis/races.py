"""Find updates that would get lost, and programs that would meet in memory, in a kernel as its author wrote it.

Both depend on the text alone, not on a plan: `programs_meet` says what no plan of several programs can do,
`lost_updates` what would be lost in a single program too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

from xdsl.ir import Operation, SSAValue

from ..dialect import AccessOp, KernelOp, RangeOp, TensorArgumentType, TileOp, WholeOp
from .accesses import MemoryAccess, accesses_of, axes_told, clash, computed_alike, constant_of
from .effects import LOOPS


@dataclass(frozen=True, eq=False)
class Race:
    """A write whose element another access also touches, at another position of `axis`.

    `is_update`: what is written is computed from what `other` loaded at the same index.
    """

    write: MemoryAccess
    other: MemoryAccess
    axis: str
    is_update: bool


def find_races(kernel: KernelOp) -> Iterator[Race]:
    """The races of a kernel as written; none of one whose plan may have any number of programs."""
    found = accesses_in(kernel)
    extents = {op.axis.data: constant_of(op.extent) for op in kernel.body.block.ops if isinstance(op, TileOp | WholeOp)}
    alone = {axis for axis, extent in extents.items() if isinstance(extent, int) and extent <= 1}
    yield from lost_updates(found, alone)
    tiles = [op.axis.data for op in kernel.body.block.ops if isinstance(op, TileOp)]
    yield from programs_meet(found, [axis for axis in tiles if axis not in alone])


def accesses_in(kernel: KernelOp) -> list[MemoryAccess]:
    """Every access of a kernel, in program order."""
    return [access for op in kernel.walk() if isinstance(op, AccessOp) for access in accesses_of(op)]


def lost_updates(found: Iterable[MemoryAccess], alone: Collection[str]) -> Iterator[Race]:
    """Writes of what is computed from a load at the same index, where several positions have the same element.

    `alone`: axes of one position. Of all positions that load the same element, only one's result would stay.
    """
    loads: dict[SSAValue, list[MemoryAccess]] = {}
    for access in found:
        if not access.writes:
            loads.setdefault(access.base, []).append(access)
            continue
        free = sorted(access.axes - axes_told(access, access) - set(alone))
        for load in loads.get(access.base, ()) if free and not access.atomic else ():
            if _is_update(access, load):
                yield Race(access, load, free[0], True)


def programs_meet(found: Iterable[MemoryAccess], axes: Collection[str]) -> Iterator[Race]:
    """Accesses to a tensor, one of them a write, by which programs along one of `axes` may touch the same element.

    Writes that lack an axis are the first program's alone, so that two of them meet nobody.
    """
    of_tensors: dict[SSAValue, list[MemoryAccess]] = {}
    for access in found if axes else ():
        if isinstance(access.base.type, TensorArgumentType):
            of_tensors.setdefault(access.base, []).append(access)
    for accesses in of_tensors.values():
        for one, other in combinations(accesses, 2):
            if not clash(one, other):
                continue
            told = axes_told(one, other, _outermost_loop(one.op))
            for axis in axes:
                if axis not in told and not (one.writes and other.writes and axis not in one.axes | other.axes):
                    write, rest = (other, one) if other.writes else (one, other)
                    yield Race(write, rest, axis, not rest.writes and _is_update(write, rest))


def _outermost_loop(op: Operation) -> Operation | None:
    """The outermost loop around an operation: what changes in any loop around it changes in that one."""
    found, parent = None, op.parent_op()
    while parent is not None:
        found = parent if isinstance(parent, LOOPS) else found
        parent = parent.parent_op()
    return found


def _is_update(write: MemoryAccess, load: MemoryAccess) -> bool:
    """Whether a write stores, where something was loaded, what is computed from that."""
    alike = all(
        one.terms == other.terms and _same(one.offset, other.offset)
        for one, other in zip(write.index, load.index, strict=True)
    )
    return alike and _depends(write.op.tile, load.op)


def _same(one: SSAValue | int, other: SSAValue | int) -> bool:
    """Whether two offsets are meant to be equal, be it that both are loaded from the same place."""
    if isinstance(one, int) or isinstance(other, int):
        return one == other
    return computed_alike(one, other, loads=True)


def _depends(value: SSAValue, source: Operation) -> bool:
    """Whether a value is computed from what an operation gives, through loops and conditionals too."""
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
    """What a value is computed from, at most."""
    op = value.owner if isinstance(value.owner, Operation) else value.owner.parent_op()
    if op is None or isinstance(op, KernelOp):
        return ()
    if isinstance(op, RangeOp):
        if value is op.position:
            return (op.start, op.stop)
        number = op.carried.index(value) if value in op.carried else op.results.index(value)
        last = op.body.block.last_op
        return (op.initial[number], *(() if last is None else (last.operands[number],)))
    return [operand for inner in op.walk() for operand in inner.operands] if op.regions else op.operands
