"""Emit accesses and find values of a kernel in frames: offsets, bounds and masks."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerType, StringAttr, TensorType, UnitAttr, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ...analysis.accesses import ancestors
from ...dialect import (
    AccessOp,
    FetchOp,
    IndexAttr,
    PositionOp,
    RangeOp,
    ScratchType,
    StoreOp,
    TensorArgumentType,
    WriteOp,
    arith,
    axes_of,
    sizes_of,
    tile_type,
)
from ...errors import PlanError
from ...locations import place_of
from .descriptors import is_described
from .frames import LoopFrame, below, both, broadcast, broadcast_mask, joined
from .homes import first_indices, load_home
from .mapping_state import MappingState


def value_in(state: MappingState, frame: LoopFrame, value: SSAValue) -> SSAValue:
    """What stands for a value of the kernel in a frame: made before, or loaded from its home now."""
    value = state.analysis.source(value)
    if (found := frame.find(value)) is not None:
        return found
    home = state.schedule.home_of(value)
    if home is None:
        raise KeyError(f"{value} is used before it is computed")
    at = state.target(frame, state.analysis.chunks_of_value(value))
    found = at.values[value] = load_home(state, at, home, value)
    return found


def excess_mask(state: MappingState, frame: LoopFrame, type_: Attribute) -> SSAValue | None:
    """Which elements of a tile are in range along all axes; None if all are."""
    return both(frame, [below(frame, axis, state.axes[axis].size, type_) for axis in axes_of(type_)])


def active_mask(state: MappingState, frame: LoopFrame, op: Operation, type_: Attribute) -> SSAValue | None:
    """Which elements of a tile have not finished the ragged ranges around an operation; None if there are none."""
    masks: list[SSAValue | None] = []
    for loop in ancestors(op):
        if not isinstance(loop, RangeOp) or not loop.is_ragged or has_one_element(state, loop):
            continue
        if set(axes_of(loop.start)) <= set(axes_of(type_)):
            masks.append(broadcast_mask(frame, frame.find_made(("running", loop)), type_))
    return both(frame, masks)


def has_one_element(state: MappingState, loop: RangeOp) -> bool:
    """Whether a ragged range is that of one element, which runs in every step of the loop."""
    return all(state.axes[axis].size == 1 for axis in axes_of(loop.start))


def emit_access(state: MappingState, frame: LoopFrame, op: AccessOp) -> None:
    """Emit a load or store: add the starts of its tile's axes to its offsets, and mask elements out of range."""
    writes = isinstance(op, WriteOp)
    private = isinstance(op.base.type, ScratchType)
    if op.base in state.copies:
        base, own = state.copies[op.base]
        offsets, first = [own], [IndexAttr([], 0)]
    else:
        base = (frame.find_written(op.base) if writes else None) or value_in(state, frame, op.base)
        offsets, first = first_indices(state, op.base)
    copy = state.k_major.get(op.base)
    indices: list[IndexAttr] = []
    for dimension in range(len(op.index)) if copy is None else copy.order:
        offset = _offset(state, frame, op, dimension, private)
        indices.append(IndexAttr(op.index.data[dimension].terms, -1 if offset is None else len(offsets)))
        if offset is not None:
            offsets.append(offset)
    bounds = _bounds(state, frame, op)
    tile = state.mapped_type(op.tile.type)
    guarded, inside = _guards(state, frame, op, offsets, indices) if private else (op.guarded_dimensions, [])
    if copy is not None:  # what is past the contracted axis's end is 0 there
        base, guarded = copy.buffer, [*map(copy.order.index, guarded)]
        bounds.pop(copy.axis, None)
    written = None if op.mask is None else value_in(state, frame, op.mask)
    active = both(frame, [written, active_mask(state, frame, op, tile)])
    mask = both(frame, [active, *(broadcast_mask(frame, one, tile) for one in inside)])
    value = [value_in(state, frame, op.value)] if isinstance(op, WriteOp) else []
    expected = [] if not isinstance(op, FetchOp) or op.expected is None else [value_in(state, frame, op.expected)]
    segments = [*([len(expected)] if isinstance(op, FetchOp) else []), *([1] * len(value))]
    properties: dict[str, Attribute] = {
        **op.properties,
        "index": ArrayAttr([*first, *indices]),
        "within": ArrayAttr(StringAttr(axis) for axis in bounds),
        "guarded": DenseArrayBase.from_list(i64, [len(first) + dimension for dimension in guarded]),
        "operandSegmentSizes": DenseArrayBase.from_list(
            IntegerType(32), [*segments, 1, len(offsets), len(bounds), int(mask is not None)]
        ),
    }
    is_streamed = isinstance(op.base.type, TensorArgumentType) and op.base.name_hint in state.plan.streams
    if isinstance(op, StoreOp) and op.atomic is None and is_streamed:
        properties["streaming"] = UnitAttr()
    in_scratchpad = private and op.base not in state.lasting
    if state.plan.descriptors and mask is None and is_described(state, op, bounds):
        properties["described"] = UnitAttr()
    if isinstance(op, WriteOp) and op.atomic is not None and (in_scratchpad or op.base in state.exclusive):
        properties["exclusive"] = UnitAttr()
    made = type(op).create(
        operands=[*expected, *value, base, *offsets, *bounds.values(), *([] if mask is None else [mask])],
        properties=properties,
        attributes=op.attributes,
        result_types=[tile] if op.results else [],
        location=op.location,
    )
    if writes:
        _add_store(state, frame, made, op)
    else:
        frame.add_for(op.results, made)


def _guards(
    state: MappingState, frame: LoopFrame, op: AccessOp, offsets: list[SSAValue], indices: list[IndexAttr]
) -> tuple[list[int], list[SSAValue]]:
    """The guarded dimensions of a scratchpad, and masks for those that are longer than the author declared."""
    assert isinstance(op.base.type, ScratchType)
    guarded: list[int] = []
    masks: list[SSAValue] = []
    for dimension in op.guarded_dimensions:
        axis = state.axes[str(op.base.type.shape[dimension])]
        if axis.is_tile:
            continue  # indexed by the axis itself, so within
        guarded.append(dimension)
        if (axis.known is None and not axis.exact) or axis.known != axis.capacity:
            index = _index_value(state, frame, indices[dimension], offsets)
            extent = value_in(state, frame, axis.extent) if axis.known is None else frame.number(axis.known)
            masks.append(frame.add(arith.CmpiOp(index, broadcast(frame, extent, index.type), "slt")))
    return guarded, masks


def _index_value(state: MappingState, frame: LoopFrame, index: IndexAttr, offsets: list[SSAValue]) -> SSAValue:
    """A dimension's index as a value: a scalar, or a tile with the axes that it names."""
    offset = offsets[index.offset.data] if index.offset.data >= 0 else frame.number(0)
    axes = dict.fromkeys([*axes_of(offset), *(axis for axis, _ in index.terms)])
    type_ = state.tile_type(i64, [*axes])
    total = broadcast(frame, _as_i64(frame, offset), type_)
    for axis, coefficient in index.terms:
        term = broadcast(frame, frame.add(PositionOp(axis, state.axes[axis].size)), type_)
        if coefficient != 1:
            term = frame.make(arith.MuliOp, term, broadcast(frame, frame.number(coefficient), type_))
        total = frame.make(arith.AddiOp, total, term)
    return total


def _as_i64(frame: LoopFrame, value: SSAValue) -> SSAValue:
    wide = tile_type(i64, axes_of(value), sizes_of(value).values())
    return value if value.type == wide else frame.make(arith.ExtSIOp, value, type_=wide)


def _add_store(state: MappingState, frame: LoopFrame, made: AccessOp, op: AccessOp) -> None:
    """Append a store. Only the first program along each tile axis that a tensor's store lacks makes it."""
    lacking = [
        axis
        for axis in state.coordinates
        if isinstance(op.base.type, TensorArgumentType) and axis not in axes_of(op.tile)
        if not (state.axes[axis].is_tile and state.axes[axis].has_one_program)
    ]
    if not lacking:
        frame.add_for(op.results, made)
        return
    if op.results:
        name = lacking[0]
        raise PlanError(
            f"an atomic whose result is used lacks axis `{name}`: one of the programs along it would know the result",
            place_of(op),
            help=f"Give the value the axis: `vk.full(({name},), 1)` has an update for each position of `{name}`.",
        )
    firsts = [frame.add(arith.CmpiOp(state.coordinates[axis], frame.number(0), "eq")) for axis in lacking]
    regions = [Region(Block([made, scf.YieldOp.create()])), Region()]
    frame.block.add_op(scf.IfOp.create(operands=[joined(frame, firsts)], regions=regions, location=op.location))


def _offset(state: MappingState, frame: LoopFrame, op: AccessOp, dimension: int, private: bool) -> SSAValue | None:
    written = op.offset_of(dimension)
    offset = None if written is None else value_in(state, frame, written)
    for axis, coefficient in op.index.data[dimension].terms:
        at = frame.holding(axis)
        base = at.spans[axis].base
        if base is None or (private and state.axes[axis].is_tile):
            continue
        if coefficient != 1:
            base = at.combined(arith.MuliOp, base, at.number(coefficient))
        if offset is not None and isinstance(offset.type, TensorType):
            offset = _as_i64(frame, offset)
            offset = frame.make(arith.AddiOp, offset, broadcast(frame, base, offset.type))
        else:
            offset = base if offset is None else frame.combined(arith.AddiOp, offset, base)
    return offset


def _bounds(state: MappingState, frame: LoopFrame, op: AccessOp) -> dict[str, SSAValue]:
    counts = {axis: frame.span(axis).count for axis in axes_of(op.tile)}
    bounds = {axis: count for axis, count in counts.items() if count is not None}
    for axis, written in op.bounds.items():
        count = from_start(state, frame, axis, written)
        bounds[axis] = count if axis not in bounds else frame.combined(arith.MinSIOp, count, bounds[axis])
    return bounds


def from_start(state: MappingState, frame: LoopFrame, axis: str, bound: SSAValue) -> SSAValue:
    """A bound of positions along an axis, counted from where the frame's part of the axis starts."""
    count, base = value_in(state, frame, bound), frame.span(axis).base
    return count if base is None else frame.combined(arith.SubiOp, count, base)
