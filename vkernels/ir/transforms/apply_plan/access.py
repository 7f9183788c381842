"""Values and accesses of a kernel in the frames of its mapped form: offsets, bounds, masks."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerType, StringAttr, TensorType, UnitAttr, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ...dialect import (
    AccessOp,
    IndexAttr,
    PositionOp,
    RangeOp,
    ScatterOp,
    ScratchType,
    StoreOp,
    TensorArgumentType,
    arith,
    axes_of,
    sizes_of,
    tile_type,
)
from .frames import LoopFrame, below, both, broadcast
from .homes import first_indices, load_home
from .mapping_state import MappingState

_I1 = IntegerType(1)


def value_in(state: MappingState, frame: LoopFrame, value: SSAValue) -> SSAValue:
    """What stands for a value of the kernel in a frame: made before, or loaded from its home now."""
    value = state.analysis.source(value)
    found = frame.find(value)
    if found is not None:
        return found
    home = state.schedule.home_of(value)
    if home is None:
        raise KeyError(f"{value} is used before it is computed")
    at = state.target(frame, state.analysis.chunks_of_value(value))
    found = at.values[value] = load_home(state, at, home, value)
    return found


def excess_mask(state: MappingState, frame: LoopFrame, type_: Attribute) -> SSAValue | None:
    """Which elements of a tile are at positions of the kernel; None where all are."""
    return both(frame, [below(frame, axis, state.axes[axis].size, type_) for axis in axes_of(type_)])


def active_mask(state: MappingState, frame: LoopFrame, op: Operation, type_: Attribute) -> SSAValue | None:
    """Which elements of a tile have not finished the ragged ranges around an operation; None outside of any."""
    masks: list[SSAValue | None] = []
    parent = op.parent_op()
    while parent is not None and parent is not state.analysis.kernel:
        if isinstance(parent, RangeOp) and parent.is_ragged and set(axes_of(parent.start)) <= set(axes_of(type_)):
            mask = frame.find_made(("running", parent))
            assert mask is not None
            masks.append(broadcast_mask(frame, mask, type_))
        parent = parent.parent_op()
    return both(frame, masks)


def emit_access(state: MappingState, frame: LoopFrame, op: AccessOp) -> None:
    """A load or store with the starts of its tile's axes added to its offsets, and what is in excess inactive."""
    writes = isinstance(op, StoreOp | ScatterOp)
    private = isinstance(op.base.type, ScratchType)
    base = (frame.find_written(op.base) if writes else None) or value_in(state, frame, op.base)
    offsets, first = first_indices(state, op.base)
    indices: list[IndexAttr] = []
    for dimension, index in enumerate(op.index):
        offset = _offset(state, frame, op, dimension, private)
        indices.append(IndexAttr(index.terms, -1 if offset is None else len(offsets)))
        if offset is not None:
            offsets.append(offset)
    bounds = _bounds(state, frame, op)
    tile = state.mapped_type(op.tile.type)
    guarded, inside = _guards(state, frame, op, offsets, indices) if private else (op.guarded_dimensions, [])
    mask = both(frame, [_mask(state, frame, op, tile), *(broadcast_mask(frame, one, tile) for one in inside)])
    value = [value_in(state, frame, op.value)] if isinstance(op, StoreOp | ScatterOp) else []
    properties: dict[str, Attribute] = {
        **op.properties,
        "index": ArrayAttr([*first, *indices]),
        "within": ArrayAttr(StringAttr(axis) for axis in bounds),
        "guarded": DenseArrayBase.from_list(i64, [len(first) + dimension for dimension in guarded]),
        "operandSegmentSizes": DenseArrayBase.from_list(
            IntegerType(32), [1] * len(value) + [1, len(offsets), len(bounds), int(mask is not None)]
        ),
    }
    if isinstance(op, StoreOp) and op.atomic is None and state.is_streamed(op.base):
        properties["streaming"] = UnitAttr()
    made = type(op).create(
        operands=[*value, base, *offsets, *bounds.values(), *([] if mask is None else [mask])],
        properties=properties,
        attributes=op.attributes,
        result_types=[] if writes else [tile],
        location=op.location,
    )
    if writes:
        _add_store(state, frame, made, op)
    else:
        frame.block.add_op(made)
        made.results[0].name_hint = op.results[0].name_hint
        frame.values[op.results[0]] = made.results[0]


def _guards(
    state: MappingState, frame: LoopFrame, op: AccessOp, offsets: list[SSAValue], indices: list[IndexAttr]
) -> tuple[list[int], list[SSAValue]]:
    """The guarded dimensions of scratchpad, and masks for those that are longer than what the author declared."""
    assert isinstance(op.base.type, ScratchType)
    guarded: list[int] = []
    masks: list[SSAValue] = []
    for dimension in op.guarded_dimensions:
        name = op.base.type.shape[dimension]
        assert isinstance(name, str)
        axis = state.axes[name]
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
    type_ = tile_type(i64, axes, [state.axes[axis].size for axis in axes])
    wide = tile_type(i64, axes_of(offset), sizes_of(offset).values())
    if offset.type != wide:
        offset = frame.add(arith.ExtSIOp(offset, wide))
    total = broadcast(frame, offset, type_)
    for axis, coefficient in index.terms:
        position = frame.add(PositionOp(axis, state.axes[axis].size))
        term = broadcast(frame, position, type_)
        if coefficient != 1:
            scale = broadcast(frame, frame.number(coefficient), type_)
            term = frame.add(arith.MuliOp.create(operands=[term, scale], result_types=[type_]))
        total = frame.add(arith.AddiOp.create(operands=[total, term], result_types=[type_]))
    return total


def broadcast_mask(frame: LoopFrame, mask: SSAValue, tile: Attribute) -> SSAValue:
    """A mask with the axes of a tile."""
    return broadcast(frame, mask, tile_type(_I1, axes_of(tile), sizes_of(tile).values()))


def _add_store(state: MappingState, frame: LoopFrame, made: AccessOp, op: AccessOp) -> None:
    """A store to a tensor that lacks tile axes is made once: by the first program along each of them."""
    missing = [
        axis
        for axis in state.coordinates
        if isinstance(op.base.type, TensorArgumentType) and axis not in axes_of(op.tile)
    ]
    missing = [axis for axis in missing if not state.axes[axis].is_tile or not state.axes[axis].has_one_program]
    if not missing:
        frame.block.add_op(made)
        return
    firsts = [frame.add(arith.CmpiOp(state.coordinates[axis], frame.number(0), "eq")) for axis in missing]
    condition = both(frame, firsts)
    assert condition is not None
    body = Block([made, scf.YieldOp.create()])
    frame.block.add_op(scf.IfOp.create(operands=[condition], regions=[Region(body), Region()], location=op.location))


def _offset(state: MappingState, frame: LoopFrame, op: AccessOp, dimension: int, private: bool) -> SSAValue | None:
    written = op.offset_of(dimension)
    offset = None if written is None else value_in(state, frame, written)
    for axis, coefficient in op.index.data[dimension].terms:
        if private and state.axes[axis].is_tile:
            continue
        base = frame.span(axis).base
        if base is None:
            continue
        if coefficient != 1:
            at = frame.holding(axis)
            base = at.combined(arith.MuliOp, base, at.number(coefficient))
        if offset is not None and isinstance(offset.type, TensorType):
            offset = _offset_tile(frame, offset, base)
        else:
            offset = frame.plus(offset, base)
    return offset


def _offset_tile(frame: LoopFrame, offset: SSAValue, base: SSAValue) -> SSAValue:
    """An index tile plus an i64 scalar."""
    type_ = offset.type
    wide = tile_type(i64, axes_of(type_), sizes_of(type_).values())
    if type_ != wide:
        offset = frame.add(arith.ExtSIOp.create(operands=[offset], result_types=[wide]))
    return frame.add(arith.AddiOp.create(operands=[offset, broadcast(frame, base, wide)], result_types=[wide]))


def _bounds(state: MappingState, frame: LoopFrame, op: AccessOp) -> dict[str, SSAValue]:
    bounds: dict[str, SSAValue] = {}
    for axis in axes_of(op.tile):
        count = frame.span(axis).count
        if count is not None:
            bounds[axis] = count
    for axis, written in op.bounds.items():
        span = frame.span(axis)
        count = value_in(state, frame, written)
        if span.base is not None:
            count = frame.combined(arith.SubiOp, count, span.base)
        bounds[axis] = count if axis not in bounds else frame.combined(arith.MinSIOp, count, bounds[axis])
    return bounds


def _mask(state: MappingState, frame: LoopFrame, op: AccessOp, tile: Attribute) -> SSAValue | None:
    written = None if op.mask is None else value_in(state, frame, op.mask)
    return both(frame, [written, active_mask(state, frame, op, tile)])
