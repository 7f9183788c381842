"""The order of programs in groups: several along the second-fastest tile axis run before the fastest axis advances."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from ...dialect import arith
from ...errors import PlanError
from .frames import LoopFrame
from .planned_kernel import PlannedKernel


def check_swizzle(planned: PlannedKernel) -> None:
    """Raise `PlanError` for groups of programs in a kernel with fewer than two tile axes, or with a split axis."""
    swizzle = planned.plan.swizzle
    if swizzle == 1:
        return
    if swizzle < 1:
        raise PlanError(f"the plan's swizzle is {swizzle}: expected a whole number of at least 1")
    if sum(axis.is_tile for axis in planned.axes.values()) < 2:
        raise PlanError(f"the plan's swizzle is {swizzle}: it orders programs along two tile axes, and there are fewer")
    if planned.split_axis is not None:
        raise PlanError(
            f"the plan's swizzle is {swizzle}, and it splits axis {planned.split_axis.name} over programs:"
            " not both at once yet",
            about=planned.split_axis.name,
        )


def swizzled(
    frame: LoopFrame, swizzle: int, coordinates: Sequence[SSAValue], grid: Sequence[SSAValue]
) -> list[SSAValue]:
    """The coordinates at which a program works, the last two of them reordered within groups of rows.

    A permutation of the grid: programs (m, n) of `swizzle` rows m, the last group's of those that are left, count
    along m first. With 1 nothing is emitted.
    """
    if swizzle == 1:
        return [*coordinates]
    *others, m, n = coordinates
    *_, rows, columns = grid
    size = frame.number(swizzle)
    first = frame.combined(arith.MuliOp, frame.combined(arith.FloorDivSIOp, m, size), size)
    height = frame.combined(arith.MinSIOp, frame.combined(arith.SubiOp, rows, first), size)
    before = frame.combined(arith.MuliOp, frame.combined(arith.SubiOp, m, first), columns)
    within = frame.combined(arith.AddiOp, before, n)
    column = frame.combined(arith.FloorDivSIOp, within, height)
    row = frame.combined(arith.SubiOp, within, frame.combined(arith.MuliOp, column, height))
    return [*others, frame.combined(arith.AddiOp, first, row), column]
