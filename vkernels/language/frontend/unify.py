"""Values that meet where control flow does: at the end of a loop's body, after a branch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.ir import Attribute

from ..dtypes import DType, weak_type
from ..values import Affine, Axis, Operand, Tile
from .arithmetic import Arithmetic, is_number, join_axes
from .types import computed_element, type_of


@dataclass(frozen=True)
class VariableShape:
    """What a variable holds: elements of a dtype along axes; `weak` as in `Tile`."""

    dtype: DType
    axes: tuple[Axis, ...]
    weak: bool

    @property
    def type(self) -> Attribute:
        return type_of(computed_element(self.dtype), self.axes)

    def __str__(self) -> str:
        along = f" along {', '.join(axis.name for axis in self.axes)}" if self.axes else ""
        return f"{'a tile of ' if self.axes else 'a scalar '}{self.dtype.name}{along}"


def shape_of(builder: Arithmetic, value: Any) -> VariableShape | None:
    """The shape of a number, tile or index expression; None for what cannot change while a kernel runs."""
    if isinstance(value, Tile):
        return VariableShape(value.dtype, value.axes, value.weak)
    if isinstance(value, Axis):
        return None
    if isinstance(value, Affine) or is_number(value):
        dtype, weak = builder.meet(value if is_number(value) else builder.positions(value))
        axes = () if is_number(value) else tuple(axis for axis, _ in value.terms)
        return VariableShape(dtype, axes, weak)
    return None


def unify(first: VariableShape, second: VariableShape) -> VariableShape | None:
    """The shape that both values can take: all their axes, and the dtype of the one that is not weak.

    None where both have dtypes of their own that differ, or a Python number is of a higher kind than the other.
    """
    axes = join_axes([first.axes, second.axes])
    if first.weak and second.weak:
        return VariableShape(weak_type([first.dtype, second.dtype]), axes, True)
    if first.weak or second.weak:
        weak, strong = (first, second) if first.weak else (second, first)
        rank = ("bool", "int", "float")
        fits = rank.index(weak.dtype.kind) <= rank.index(strong.dtype.kind)
        return VariableShape(strong.dtype, axes, False) if fits else None
    return VariableShape(first.dtype, axes, False) if first.dtype is second.dtype else None


def shaped(builder: Arithmetic, value: Any, shape: VariableShape) -> Tile:
    """A value in a given shape."""
    operand = builder.operand(value)
    tile = builder.broadcast(builder.convert(operand, shape.dtype), shape.axes)
    return Tile(tile.ssa, shape.dtype, shape.axes, shape.weak)


def is_same(first: Any, second: Any) -> bool:
    """Whether two values that are not computed while a kernel runs are the same."""
    if isinstance(first, Operand) or isinstance(second, Operand):
        return first is second
    return type(first) is type(second) and bool(first == second)
