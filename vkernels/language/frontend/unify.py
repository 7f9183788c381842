"""Unify the values that a variable has at both ends of a loop's body or in both branches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Attribute, SSAValue

from ..dtypes import RANK, DType, weak_type
from ..values import Affine, Axis, ComplexTile, Operand, Tile
from .arithmetic import Arithmetic, is_number, join_axes
from .types import computed_element, type_of


@dataclass(frozen=True)
class VariableShape:
    """The type of a variable: elements of a dtype along axes; `weak` as in `Tile`."""

    dtype: DType
    axes: tuple[Axis, ...]
    weak: bool

    @property
    def type(self) -> Attribute:
        return type_of(computed_element(self.dtype), self.axes)

    def tile(self, ssa: SSAValue) -> Tile:
        """An IR value of this shape as a tile."""
        return Tile(ssa, self.dtype, self.axes, self.weak)

    def __str__(self) -> str:
        along = f" along {', '.join(axis.name for axis in self.axes)}" if self.axes else ""
        return f"{'a tile of ' if self.axes else 'a scalar '}{self.dtype.name}{along}"


def shape_of(builder: Arithmetic, value: Any) -> VariableShape | None:
    """The shape of a number, tile or index expression; None for values that cannot change while a kernel runs."""
    if isinstance(value, Tile):
        return VariableShape(value.dtype, value.axes, value.weak)
    if isinstance(value, Affine) or is_number(value):
        dtype, weak = builder.meet(builder.operand(value))
        axes = tuple(axis for axis, _ in value.terms) if isinstance(value, Affine) else ()
        return VariableShape(dtype, axes, weak)
    return None


_PARTS = (".real", ".imag")


def in_parts(names: Mapping[str, Any]) -> dict[str, Any]:
    """Values by name, with `z.real` and `z.imag` in place of a complex `z`."""
    found: dict[str, Any] = {}
    for name, value in names.items():
        if isinstance(value, ComplexTile):
            found.update({f"{name}{part}": each for part, each in zip(_PARTS, value.parts, strict=True)})
        else:
            found[name] = value
    return found


def joined_parts(names: Mapping[str, Any]) -> dict[str, Any]:
    """Values by name, with a complex `z` in place of `z.real` and `z.imag`."""
    found: dict[str, Any] = {}
    for name, value in names.items():
        owner, dot, part = name.rpartition(".")
        if not dot:
            found[name] = value
        elif part == "real":
            found[owner] = ComplexTile(value, names[f"{owner}.imag"])
    return found


def unify(first: VariableShape, second: VariableShape) -> VariableShape | None:
    """The shape that both values can take: all their axes, and the dtype of the one that is not weak.

    None if both have dtypes of their own that differ, or a Python number is of a higher kind than the other.
    """
    axes = join_axes([first.axes, second.axes])
    if first.weak and second.weak:
        return VariableShape(weak_type([first.dtype, second.dtype]), axes, True)
    if first.weak or second.weak:
        weak, strong = (first, second) if first.weak else (second, first)
        fits = RANK[weak.dtype.kind] <= RANK[strong.dtype.kind]
        return VariableShape(strong.dtype, axes, False) if fits else None
    return VariableShape(first.dtype, axes, False) if first.dtype is second.dtype else None


def shaped(builder: Arithmetic, value: Any, shape: VariableShape) -> Tile:
    """A value in a given shape."""
    operand = builder.operand(value)
    return shape.tile(builder.broadcast(builder.convert(operand, shape.dtype), shape.axes).ssa)


def is_same(first: Any, second: Any) -> bool:
    """Whether two values that are known while building are the same."""
    if isinstance(first, Operand) or isinstance(second, Operand):
        return first is second
    return type(first) is type(second) and bool(first == second)
