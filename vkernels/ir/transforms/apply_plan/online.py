"""Online sums: a maximum and the sum of exp(x - maximum) along one axis, in one loop over its chunks.

The loop carries the maximum so far, a base slightly below it and the sum relative to the base (Milakov and Gimelshein,
2018). The base moves up, and the sum is rescaled, only where the maximum exceeds it by more than `SLACK`, because each
rescaling rounds the sum; later rescalings reduce earlier rounding errors.
"""

from __future__ import annotations

from math import prod

from xdsl.dialects import scf
from xdsl.dialects.builtin import UnitAttr, i64
from xdsl.ir import Block, Region, SSAValue

from ...analysis.schedule.find_online import Online
from ...dialect import MaxOp, SumOp, arith, axes_of, sizes_of, tile_type
from ..block_sums.paths import RESCALED_ATTRIBUTE
from .access import value_in
from .frames import LoopFrame, below, broadcast, filled, joined, select
from .mapping_state import MappingState

_INFINITY = float("inf")

SLACK = 8.0
"""How far an element may exceed the base. exp(8) times the largest sum of a length below 2^100 fits in f32."""


# The loop carries a maximum and a base without the axis, and a separate sum for each position in a chunk.


def first_values(state: MappingState, frame: LoopFrame, pair: Online) -> list[SSAValue]:
    """The initial maximum, base and sums."""
    low = filled(frame, state.mapped_type(pair.maximum.result.type), -_INFINITY)
    return [low, low, filled(frame, state.mapped_type(pair.total.tile.type), 0)]


def next_values(
    state: MappingState, frame: LoopFrame, pair: Online, highest: SSAValue, base: SSAValue, sums: SSAValue
) -> list[SSAValue]:
    """The maximum, the base and the sums with one more chunk."""
    axis, tile = pair.maximum.axis.data, value_in(state, frame, pair.maximum.tile)
    low = filled(frame, tile.type, -_INFINITY)
    mask = below(frame, axis, state.axes[axis].size, tile.type)
    if mask is not None:
        tile = select(frame, mask, tile, low)
    grown = frame.make(arith.MaximumfOp, highest, frame.add(MaxOp(tile, axis)))
    most = frame.make(arith.AddfOp, base, filled(frame, base.type, SLACK))
    is_higher = frame.add(arith.CmpfOp(grown, most, "ogt"))
    moved = select(frame, is_higher, grown, base)
    level = _finite(frame, moved, _is_lowest(frame, moved))
    scale = _scale(state, frame, pair, base, level, is_higher)
    made = _relative(frame, pair, tile, broadcast(frame, level, tile.type))
    rescale = arith.MulfOp.create(operands=[sums, broadcast(frame, scale, sums.type)], result_types=[sums.type])
    rescale.attributes[RESCALED_ATTRIBUTE] = UnitAttr()
    return [grown, moved, frame.make(arith.AddfOp, frame.add(rescale), made)]


def _scale(
    state: MappingState, frame: LoopFrame, pair: Online, base: SSAValue, level: SSAValue, is_higher: SSAValue
) -> SSAValue:
    """The factor of the sums. A CPU with a single base computes it only when the base moves."""
    if state.plan.lanes is None or prod(sizes_of(base.type).values()) != 1:
        return _relative(frame, pair, base, level)
    condition = is_higher
    if axes := axes_of(condition.type):
        condition = frame.make(arith.ExtUIOp, condition, type_=tile_type(i64, axes, sizes_of(condition.type).values()))
        for axis in axes:
            condition = frame.add(MaxOp(condition, axis))
        condition = frame.add(arith.CmpiOp(condition, frame.number(0), "ne"))
    higher, other = LoopFrame(Block(), frame), Block()
    higher.block.add_op(scf.YieldOp(_relative(higher, pair, base, level)))
    other.add_op(scf.YieldOp(filled(frame, base.type, 1)))
    return frame.add(scf.IfOp(condition, [base.type], Region(higher.block), Region(other)))


def last_values(
    state: MappingState, frame: LoopFrame, pair: Online, highest: SSAValue, base: SSAValue, sums: SSAValue
) -> list[SSAValue]:
    """The maximum and the sum after the loop. As written, a row of -inf has -inf minus itself: the sum is NaN."""
    axis = state.axes[pair.total.axis.data]
    total = frame.add(SumOp(sums, axis.name))
    nowhere = _is_lowest(frame, highest)
    scale = _relative(frame, pair, base, _finite(frame, highest, nowhere))
    total = frame.make(arith.MulfOp, total, scale)
    if axis.known is None:
        some = frame.add(arith.CmpiOp(value_in(state, frame, axis.extent), frame.number(0), "sgt"))
        nowhere = joined(frame, [nowhere, broadcast(frame, some, nowhere.type)])
    if axis.known != 0:
        total = select(frame, nowhere, _relative(frame, pair, highest, highest), total)
    return [highest, total]


def _finite(frame: LoopFrame, level: SSAValue, is_lowest: SSAValue) -> SSAValue:
    """The base of the differences: 0 instead of -inf, which would give NaN although a higher element may follow."""
    return select(frame, is_lowest, filled(frame, level.type, 0), level)


def _relative(frame: LoopFrame, pair: Online, value: SSAValue, base: SSAValue) -> SSAValue:
    """exp(value - base), by the kernel's own operations."""
    operands = [value, base]
    for op in (pair.difference, pair.exponential):
        made = type(op).create(
            operands=operands, properties=op.properties, result_types=[value.type], location=op.location
        )
        operands = [frame.add(made)]
    return operands[0]


def _is_lowest(frame: LoopFrame, value: SSAValue) -> SSAValue:
    return frame.add(arith.CmpfOp(value, filled(frame, value.type, -_INFINITY), "oeq"))
