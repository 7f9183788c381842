"""Reductions and scans along one axis."""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat, IntegerType, i1
from xdsl.ir import Attribute, Block, Region, SSAValue

from vkernels.ir.dialect import LastOp, MaxOp, ReductionOp, ScanByOp, ScanOp, axes_of, element_of, tt
from vkernels.ir.dialect.combining import combining, kind_of

from ..common import terminator_of, unsupported
from .state import TtirState
from .tiles import along, axes_and_sizes


def lower_reduction(state: TtirState, operation: ReductionOp) -> None:
    tile, axis = _tile_and_axis(state, operation)
    may_ignore_nan = isinstance(operation, MaxOp) and operation.ignores_nan is not None
    kind = "maxnum" if may_ignore_nan else kind_of(operation)
    state.define(operation.result, reduced(state, tile, axis, kind))


def lower_scan(state: TtirState, operation: ScanOp) -> None:
    tile, axis = _tile_and_axis(state, operation)
    body = _combining(state, tt.element(tile.type), kind_of(operation), tt.ScanReturnOp)
    state.define(operation.result, state.build.result(tt.ScanOp([tile], axis, body)))


def lower_scan_by(state: TtirState, operation: ScanByOp) -> None:
    block = Block(arg_types=[element_of(argument) for argument in operation.body.block.args])
    with state.build.region(block):
        for argument, scalar in zip(operation.body.block.args, block.args, strict=True):
            state.define(argument, scalar)
        state.walk(operation.body.block)
        state.build.add(tt.ScanReturnOp(*map(state.value, terminator_of(operation.body.block).operands)))
    axis = axes_of(operation.tiles[0]).index(operation.axis.data)
    made = tt.ScanOp([state.value(tile) for tile in operation.tiles], axis, Region(block))
    state.build.add(made)
    for result, lowered in zip(operation.results, made.results, strict=True):
        state.define(result, lowered)


def lower_last(state: TtirState, operation: LastOp) -> None:
    """The only element, or else the bits of the last one, all others set to 0, summed."""
    build, tile = state.build, state.value(operation.tile)
    axes, sizes = axes_and_sizes(operation.tile.type)
    axis = axes.index(operation.axis.data)
    element = tt.element(tile.type)
    if sizes[axis] == 1 and len(sizes) > 1:
        rest = [size for number, size in enumerate(sizes) if number != axis]
        state.define(operation.result, build.result(tt.ReshapeOp(tile, rest)))
        return
    bits = IntegerType(element.bitwidth) if isinstance(element, AnyFloat) else element
    value = tile if bits == element else build.bitcast(tile, bits)
    is_last = build.compare("eq", build.range(sizes[axis]), sizes[axis] - 1)
    mask = along(build, is_last, [axes[axis]], axes, sizes)
    value = build.select(mask, value, build.filled(0, value.type))
    last = reduced(state, value, axis, "sum")
    state.define(operation.result, last if bits == element else build.bitcast(last, element))


def reduced(state: TtirState, tile: SSAValue, axis: int, kind: str) -> SSAValue:
    """All elements along a dimension combined; a scalar where the tile has no other."""
    body = _combining(state, tt.element(tile.type), kind, tt.ReduceReturnOp)
    return state.build.result(tt.ReduceOp(tile, axis, body))


def _tile_and_axis(state: TtirState, operation: ReductionOp | ScanOp) -> tuple[SSAValue, int]:
    tile = state.value(operation.tile)
    if tt.element(tile.type) == i1:
        raise unsupported(operation, "i1 is not reduced; extend it to an integer first")
    return tile, axes_of(operation.tile).index(operation.axis.data)


def _combining(
    state: TtirState, element: Attribute, kind: str, end: type[tt.ReduceReturnOp] | type[tt.ScanReturnOp]
) -> Region:
    block = Block(arg_types=[element, element])
    with state.build.region(block):
        result = state.build.binary(combining(kind, element), block.args[0], block.args[1])
        state.build.add(end(result))
    return Region(block)
