"""Packed operands: a separate launch copies a tensor panel by panel, in the order in which it is read."""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm

from xdsl.dialects import scf
from xdsl.dialects.builtin import DYNAMIC_INDEX, BFloat16Type, Float16Type, f32, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ...analysis.axes import MappedAxis
from ...dialect import (
    BufferOp,
    BufferType,
    LaunchOp,
    LoadOp,
    StoreOp,
    TensorArgumentType,
    arith,
    axes_of,
    element_of,
    tile_type,
)
from ...dialect.blocks import terminator
from ...errors import PlanError
from .access import value_in
from .frames import LoopFrame
from .mapping_state import MappingState, Pack
from .planned_kernel import PlannedKernel

_BLOCK = 16
"""Positions along the whole axis in one copied tile."""
_BLOCKS = 32
"""Tiles that one program copies."""
_Index = tuple[Sequence[tuple[str, int]], SSAValue | None]
"""The terms and the offset of an index."""


def check_packs(planned: PlannedKernel) -> None:
    """Raise `PlanError` for a packed tensor that is not loaded in one place, at tile axes and one whole axis."""
    for name in planned.plan.packs:
        _read_pack(planned, name)


def emit_packs(state: MappingState) -> None:
    """Emit buffers and launches for every tensor that the plan packs. Its loads then read panels."""
    for name in state.plan.packs:
        pack = _read_pack(state, name)
        if pack.whole.known != 0:  # else there is nothing to pack
            length, buffer = _make_buffer(state, pack)
            state.packed[pack.load.result] = (pack, buffer)
            _emit_launch(state, pack, buffer, length)


def _read_pack(planned: PlannedKernel, name: str) -> Pack:
    kernel = planned.kernel
    if name not in [parameter.data for parameter in kernel.parameters]:
        raise PlanError(f"the plan packs {name}, which is no parameter of {kernel.sym_name.data}")
    tensor = kernel.parameter(name)
    users = [use.operation for use in tensor.uses]
    load = users[0] if len(users) == 1 else None
    if not isinstance(tensor.type, TensorArgumentType) or not isinstance(load, LoadOp):
        raise PlanError(f"{name} is not a tensor that is loaded in one place and never written: it cannot be packed")
    tiles: list[MappedAxis] = []
    wholes: list[tuple[int, MappedAxis]] = []
    for dimension, index in enumerate(load.index):
        if len(index.terms) != 1 or index.terms[0][1] != 1 or load.offset_of(dimension) is not None:
            raise PlanError(f"{name} is indexed by more than its axes: it cannot be packed")
        axis = planned.axes[index.terms[0][0]]
        if axis.is_tile:
            tiles.append(axis)
        else:
            wholes.append((dimension, axis))
    is_plain = load.mask is None and not load.within.data and not load.guarded_dimensions
    if not tiles or len(wholes) != 1 or len({axis.name for axis in tiles}) < len(tiles) or not is_plain:
        raise PlanError(f"{name} is not loaded at tile axes and one whole axis: it cannot be packed")
    (*batch, tile), ((dimension, whole),) = tiles, wholes
    for axis in batch:
        if axis.size > 1:
            raise PlanError(f"{name} is packed for one position of {axis.name} at a time, the plan takes {axis.size}")
    strides = planned.facts.strides.get(name) or (*[-1] * (len(load.index) - 1), 1)
    turned = strides[dimension] == 1 and tile.size > 1
    return Pack(name, tensor, load, tile, whole, tuple(batch), turned, _packed_element(load))


def _packed_element(load: LoadOp) -> Attribute:
    """f16 and bf16 are packed as the f32 that they are computed in."""
    element = element_of(load.result)
    narrow = isinstance(element, Float16Type | BFloat16Type)
    extended = narrow and all(isinstance(use.operation, arith.ExtFOp) for use in load.result.uses)
    return f32 if extended else element


def _make_buffer(state: MappingState, pack: Pack) -> tuple[SSAValue, SSAValue]:
    """The padded length of the whole axis, in full blocks and chunks, and a buffer.

    The buffer has the shape [programs along each batch axis and the tile axis, padded length, elements of a tile].
    """
    top = state.top
    step = top.number(lcm(_BLOCK, pack.whole.size))
    extent = value_in(state, top, pack.whole.extent)
    length = top.combined(arith.MuliOp, top.combined(arith.CeilDivSIOp, extent, step), step)
    sizes = [*map(state.programs_along, (*pack.batch, pack.tile)), length]
    shape = [DYNAMIC_INDEX if (known := top.known(size)) is None else known for size in sizes]
    unknown = [size for size in sizes if top.known(size) is None]
    type_ = BufferType([*shape, pack.tile.size], pack.element)
    return length, top.add(BufferOp(f"packed_{pack.name}", unknown, type_))


def _emit_launch(state: MappingState, pack: Pack, buffer: SSAValue, padded: SSAValue) -> None:
    """Emit the launch, each program of which copies `_BLOCKS` blocks of one panel."""
    top = state.top
    extent = value_in(state, top, pack.whole.extent)
    share = top.number(_BLOCK * _BLOCKS)
    programs = [*map(state.programs_along, (*pack.batch, pack.tile))]
    grid = [*programs, top.combined(arith.CeilDivSIOp, extent, share)]
    block = Block(arg_types=[i64] * len(grid))
    frame = LoopFrame(block, top)
    *_, panel, part = block.args
    first = frame.combined(arith.MuliOp, panel, frame.number(pack.tile.size))
    begin = frame.combined(arith.MuliOp, part, share)
    last = frame.combined(arith.AddiOp, begin, share)
    at_end = frame.add(arith.CmpiOp(frame.combined(arith.AddiOp, part, frame.number(1)), grid[-1], "eq"))
    end = frame.add(arith.SelectOp(at_end, padded, last))
    rows = frame.combined(arith.SubiOp, value_in(state, top, pack.tile.extent), first)
    inside = frame.combined(arith.MinSIOp, last, extent)
    blocks = frame.combined(arith.FloorDivSIOp, frame.combined(arith.SubiOp, inside, begin), frame.number(_BLOCK))
    middle = frame.combined(arith.AddiOp, begin, frame.combined(arith.MuliOp, blocks, frame.number(_BLOCK)))
    full, partial = LoopFrame(Block(), frame), LoopFrame(Block(), frame)
    _copy(state, full, pack, buffer, first, (begin, middle), None, None)
    _copy(state, full, pack, buffer, first, (middle, end), rows, extent)
    _copy(state, partial, pack, buffer, first, (begin, end), rows, extent)
    for variant in (full, partial):
        variant.block.add_op(scf.YieldOp.create())
    if pack.tile.exact:
        full.block.erase_op(terminator(full.block))
        Rewriter.inline_block(full.block, InsertPoint.at_end(block))
    else:
        is_full = frame.add(arith.CmpiOp(rows, frame.number(pack.tile.size), "sge"))
        block.add_op(scf.IfOp.create(operands=[is_full], regions=[Region(full.block), Region(partial.block)]))
    launch = LaunchOp(f"pack {pack.name}", grid, Region(block))
    launch.location = pack.load.location
    top.block.add_op(launch)


def _copy(
    state: MappingState,
    frame: LoopFrame,
    pack: Pack,
    buffer: SSAValue,
    first: SSAValue,
    span: tuple[SSAValue, SSAValue],
    rows: SSAValue | None,
    extent: SSAValue | None,
) -> None:
    """Copy blocks from `span[0]` to `span[1]`; elements that are not below `rows` and `extent` become 0."""
    lanes = state.plan.lanes or pack.tile.name
    other = next(name for name in (pack.whole.name, pack.tile.name) if name != lanes)
    along, across = (lanes, other) if pack.turned else (other, lanes)
    inner = LoopFrame(Block(arg_types=[i64]), frame)
    position = inner.block.args[0]
    bounds = {across: rows} if rows is not None and not pack.tile.exact else {}
    if extent is not None:
        bounds[along] = inner.combined(arith.SubiOp, extent, position)
    names, sizes = [across, along], [pack.tile.size, _BLOCK]
    if not pack.turned:
        names, sizes = names[::-1], sizes[::-1]
    assert frame.parent is not None
    *coordinates, _ = frame.parent.block.args
    places: dict[str, _Index] = {axis.name: ((), at) for axis, at in zip(pack.batch, coordinates, strict=False)}
    places |= {pack.tile.name: ([(across, 1)], first), pack.whole.name: ([(along, 1)], position)}
    index = [places[term.terms[0][0]] for term in pack.load.index]
    tensor = value_in(state, frame, pack.tensor)
    loaded = inner.add(LoadOp(tensor, index, tile_type(element_of(pack.load.result), names, sizes), bounds=bounds))
    if element_of(loaded) != pack.element:
        loaded = inner.make(arith.ExtFOp, loaded, type_=tile_type(pack.element, names, sizes))
    panel: list[_Index] = [((), coordinate) for coordinate in coordinates]
    inner.block.add_op(StoreOp(loaded, buffer, [*panel, ([(along, 1)], position), ([(across, 1)], None)]))
    inner.block.add_op(scf.YieldOp.create())
    frame.loop((*span, frame.number(_BLOCK)), [], inner.block)


def load_panel(state: MappingState, frame: LoopFrame, op: Operation) -> SSAValue:
    """Load a packed tensor: the program's panel, from the start of the chunk, all elements of the tile."""
    pack, buffer = state.packed[op.results[0]]
    whole, tile = pack.whole.name, pack.tile.name
    batch: list[_Index] = [([(axis.name, 1)], state.coordinates[axis.name]) for axis in pack.batch]
    panel: _Index = (), state.coordinates[tile]
    index = [*batch, panel, ([(whole, 1)], frame.span(whole).base), ([(tile, 1)], None)]
    load = LoadOp(buffer, index, state.tile_type(pack.element, axes_of(op.results[0])))
    load.location = op.location
    load.result.name_hint = op.results[0].name_hint
    return frame.add(load)
