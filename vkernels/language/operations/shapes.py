"""Creating tiles, and adding, ordering and regrouping their axes."""

from __future__ import annotations

from typing import Any

from vkernels.ir.errors import AxisError, TypeMismatchError

from ..dtypes import DType, complex64, float32
from ..operation import Mistake, operation
from ..values import Axis, ComplexTile, Tile
from .complex_numbers import by_parts
from .current_builder import current_builder
from .kinds import dtype_of


def _axes(axes: Any) -> tuple[Axis, ...]:
    given = axes if isinstance(axes, tuple) else (axes,)
    for axis in given:
        if not isinstance(axis, Axis):
            raise Mistake(TypeMismatchError, "expected axes", "Such as `(i, j)`.", axis)
    if len(set(given)) < len(given):
        raise Mistake(AxisError, "an axis appears twice", culprit=axes)
    return given


def _dtype(dtype: DType | None, like: Any) -> DType | None:
    if like is None:
        return dtype
    if dtype is not None:
        raise Mistake(TypeMismatchError, "a dtype and `like` are both given", "Leave one out.", like)
    return dtype_of(like)


@operation
def full(axes: Any, value: Any, dtype: DType | None = None, like: Any = None) -> Tile:
    """A tile filled with one value: `vk.full((i, j), 1.5, vk.float32)`.

    Its dtype is `dtype`, or else that of the tensor, tile or scratchpad `like`, or else the one that torch would use.
    """
    builder = current_builder()
    dtype = _dtype(dtype, like)
    if dtype is None:
        dtype = complex64 if isinstance(value, complex) else value.dtype if isinstance(value, ComplexTile) else None
    if dtype is None:
        dtype = builder.settled(*builder.meet(builder.operand(value)))
    return builder.full(value, _axes(axes), dtype)  # type: ignore[no-any-return]


@operation
def zeros(axes: Any, dtype: DType | None = None, like: Any = None) -> Tile:
    """A tile of zeros: `vk.zeros((i, j), vk.float32)`.

    Its dtype is `dtype`, or else that of the tensor, tile or scratchpad `like`, or else float32.
    """
    found = _dtype(dtype, like)
    return full(axes, 0, float32 if found is None else found)


@operation
def full_like(x: Any, value: Any) -> Tile:
    """A tile filled with one value, with the axes and dtype of another."""
    tile = x if isinstance(x, ComplexTile) else current_builder().tile(x)
    return current_builder().full(value, tile.axes, tile.dtype)  # type: ignore[no-any-return]


@operation
def zeros_like(x: Any) -> Tile:
    """A tile of zeros with the axes and dtype of another."""
    return full_like(x, 0)


@operation
@by_parts
def broadcast(x: Any, axes: Any) -> Tile:
    """A tile repeated along axes that it lacks; `axes`: all axes of the result, in order."""
    builder = current_builder()
    value = builder.tile(x)
    given = _axes(axes)
    missing = [axis.name for axis in value.axes if axis not in given]
    if missing:
        raise Mistake(
            AxisError,
            f"the tile has the axis `{missing[0]}`, which the result would lack",
            f"Reduce along it, or add `{missing[0]}` to the axes.",
            axes,
        )
    result = builder.broadcast(value, given)
    return Tile(result.ssa, builder.settled(value.dtype, value.weak), given)


@operation
@by_parts
def transpose(x: Any, axes: Any) -> Tile:
    """A tile with its axes in another order; because axes are matched by name, only the layout changes."""
    value = current_builder().tile(x)
    given = _axes(axes)
    if set(given) != set(value.axes):
        raise Mistake(
            AxisError,
            f"the axes are {', '.join(value.names) or 'none'}, in any order",
            "To add axes, use `vk.broadcast`.",
            axes,
        )
    return current_builder().broadcast(value, given)


@operation
@by_parts
def reshape(x: Any, old: Any, new: Any) -> Tile:
    """A tile with the whole axes `old` replaced by `new`, elements in the same order, last axis fastest.

    The number of positions must not change. The tile passes through scratchpad, which ends a phase.
    """
    builder = current_builder()
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
    """The number of positions that axes have together; None if only known at the call."""
    total = 1
    for axis in axes:
        if not isinstance(axis.extent, int):
            return None
        total *= axis.extent
    return total


def _count(axis: Axis) -> Any:
    return axis.extent if isinstance(axis.extent, int) else axis.size
