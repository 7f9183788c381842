"""How many positions axes have, and how many trips sequential loops make, for the sizes of a call."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations

from xdsl.ir import Operation, SSAValue

from ..analysis.axes import known_value
from ..analysis.needs.device import UNKNOWN_TRIPS
from ..analysis.needs.traffic import yielded
from ..dialect import AccessOp, KernelOp, RangeOp, TensorArgumentType, TileOp, WholeOp, axes_of
from ..facts import Facts
from .index_sums import index_sums
from .read_accesses import range_axes
from .read_loops import WHILE

SEEN_TWICE = 2
"""The part of a tensor that a loop reads whose bounds in memory do not divide it: one of this many."""


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
    """Mean trips of a loop whose bounds are read from memory.

    Bounds that lie side by side (`start[r]` and `start[r + 1]`) divide a tensor among positions: all their loops
    together go once through it. Others may be alike at all positions: half of the tensor each, as where each position
    sees those before it.
    """
    for op in loop.walk():
        if isinstance(op, AccessOp) and isinstance(op.base.type, TensorArgumentType):
            for dimension, length in enumerate(op.base.type.shape):
                offset = op.offset_of(dimension)
                if offset is not None and loop.axis.data in range_axes(offset):
                    beside = [extents.get(axis, 1) for axis, _ in op.index.data[dimension].terms]
                    elements = sizes.get(length, 0) if isinstance(length, str) else length
                    at_once = max(1, math.prod(beside)) * _sharing(loop, extents)
                    return max(1, -(-elements // at_once))
    return UNKNOWN_TRIPS


def _sharing(loop: RangeOp, extents: Mapping[str, int]) -> int:
    """Positions whose loops together go once through what they read."""
    loads = list(_loads_behind(loop.start, loop.stop))
    if loads and not any(_lie_side_by_side(one, other) for one, other in combinations(loads, 2)):
        return SEEN_TWICE
    return _rows(loop, extents)


def _rows(loop: RangeOp, extents: Mapping[str, int]) -> int:
    return math.prod(max(1, extents.get(axis, 1)) for axis in axes_of(loop.start))


def _loads_behind(*values: SSAValue) -> Iterator[AccessOp]:
    """The loads that values are computed from."""
    todo, seen = [*values], set[SSAValue]()
    while todo:
        source = yielded(todo.pop())
        if source not in seen and isinstance(source.owner, Operation):
            seen.add(source)
            if isinstance(source.owner, AccessOp):
                yield source.owner
            else:
                todo += source.owner.operands


def _lie_side_by_side(one: AccessOp, other: AccessOp) -> bool:
    """Whether two loads are of neighbours along an axis."""
    if one.base is not other.base:
        return False
    pairs = [(a, b) for a, b in zip(index_sums(one), index_sums(other), strict=True) if a != b]
    return all(
        a is not None and b is not None and a.positions and a == replace(b, constant=a.constant) for a, b in pairs
    )
