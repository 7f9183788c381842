"""Online forms: a maximum and the sum of exp(x - maximum) along one axis, in one loop over its chunks.

The loop carries the maximum so far and the sum relative to it, which is rescaled whenever the maximum grows (Milakov
and Gimelshein, 2018). A `vk.dot` with such exponentials can be carried in the same way: rescaled like the sum.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from ...dialect import MaxOp, SumOp, arith
from .access import value_in
from .find_online import Online
from .frames import Frame, below, both, broadcast, filled, select
from .work import Work

_INFINITY = float("inf")


# The loop: a maximum without the axis; for each position in a chunk a sum of its own.


def first_values(work: Work, frame: Frame, pair: Online) -> list[SSAValue]:
    """The maximum and the sums of nothing."""
    low = filled(frame, work.mapped_type(pair.maximum.result.type), -_INFINITY)
    return [low, filled(frame, work.mapped_type(pair.total.tile.type), 0)]


def next_values(work: Work, frame: Frame, pair: Online, highest: SSAValue, sums: SSAValue) -> list[SSAValue]:
    """The maximum and the sums with one more chunk."""
    axis, tile = pair.maximum.axis.data, value_in(work, frame, pair.maximum.tile)
    low = filled(frame, tile.type, -_INFINITY)
    mask = below(frame, axis, work.axes[axis].size, tile.type)
    if mask is not None:
        tile = select(frame, mask, tile, low)
    grown = frame.add(MaxOp(tile, axis))
    grown = frame.add(arith.MaximumfOp.create(operands=[highest, grown], result_types=[highest.type]))
    # Relative to -inf, elements of -inf would be NaN although a higher one may follow.
    zero = filled(frame, grown.type, 0)
    base = select(frame, _is_lowest(frame, grown), zero, grown)
    scale = _relative(frame, pair, highest, base)
    made = _relative(frame, pair, tile, broadcast(frame, base, tile.type))
    scaled = frame.add(
        arith.MulfOp.create(operands=[sums, broadcast(frame, scale, sums.type)], result_types=[sums.type])
    )
    return [grown, frame.add(arith.AddfOp.create(operands=[scaled, made], result_types=[sums.type]))]


def last_values(work: Work, frame: Frame, pair: Online, highest: SSAValue, sums: SSAValue) -> list[SSAValue]:
    """The maximum and the sum after the loop. As written, a row of -inf has -inf minus itself: the sum is NaN."""
    axis = work.axes[pair.total.axis.data]
    total = frame.add(SumOp(sums, axis.name))
    nowhere = _is_lowest(frame, highest)
    if axis.known is None:
        some = frame.add(arith.CmpiOp(value_in(work, frame, axis.extent), frame.number(0), "sgt"))
        joined = both(frame, [nowhere, broadcast(frame, some, nowhere.type)])
        assert joined is not None
        nowhere = joined
    if axis.known != 0:
        total = select(frame, nowhere, _relative(frame, pair, highest, highest), total)
    return [highest, total]


def _relative(frame: Frame, pair: Online, value: SSAValue, base: SSAValue) -> SSAValue:
    """exp(value - base), by the kernel's own operations."""
    for op, operands in ((pair.difference, [value, base]), (pair.exponential, None)):
        made = type(op).create(
            operands=operands or [value], properties=op.properties, result_types=[value.type], location=op.location
        )
        value = frame.add(made)
    return value


def _is_lowest(frame: Frame, value: SSAValue) -> SSAValue:
    return frame.add(arith.CmpfOp(value, filled(frame, value.type, -_INFINITY), "oeq"))
