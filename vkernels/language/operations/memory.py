"""Scratchpad, masked loads and stores, atomics. Plain loads and stores are subscripts: `x[i, j]`, `out[i] = y`."""

from __future__ import annotations

from typing import Any

from vkernels.ir.errors import TypeMismatchError

from ..dtypes import DType
from ..operation import Mistake, operation, place_operation
from ..values import Scratch, SubscriptReference, Tile
from .current_builder import current_builder


@operation
def scratch(axes: Any, dtype: DType) -> Scratch:
    """A program's virtual scratchpad, of any size: `features = vk.scratch((n, i), vk.float32)`.

    Store and load it with subscripts; index its tile axes by themselves. Store elements before loading them. It has the
    name of the variable that it is assigned to.
    """
    return current_builder().scratch(axes, dtype)


def _place(target: Any) -> SubscriptReference:
    if isinstance(target, SubscriptReference):
        return target
    raise Mistake(TypeMismatchError, "expected a place in a tensor", "Such as `total[i]`.", target)


@place_operation
def load(source: Any, where: Any) -> Tile:
    """`vk.load(x[i, j], where=mask)`: load a tile; elements with a false mask are 0 and not read."""
    return current_builder().load(_place(source), where)


@place_operation
def store(target: Any, value: Any, where: Any) -> None:
    """`vk.store(out[i, j], value, where=mask)`: store the elements with a true mask."""
    current_builder().store(_place(target), value, mask=where)


@place_operation
def atomic_add(target: Any, value: Any) -> None:
    """`vk.atomic_add(total[index[i]], x)`: add atomically to elements of a tensor; the order is unspecified."""
    current_builder().store(_place(target), value, "add")


@place_operation
def atomic_max(target: Any, value: Any) -> None:
    """Replace elements atomically by the larger of element and value."""
    current_builder().store(_place(target), value, "max")


@place_operation
def atomic_min(target: Any, value: Any) -> None:
    """Replace elements atomically by the smaller of element and value."""
    current_builder().store(_place(target), value, "min")
