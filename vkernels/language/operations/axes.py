"""Axes: what a kernel's tiles extend along, and sequential ranges."""

from __future__ import annotations

from typing import Any

from ..current import current
from ..operation import operation
from ..values import Axis, Range, Tile


@operation
def tile(extent: Any) -> Axis:
    """An axis whose positions, 0 up to `extent`, are split over programs: `i = vk.tile("M")`.

    `extent`: a size's name, or an integer. The variable that it is assigned to names the axis.
    """
    return current().declare_axis("tile", extent)


@operation
def whole(extent: Any) -> Axis:
    """An axis that a program holds whole, however long: `j = vk.whole("N")`. Reductions go along whole axes.

    `extent`: a size's name, or an integer. The variable that it is assigned to names the axis.
    """
    return current().declare_axis("whole", extent)


@operation
def range(start: Any, stop: Any = None) -> Range:
    """A sequential loop: `for k in vk.range("K")`, or from `start` up to `stop`.

    Bounds are sizes' names, integers, or tiles of integers, as `vk.range(start[i], start[i + 1])`: then each
    position makes its own number of steps. Variables that the body assigns and that exist before are carried.
    """
    return current().range(None, start) if stop is None else current().range(start, stop)


@operation
def size(name: str) -> Tile:
    """A size of the call by the name that an annotation gives it, int64: `vk.size("N")`."""
    return current().size(name)
