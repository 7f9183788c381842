"""Axes of tiles: made, added, ordered, regrouped."""

from __future__ import annotations

from typing import Any

from vkernels.ir.errors import AxisError, TypeMismatchError

from ..current import Mistake, current
from ..dtypes import DType, float32
from ..operation import operation
from ..values import Axis, Tile


def _axes(axes: Any) -> tuple[Axis, ...]:
    given = axes if isinstance(axes, tuple) else (axes,)
    for axis in given:
        if not isinstance(axis, Axis):
            raise Mistake(TypeMismatchError, "expected axes", "Such as `(i, j)`.", axis)
    if len(set(given)) < len(given):
        raise Mistake(AxisError, "an axis appears twice", culprit=axes)
    return given


@operation
def full(axes: Any, value: Any, dtype: DType | None = None) -> Tile:
    """One value along axes, in `dtype`, or in the dtype that torch would take for the value."""
    builder = current()
    given = builder.operand(value)
    found, weak = builder.meet(given)
    return builder.full(given, _axes(axes), dtype if dtype is not None else builder.settled(found, weak))


@operation
def zeros(axes: Any, dtype: DType = float32) -> Tile:
    """0 along axes: `vk.zeros((i, j), vk.float32)`."""
    return full(axes, 0, dtype)


@operation
def full_like(x: Any, value: Any) -> Tile:
    """One value along the axes of a tile, in its dtype."""
    tile = current().tile(x)
    return current().full(current().operand(value), tile.axes, tile.dtype)


@operation
def zeros_like(x: Any) -> Tile:
    """0 along the axes of a tile, in its dtype."""
    return full_like(x, 0)


@operation
def broadcast(x: Any, axes: Any) -> Tile:
    """A tile repeated along axes that it lacks; `axes` are all of the result's, in order."""
    builder = current()
    value = builder.tile(x)
    given = _axes(axes)
    missing = [axis.name for axis in value.axes if axis not in given]
    if missing:
        message = f"the tile has the axis `{missing[0]}`, which the result would lack"
        raise Mistake(AxisError, message, f"Reduce along it, or add `{missing[0]}` to the axes.", axes)
    result = builder.broadcast(value, given)
    return Tile(result.ssa, builder.settled(value.dtype, value.weak), given)


@operation
def transpose(x: Any, axes: Any) -> Tile:
    """A tile with its axes in another order; since axes are joined by name, only the layout changes."""
    value = current().tile(x)
    given = _axes(axes)
    if set(given) != set(value.axes):
        message = f"the axes are {', '.join(value.names) or 'none'}, in any order"
        raise Mistake(AxisError, message, "To add axes, use `vk.broadcast`.", axes)
    return current().broadcast(value, given)


@operation
def reshape(x: Any, old: Any, new: Any) -> Tile:
    """A tile with the whole axes `old` replaced by the whole axes `new`, elements in the same order, last axis fastest.

    As many positions before as after. The tile passes through scratchpad, and a phase ends.
    """
    builder = current()
    value = builder.tile(x)
    before, after = _axes(old), _axes(new)
    for axis in before:
        builder.whole_axis(value, axis, x)
    for axis in after:
        if axis.kind != "whole" or (axis in value.axes and axis not in before):
            raise Mistake(AxisError, f"`{axis.name}` is not a whole axis that the tile lacks", culprit=new)
    if (counts := (_positions(before), _positions(after)))[0] != counts[1] and None not in counts:
        raise Mistake(AxisError, f"{counts[0]} positions before, {counts[1]} after")
    through = builder.unnamed_scratch(value.axes, value.dtype)
    through[value.axes] = value
    builder.boundary(None)
    linear: Any = after[0]
    for axis in after[1:]:
        linear = linear * _count(axis) + axis
    index: dict[Axis, Any] = {}
    for axis in reversed(before[1:]):
        index[axis] = linear % _count(axis)
        linear = linear // _count(axis)
    index[before[0]] = linear
    return through[tuple(index.get(axis, axis) for axis in value.axes)]


def _positions(axes: tuple[Axis, ...]) -> int | None:
    """How many positions axes have together, None where it is known at the call only."""
    total = 1
    for axis in axes:
        if not isinstance(axis.extent, int):
            return None
        total *= axis.extent
    return total


def _count(axis: Axis) -> Any:
    return axis.extent if isinstance(axis.extent, int) else axis.size
