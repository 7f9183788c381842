"""Axes, sequential loops, phases and checks of a kernel."""

from __future__ import annotations

from typing import Any

from vkernels.ir.errors import TypeMismatchError

from ..operation import Mistake, operation
from ..values import Axis, Range, Tile
from .current_builder import current_builder


@operation
def tile(extent: Any) -> Axis:
    """An axis with positions 0 to `extent` - 1, split over programs: `i = vk.tile("M")`.

    `extent`: a size's name, or an integer. The axis has the name of the variable that it is assigned to.
    """
    return current_builder().declare_axis("tile", extent)


@operation
def whole(extent: Any) -> Axis:
    """An axis that belongs to one program as a whole: `j = vk.whole("N")`. Reductions run along whole axes.

    `extent`: a size's name, or an integer. The axis has the name of the variable that it is assigned to.
    """
    return current_builder().declare_axis("whole", extent)


@operation
def range(start: Any, stop: Any = None) -> Range:
    """A sequential loop: `for k in vk.range("K")`, or from `start` up to `stop`.

    Bounds are names of sizes, integers, or tiles of integers: with `vk.range(start[i], start[i + 1])` each position has
    its own number of steps. Variables that exist before the loop and are assigned in its body are carried.
    """
    return current_builder().range(None, start) if stop is None else current_builder().range(start, stop)


@operation
def size(name: str) -> Tile:
    """A size by its name in the annotations, int64: `vk.size("N")`."""
    return current_builder().size(name)


@operation
def phase(name: str | None = None, grid: bool = False) -> None:
    """End the phase: everything before is complete before anything after begins. `name` names the one that begins.

    `grid`: complete in all programs, so that each may read what others wrote: what comes after is a launch of its own,
    with programs along the tile axes that it has. Not in loops or branches.
    """
    if not isinstance(grid, bool):
        raise Mistake(TypeMismatchError, "expected True or False for `grid`", culprit=grid)
    current_builder().boundary(name, grid)


@operation
def print(*values: Any) -> None:
    """Print strings and values if the kernel is interpreted or checked; compiled kernels omit it."""
    shown = [value for value in values if not isinstance(value, str)]
    current_builder().show(" ".join(value for value in values if isinstance(value, str)), shown)


@operation
def device_assert(condition: Any, message: str = "") -> None:
    """Stop with `message` if a condition is false, in interpreted and checked kernels; compiled kernels omit it."""
    if not isinstance(message, str):
        raise Mistake(TypeMismatchError, "expected a message known when building", culprit=message)
    current_builder().require(condition, message)
