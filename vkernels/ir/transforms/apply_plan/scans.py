"""Emit scans chunk by chunk: each continues from the value that the chunk before has reached."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Operation, SSAValue

from ...dialect import LastOp, ScanByOp, ScanOp, arith, axes_of, element_of, sizes_of, tile_type
from ...dialect.combining import REDUCTION_OF, kind_of, neutral_of
from ...dialect.scans import body_operations, scans_along
from .access import value_in
from .frames import LoopFrame, broadcast, combine, filled
from .mapping_state import MappingState


def scanned_along(axis: str, items: Sequence[Operation]) -> list[SSAValue]:
    """The results of scans along an axis, in order."""
    return [result for item in items if scans_along(item, axis) for result in item.results]


def first_carries(state: MappingState, frame: LoopFrame, results: Sequence[SSAValue]) -> list[SSAValue]:
    """The initial values of scans, by their results: tiles without the scanned axis."""
    return [state.begins[each] if each in state.begins else _first(state, frame, each) for each in results]


def _first(state: MappingState, frame: LoopFrame, result: SSAValue) -> SSAValue:
    op = result.owner
    assert isinstance(op, ScanOp | ScanByOp), "a scan's result"
    type_ = state.tile_type(element_of(result), [axis for axis in axes_of(result) if axis != op.axis.data])
    if isinstance(op, ScanOp):
        return filled(frame, type_, neutral_of(op, element_of(type_)))
    return broadcast(frame, value_in(state, frame, op.initial[op.results.index(result)]), type_)


def emit_scan(state: MappingState, frame: LoopFrame, op: ScanOp | ScanByOp) -> None:
    """Emit a scan of this chunk, continuing from the chunk before."""
    if isinstance(op, ScanByOp):
        _emit_scan_by(state, frame, op)
        return
    carry = frame.carries[op.result]
    tile = value_in(state, frame, op.tile)
    made = frame.add(
        ScanOp.create(operands=[tile], properties=op.properties, result_types=[tile.type], location=op.location)
    )
    result = combine(frame, op, broadcast(frame, carry, tile.type), made)
    result.name_hint = op.result.name_hint
    frame.values[op.result] = result
    reached = frame.add(REDUCTION_OF[kind_of(op)](tile, op.axis.data))
    frame.carries[op.result] = combine(frame, op, carry, reached)


def _emit_scan_by(state: MappingState, frame: LoopFrame, op: ScanByOp) -> None:
    """A chunk of one position needs no scan, and is combined without its axis."""
    axis = op.axis.data
    carries = [frame.carries[result] for result in op.results]
    tiles = [value_in(state, frame, tile) for tile in op.tiles]
    if state.axes[axis].size == 1:
        reached = combined_by(frame, op, carries, [last_along(frame, tile, axis) for tile in tiles])
        results = [broadcast(frame, each, tile.type) for each, tile in zip(reached, tiles, strict=True)]
    else:
        scanned = scanned_chunk(frame, op, tiles)
        before = [broadcast(frame, carry, tile.type) for carry, tile in zip(carries, tiles, strict=True)]
        results = combined_by(frame, op, before, scanned)
        reached = [last_along(frame, each, axis) for each in results]
    for old, new, last in zip(op.results, results, reached, strict=True):
        new.name_hint = old.name_hint
        frame.values[old], frame.carries[old] = new, last


def scanned_chunk(frame: LoopFrame, op: ScanByOp, tiles: Sequence[SSAValue]) -> Sequence[SSAValue]:
    """Add the scan of tiles alone; its results."""
    made = ScanByOp(tiles, [], op.axis.data, op.body.clone())
    made.location = op.location
    frame.add(made)
    return made.results


def last_along(frame: LoopFrame, tile: SSAValue, axis: str) -> SSAValue:
    """The last element of a tile along an axis."""
    return frame.add(LastOp(tile, axis))


def combined_by(
    frame: LoopFrame, op: ScanByOp, before: Sequence[SSAValue], after: Sequence[SSAValue]
) -> list[SSAValue]:
    """Tiles or scalars combined elementwise by the body of a scan."""
    values: dict[SSAValue, SSAValue] = dict(zip(op.body.block.args, (*before, *after), strict=True))
    axes, sizes = axes_of(after[0]), sizes_of(after[0]).values()
    for inner in body_operations(op):
        type_ = tile_type(element_of(inner.results[0]), axes, sizes)
        if isinstance(inner, arith.ConstantOp):
            assert isinstance(inner.value, IntegerAttr | FloatAttr), "the body is of scalars"
            values[inner.result] = filled(frame, type_, inner.value.value.data)
            continue
        operands = [values[operand] for operand in inner.operands]
        values[inner.results[0]] = frame.add(
            type(inner).create(
                operands=operands, result_types=[type_], properties=inner.properties,
                attributes=inner.attributes, location=inner.location,
            )
        )  # fmt: skip
    end = op.body.block.last_op
    assert end is not None, "verified"
    return [values[operand] for operand in end.operands]
