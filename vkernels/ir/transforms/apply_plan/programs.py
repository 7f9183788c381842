"""A launch's programs: along which axes, how many, and memory at the top level that each has a part of."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Attribute, SSAValue

from ...analysis.axes import MappedAxis
from ...dialect import BufferOp, BufferType, arith
from .mapping_state import MappingState


def program_axes(state: MappingState) -> list[MappedAxis]:
    """The tile axes from the slowest to the fastest program coordinate."""
    order = [*state.plan.order, *(name for name in state.axes if name not in state.plan.order)]
    return [state.axes[name] for name in order if state.axes[name].is_tile]


def programs_along(state: MappingState, axis: MappedAxis) -> SSAValue:
    """How many programs an axis takes."""
    if not axis.is_tile:
        return state.top.number(axis.programs)
    return state.top.combined(arith.CeilDivSIOp, extent_of(state, axis), state.top.number(axis.size))


def extent_of(state: MappingState, axis: MappedAxis) -> SSAValue:
    """An axis's extent, at the top level."""
    extent = state.top.find(axis.extent)
    assert extent is not None, "extents are computed at the top level"
    return extent


def length_of(state: MappingState, name: str) -> SSAValue:
    """The elements of memory that an axis takes: a program's tile, or all of a whole axis, the last chunk in full."""
    axis, top = state.axes[name], state.top
    if axis.capacity is not None:
        return top.number(axis.capacity)
    size = top.number(axis.size)
    if axis.exact:
        return extent_of(state, axis)
    return top.combined(arith.MuliOp, top.combined(arith.CeilDivSIOp, extent_of(state, axis), size), size)


def buffer_for_programs(state: MappingState, label: str, sizes: Sequence[SSAValue], element: Attribute) -> SSAValue:
    """A top-level buffer: [programs along each tile axis, `sizes`]."""
    sizes = [*(programs_along(state, tile) for tile in program_axes(state)), *sizes]
    known = [state.top.known(size) for size in sizes]
    shape = [DYNAMIC_INDEX if n is None else n for n in known]
    unknown = [size for size, n in zip(sizes, known, strict=True) if n is None]
    return state.top.add(BufferOp(label, unknown, BufferType(shape, element)))


def program_index(state: MappingState) -> list[tuple[list[tuple[str, int]], SSAValue | None]]:
    """The first indices into such a buffer: this program's."""
    return [([], state.coordinates[tile.name]) for tile in program_axes(state)]
