"""Axes of a kernel's tiles, and sequential ranges."""

from __future__ import annotations

from typing import Any

from ..current import current
from ..operation import operation
from ..values import Axis, Range, Tile


@operation
def tile(extent: Any) -> Axis:
    """An axis with positions 0 to `extent` - 1, split over programs: `i = vk.tile("M")`.

    `extent`: a size's name, or an integer. The variable that it is assigned to names the axis.
    """
    return current().declare_axis("tile", extent)


@operation
def whole(extent: Any) -> Axis:
    """An axis that belongs to one program as a whole: `j = vk.whole("N")`. Reductions run along whole axes.

    `extent`: a size's name, or an integer. The variable that it is assigned to names the axis.
    """
    return current().declare_axis("whole", extent)


@operation
def range(start: Any, stop: Any = None) -> Range:
    """A sequential loop: `for k in vk.range("K")`, or from `start` up to `stop`.

    Bounds are names of sizes, integers, or tiles of integers: with `vk.range(start[i], start[i + 1])` each position has
    its own number of steps. Variables that exist before the loop and are assigned in its body are carried.
    """
    return current().range(None, start) if stop is None else current().range(start, stop)


@operation
def size(name: str) -> Tile:
    """A size by its name in the annotations, int64: `vk.size("N")`."""
    return current().size(name)
