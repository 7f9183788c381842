"""A dot as a step of a loop."""

from __future__ import annotations

from ..analysis.dot_orientation import feeds_dot, prefers_turned
from ..dialect import DotOp, axes_of
from .loops import Axes, LoopStep


def dot_step(op: DotOp, ranges: Axes) -> LoopStep:
    """The step of a `vk.dot` within these sequential loops."""
    left, right = axes_of(op.left), axes_of(op.right)
    axes = tuple(dict.fromkeys((*left, *right)))
    rows = tuple(axis for axis in left if axis not in right)
    columns = tuple(axis for axis in right if axis not in left)
    sides = rows, columns, (op.axis.data,)
    return LoopStep(axes, 1, ranges, sides=sides, turned=prefers_turned(op), is_chained=feeds_dot(op), origin=op)
