"""How many positions axes have, and how many trips sequential loops make, for the sizes of a call."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..analysis.axes import known_value
from ..analysis.needs.device import UNKNOWN_TRIPS
from ..dialect import AccessOp, KernelOp, RangeOp, TensorArgumentType, TileOp, WholeOp, axes_of
from ..facts import Facts
from .read_accesses import range_axes
from .read_loops import WHILE


def extents_of(kernel: KernelOp, sizes: Mapping[str, int]) -> dict[str, int]:
    """Positions of axes, trips of ranges, by name."""
    facts = Facts(sizes)
    found = {WHILE: UNKNOWN_TRIPS}
    for op in kernel.walk():
        if isinstance(op, TileOp | WholeOp):
            known = known_value(op.extent, facts)
            found[op.axis.data] = UNKNOWN_TRIPS if known is None else max(0, known)
    for op in kernel.walk():
        if isinstance(op, RangeOp):
            start, stop = known_value(op.start, facts), known_value(op.stop, facts)
            known = None if start is None or stop is None else max(0, stop - start)
            found[op.axis.data] = _mean_trips(op, found, sizes) if known is None else known
    return found


def _mean_trips(loop: RangeOp, extents: Mapping[str, int], sizes: Mapping[str, int]) -> int:
    """Mean trips of a loop whose bounds are read from memory, as if all positions' loops together went once
    through a tensor."""
    rows = math.prod(max(1, extents.get(axis, 1)) for axis in axes_of(loop.start))
    for op in loop.walk():
        if isinstance(op, AccessOp) and isinstance(op.base.type, TensorArgumentType):
            for dimension, length in enumerate(op.base.type.shape):
                offset = op.offset_of(dimension)
                if offset is not None and loop.axis.data in range_axes(offset):
                    beside = [extents.get(axis, 1) for axis, _ in op.index.data[dimension].terms]
                    elements = sizes.get(length, 0) if isinstance(length, str) else length
                    return max(1, -(-elements // (rows * max(1, math.prod(beside)))))
    return UNKNOWN_TRIPS
