"""Axes of work that has none of the lanes' axes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from xdsl.ir import Operation

from ..cost_model.operation_weights import weight_of
from ..dialect import KernelOp, RangeOp, axes_of


def axes_of_work_beside(
    kernel: KernelOp, lanes: Iterable[str], extents: Mapping[str, int], width: int
) -> tuple[str, ...]:
    """The axes of work that has none of the axes `lanes`, those of the most work first; none where it is little.

    On a CPU such work is done one position after another. It is not little if it takes as long as all other work, which
    takes a register's `width` of positions at once.
    """
    lanes = frozenset(lanes)
    beside, along = defaultdict[frozenset[str], float](float), 0.0
    for op in kernel.walk():
        axes = _axes_of(op)
        work = weight_of(op) * math.prod(extents[axis] for axis in {*axes, *_ranges_around(op)}) if axes else 0.0
        if axes & lanes:
            along += work
        else:
            beside[axes] += work
    if sum(beside.values()) * width < along:
        return ()
    by_axis = defaultdict[str, float](float)
    for axes, work in beside.items():
        for axis in axes:
            by_axis[axis] += work
    return tuple(sorted((axis for axis, work in by_axis.items() if work), key=lambda axis: -by_axis[axis]))


def _axes_of(op: Operation) -> frozenset[str]:
    """The axes along which an operation does something; none for one with operations of its own."""
    return frozenset(axis for value in (*op.operands, *op.results) for axis in axes_of(value) if not op.regions)


def _ranges_around(op: Operation) -> Iterator[str]:
    while (op := op.parent_op()) is not None:  # type: ignore[assignment]
        if isinstance(op, RangeOp):
            yield op.axis.data
