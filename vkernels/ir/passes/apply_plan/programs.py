"""A launch's programs: along which axes, how many, and memory at the top level that each has a part of."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Attribute, SSAValue

from ...dialect import BufferOp, BufferType, arith
from .axes import Axis
from .work import Work


def program_axes(work: Work) -> list[Axis]:
    """The tile axes from the slowest to the fastest program coordinate."""
    order = [*work.plan.order, *(name for name in work.axes if name not in work.plan.order)]
    return [work.axes[name] for name in order if work.axes[name].is_tile]


def programs_along(work: Work, axis: Axis) -> SSAValue:
    """How many programs an axis takes."""
    if not axis.is_tile:
        return work.top.number(axis.programs)
    return work.top.combined(arith.CeilDivSIOp, extent_of(work, axis), work.top.number(axis.size))


def extent_of(work: Work, axis: Axis) -> SSAValue:
    """An axis's extent, at the top level."""
    extent = work.top.find(axis.extent)
    assert extent is not None, "extents are computed at the top level"
    return extent


def length_of(work: Work, name: str) -> SSAValue:
    """The elements of memory that an axis takes: a program's tile, or all of a whole axis, the last chunk in full."""
    axis, top = work.axes[name], work.top
    if axis.capacity is not None:
        return top.number(axis.capacity)
    size = top.number(axis.size)
    if axis.exact:
        return extent_of(work, axis)
    return top.combined(arith.MuliOp, top.combined(arith.CeilDivSIOp, extent_of(work, axis), size), size)


def buffer_for_programs(work: Work, label: str, sizes: Sequence[SSAValue], element: Attribute) -> SSAValue:
    """A top-level buffer: [programs along each tile axis, `sizes`]."""
    sizes = [*(programs_along(work, tile) for tile in program_axes(work)), *sizes]
    known = [work.top.known(size) for size in sizes]
    shape = [DYNAMIC_INDEX if n is None else n for n in known]
    unknown = [size for size, n in zip(sizes, known, strict=True) if n is None]
    return work.top.add(BufferOp(label, unknown, BufferType(shape, element)))


def program_index(work: Work) -> list[tuple[list[tuple[str, int]], SSAValue | None]]:
    """The first indices into such a buffer: this program's."""
    return [([], work.coordinates[tile.name]) for tile in program_axes(work)]
