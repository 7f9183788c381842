"""Constants, positions along axes, tail masks and broadcasts."""

from __future__ import annotations

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr, i32, i64
from xdsl.ir import SSAValue

from vkernels.ir.dialect import BelowOp, BroadcastOp, InterleaveOp, PositionOp, RepeatOp, arith, sizes_of, tt

from ..common import unsupported
from .builder import Number, TtirBuilder
from .state import TtirState
from .tiles import along, axes_and_sizes, lowered_type


def below(build: TtirBuilder, count: Number, size: int) -> SSAValue:
    """Which of the positions 0, 1, … along an axis are below a count, i64: i1."""
    limit = build.splat(
        build.number(build.integer(arith.MinSIOp, build.integer(arith.MaxSIOp, count, 0), size), i32), [size]
    )
    return build.compare("slt", build.range(size), limit)


def lower_constant(state: TtirState, operation: ConstantOp) -> None:
    """`arith.constant`: a scalar, or the same number in every element."""
    value, type_ = operation.value, lowered_type(operation.result.type, operation)
    if isinstance(value, IntegerAttr | FloatAttr):
        state.define(operation.result, state.build.filled(value.value.data, type_))
    elif isinstance(value, DenseIntOrFPElementsAttr) and len({repr(one) for one in value.get_values()}) == 1:
        state.define(operation.result, state.build.filled(value.get_values()[0], type_))
    else:
        raise unsupported(operation, "a GPU's tile of constants holds one number throughout")


def lower_position(state: TtirState, operation: PositionOp) -> None:
    (size,) = sizes_of(operation.result).values()
    state.define(operation.result, state.build.cast(state.build.range(size), i64))


def lower_below(state: TtirState, operation: BelowOp) -> None:
    (size,) = sizes_of(operation.result).values()
    state.define(operation.result, below(state.build, state.number(operation.count), size))


def lower_broadcast(state: TtirState, operation: BroadcastOp) -> None:
    axes, sizes = axes_and_sizes(operation.result.type)
    source = state.value(operation.source)
    state.define(operation.result, along(state.build, source, axes_and_sizes(operation.source.type)[0], axes, sizes))


def lower_interleave(state: TtirState, operation: InterleaveOp) -> None:
    """Tiles joined two by two: the last pair differs in the lowest bit of the position."""
    tiles = [state.value(tile) for tile in operation.tiles]
    while len(tiles) > 1:
        half = len(tiles) // 2
        tiles = [state.build.pure(tt.JoinOp(*pair)) for pair in zip(tiles[:half], tiles[half:], strict=True)]
    sizes = list(axes_and_sizes(operation.result.type)[1])
    state.define(operation.result, state.build.pure(tt.ReshapeOp(tiles[0], sizes)))


def lower_repeat(state: TtirState, operation: RepeatOp) -> None:
    """Each block's element at all of its positions: a dimension behind the blocks', joined with it."""
    value, sizes = state.value(operation.tile), list(axes_and_sizes(operation.result.type)[1])
    number = axes_and_sizes(operation.tile.type)[0].index(operation.blocks.data)
    blocks = tt.shape(value.type)[number]
    value = state.build.pure(tt.ExpandDimsOp(value, number + 1))
    repeated = [*sizes[:number], blocks, sizes[number] // blocks, *sizes[number + 1 :]]
    value = state.build.pure(tt.BroadcastOp(value, repeated))
    state.define(operation.result, state.build.pure(tt.ReshapeOp(value, sizes)))
