"""Scratchpad, masked loads and stores, atomics. Plain loads and stores are subscripts: `x[i, j]`, `out[i] = y`."""

from __future__ import annotations

from typing import Any

from vkernels.ir.errors import TypeMismatchError

from ..current import Mistake, current
from ..dtypes import DType
from ..operation import operation, place_operation
from ..values import Reference, Scratch, Tile


@operation
def scratch(axes: Any, dtype: DType) -> Scratch:
    """Virtual scratchpad of a program, as large as its axes: `features = vk.scratch((n, i), vk.float32)`.

    It is stored into and loaded with subscripts, its tile axes indexed by themselves. What has not been stored must
    not be loaded. The variable that it is assigned to names it.
    """
    return current().scratch(axes, dtype)


def _place(target: Any) -> Reference:
    if isinstance(target, Reference):
        return target
    raise Mistake(TypeMismatchError, "expected a place in a tensor", "Such as `total[i]`.", target)


@place_operation
def load(source: Any, where: Any) -> Tile:
    """`vk.load(x[i, j], where=mask)`: the tile at a place; where the mask is false 0, and nothing is read."""
    return current().load(_place(source), where)


@place_operation
def store(target: Any, value: Any, where: Any) -> None:
    """`vk.store(out[i, j], value, where=mask)`: store where the mask holds."""
    current().store(_place(target), value, mask=where)


@place_operation
def atomic_add(target: Any, value: Any) -> None:
    """`vk.atomic_add(total[index[i]], x)`: add to a place at once, whoever else does; the order is free."""
    current().store(_place(target), value, "add")


@place_operation
def atomic_max(target: Any, value: Any) -> None:
    """Replace a place by the larger of it and a value, at once."""
    current().store(_place(target), value, "max")


@place_operation
def atomic_min(target: Any, value: Any) -> None:
    """Replace a place by the smaller of it and a value, at once."""
    current().store(_place(target), value, "min")
