"""A plain plan for any kernel: always applicable, seldom the fastest."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from xdsl.ir import Operation

from ..cost_model.item_widths import element_bytes
from ..dialect import AccessOp, DotOp, KernelOp, RangeOp, SizeOp, TensorArgumentType, TileOp, WholeOp, axes_of
from ..limits import Limits
from ..plan import Plan
from .bounds import power_above, warps_for

_WIDEST = 8
"""Vector registers that one tile of all axes may fill."""
_TILE = 2048
"""Elements of that tile on a GPU."""


def default_plan(kernel: KernelOp, sizes: Mapping[str, int], limits: Limits) -> Plan:
    """Lanes along the axis that most accesses find side by side; what remains of a few registers goes to the tile axes.

    `sizes` are elements by name. Crossing values are computed again where they can be, else kept in memory.
    """
    operations = list(kernel.body.walk())
    extents = {op.axis.data: _extent(op, sizes) for op in operations if isinstance(op, TileOp | WholeOp)}
    tiles = [op.axis.data for op in operations if isinstance(op, TileOp)]
    lanes = _lane_axis(operations, tiles, extents)
    ragged, on_gpu = _ragged_axes(operations), limits.warp > 1
    width = limits.register_bytes // element_bytes(kernel)
    room = _TILE if on_gpu else _WIDEST * width
    chosen = dict.fromkeys(extents, 1)
    if lanes is not None:  # most of a tile's elements; on a GPU all sizes are powers of two
        chosen[lanes] = min(room // 2, power_above(extents[lanes]) if on_gpu else -(-extents[lanes] // width) * width)
    for axis in tiles:
        if axis != lanes and axis not in ragged:
            used = math.prod(chosen[a] for a in chosen if a == lanes or a in tiles)
            chosen[axis] = max(1, min(room // used, power_above(extents[axis]) if on_gpu else extents[axis]))
    plan = Plan(
        tiles={axis: chosen[axis] for axis in tiles},
        chunks={axis: chosen[axis] for axis in extents if axis not in tiles},
        lanes=lanes,
    )
    return replace(plan, warps=warps_for(math.prod(chosen.values()), limits)) if on_gpu else plan


def _extent(op: TileOp | WholeOp, sizes: Mapping[str, int]) -> int:
    """The axis's length if it is one of the call's sizes, else a guess; only tile sizes depend on it."""
    owner = op.extent.owner
    return max(1, sizes[owner.size.data]) if isinstance(owner, SizeOp) else 64


def _lane_axis(operations: list[Operation], tiles: list[str], extents: Mapping[str, int]) -> str | None:
    votes: Counter[str] = Counter()
    for op in operations:
        if isinstance(op, AccessOp) and isinstance(op.base.type, TensorArgumentType) and len(op.index):
            votes.update(axis for axis, coefficient in op.index.data[-1].terms if coefficient == 1)
    for op in operations:
        if isinstance(op, DotOp):  # the contracted axis runs through scalars of one operand
            votes[op.axis.data] -= 2
    for axis in _ragged_axes(operations):
        votes[axis] -= 1
    if not extents:
        return None
    return max(extents, key=lambda axis: (votes[axis], extents[axis] > 1, axis not in tiles))


def _ragged_axes(operations: list[Operation]) -> set[str]:
    return {axis for op in operations if isinstance(op, RangeOp) for axis in axes_of(op.start)}
