"""K-major operands: a launch of its own copies a tensor so that the axis which dots contract is contiguous.

A copy has the tensor's dimensions in the same order, but the contracted one last, in rows of whole chunks: what is past
its end is 0. So rows begin at whole chunks, and no load of them needs a mask along the contracted axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import DYNAMIC_INDEX, i64
from xdsl.ir import Block, SSAValue

from ...analysis.k_major import Contracted, contracted_by_dots
from ...dialect import BufferOp, BufferType, LoadOp, StoreOp, TensorArgumentType, arith, tile_type
from ...dialect.access_parts import Index
from ...errors import PlanError
from .copies_in_memory import lengths_of
from .frames import LoopFrame
from .launches import add_launch
from .mapping_state import KMajorCopy, MappingState
from .planned_kernel import PlannedKernel

COPIED_BY_A_THREAD = 32
"""Elements that a thread copies at least, which it loads before it stores the first. With fewer, threads mostly compute
addresses: half as many cost 13.9 instead of 8.0 us of instructions for an image of 51 MB on sm_100, a quarter 23.1
instead of 6.9 on gfx950 (docs/measurements/2026-11-28-bytes-and-copies.md)."""


def check_k_major(planned: PlannedKernel) -> None:
    """Raise `PlanError` for a tensor that cannot be copied so."""
    for name in planned.plan.k_major:
        _contracted(planned, name)


def emit_k_major(state: MappingState) -> None:
    """Emit a buffer and a launch for every tensor that the plan copies. Its loads then read the copy."""
    for name in state.plan.k_major:
        found = _contracted(state, name)
        axis, dimension = found.axis, found.dimension
        tensor = state.kernel.parameter(name)
        assert isinstance(tensor.type, TensorArgumentType)
        lengths = lengths_of(state, tensor)
        order = (*(place for place in range(len(lengths)) if place != dimension), dimension)
        lengths[dimension] = state.length_of(axis)
        sizes = [lengths[place] for place in order]
        known = [state.top.known(size) for size in sizes]
        shape = BufferType([DYNAMIC_INDEX if n is None else n for n in known], tensor.type.element)
        unknown = [size for size, n in zip(sizes, known, strict=True) if n is None]
        buffer = state.top.add(BufferOp(f"k_major_{name}", unknown, shape))
        state.k_major[tensor] = copy = KMajorCopy(order, axis, buffer)
        _emit_launch(state, found, tensor, copy, lengths)


def _contracted(planned: PlannedKernel, name: str) -> Contracted:
    if name not in [parameter.data for parameter in planned.kernel.parameters]:
        raise PlanError(f"the plan copies {name}, which is no parameter of {planned.kernel.sym_name.data}")
    if name in (*planned.plan.packs, *planned.plan.descriptors):
        raise PlanError(
            f"the plan copies {name} K-major, and packs it or moves it by descriptors: not both", about=name
        )
    found = contracted_by_dots(planned.kernel.parameter(name))
    if found is None or planned.axes[found.axis].is_tile:
        raise PlanError(
            f"{name} is not a tensor that is only loaded, for dots along one whole axis that alone indexes one of its"
            " dimensions: it has no K-major copy",
            about=name,
        )
    return found


def _emit_launch(
    state: MappingState, found: Contracted, tensor: SSAValue, copy: KMajorCopy, lengths: Sequence[SSAValue]
) -> None:
    """Emit the launch: a program copies a tile of the contracted dimension and of the one that is contiguous in the
    tensor, or else of the next one. `lengths`: of the tensor's dimensions, the contracted one in whole chunks."""
    top, name, last = state.top, str(tensor.name_hint), found.dimension
    strides = list(state.facts.strides.get(name, ()))
    across = found.across(strides.index(1) if 1 in strides else None)
    outer = [place for place in copy.order[:-1] if place != across]
    sides = dict(zip((last if across is None else across, last), found.sides(state.plan, across or 0), strict=True))
    grid = [lengths[place] for place in outer]
    grid += [top.combined(arith.CeilDivSIOp, lengths[place], top.number(side)) for place, side in sides.items()]
    block = Block(arg_types=[i64] * len(grid))
    frame = LoopFrame(block, top)
    index: dict[int, Index] = {place: ((), number) for place, number in zip(outer, block.args, strict=False)}
    names = {place: next(axis for axis in (*state.axes, f"{name}_rows") if axis != copy.axis) for place in sides}
    names[last] = copy.axis
    bounds: dict[str, SSAValue] = {}
    for number, (place, side) in zip(block.args[len(outer) :], sides.items(), strict=True):
        start = frame.combined(arith.MuliOp, number, frame.number(side))
        index[place] = [(names[place], 1)], start
        bounds[names[place]] = frame.combined(arith.SubiOp, lengths[place], start)
    inside = {**bounds, copy.axis: frame.combined(arith.SubiOp, state.extent_of(state.axes[copy.axis]), start)}
    assert isinstance(tensor.type, TensorArgumentType)
    tile = tile_type(tensor.type.element, [names[place] for place in sides], [*sides.values()])
    loaded = frame.add(LoadOp(top.values[tensor], [index[place] for place in sorted(index)], tile, bounds=inside))
    block.add_op(StoreOp(loaded, copy.buffer, [index[place] for place in copy.order], bounds=bounds))
    warps = prod(sides.values()) // (COPIED_BY_A_THREAD * state.warp)
    add_launch(state, f"copy {name}", grid, block, warps=max(1, warps))
