"""Reductions and scans along one axis."""

from __future__ import annotations

from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, Block, Region, SSAValue

from vkernels.ir.dialect import ReductionOp, ScanOp, axes_of, tt
from vkernels.ir.dialect.combining import combining, kind_of

from ..common import unsupported
from .state import TtirState


def lower_reduction(state: TtirState, operation: ReductionOp) -> None:
    tile, axis = _tile_and_axis(state, operation)
    state.define(operation.result, reduced(state, tile, axis, kind_of(operation)))


def lower_scan(state: TtirState, operation: ScanOp) -> None:
    tile, axis = _tile_and_axis(state, operation)
    body = _combining(state, tt.element(tile.type), kind_of(operation), tt.ScanReturnOp)
    state.define(operation.result, state.build.result(tt.ScanOp(tile, axis, body)))


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
