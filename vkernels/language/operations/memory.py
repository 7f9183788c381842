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
    return current_builder().scratch(axes, dtype)  # type: ignore[no-any-return]


def _place(target: Any) -> SubscriptReference:
    if isinstance(target, SubscriptReference):
        return target
    raise Mistake(TypeMismatchError, "expected a place in a tensor", "Such as `total[i]`.", target)


@place_operation
def load(source: Any, where: Any = None, inside: bool = False) -> Tile:
    """`vk.load(x[i, j], where=mask)`: load a tile; elements with a false mask are 0 and not read.

    `inside=True` is the author's promise that all elements that are read are in the tensor, as of index tiles: then no
    index is compared with a size. A checked kernel and the interpreter report a broken promise.
    """
    if not isinstance(inside, bool):
        raise Mistake(TypeMismatchError, "expected `inside` to be True or False", "It is a promise.", inside)
    return current_builder().load(_place(source), where, inside)  # type: ignore[no-any-return]


@place_operation
def store(target: Any, value: Any, where: Any) -> None:
    """`vk.store(out[i, j], value, where=mask)`: store the elements with a true mask."""
    current_builder().store(_place(target), value, mask=where)


@place_operation
def atomic_add(target: Any, value: Any, where: Any = None) -> Any:
    """`vk.atomic_add(total[index[i]], x)`: add atomically to elements of a tensor; the order is unspecified.

    `where`: a mask; elements with a false mask are not updated, and their result is 0. Atomics return what each update
    found: `old = vk.atomic_add(count[0], vk.full((i,), 1))`.
    """
    return _updated(_place(target), value, "add", where)


@place_operation
def atomic_max(target: Any, value: Any, where: Any = None) -> Any:
    """Replace elements atomically by the larger of element and value; return what each update found."""
    return _updated(_place(target), value, "max", where)


@place_operation
def atomic_min(target: Any, value: Any, where: Any = None) -> Any:
    """Replace elements atomically by the smaller of element and value; return what each update found."""
    return _updated(_place(target), value, "min", where)


@place_operation
def atomic_exchange(target: Any, value: Any, where: Any = None) -> Any:
    """Replace elements of a tensor atomically by values; return what each update found."""
    return _fetched(_place(target), value, "exchange", mask=where)


@place_operation
def atomic_cas(target: Any, expected: Any, value: Any, where: Any = None) -> Any:
    """Compare and swap: replace each element that has the bits of `expected` by the value, atomically.

    Returns what each update found: `old = vk.atomic_cas(owner[at], 0, me)` stored `me` where `old` is 0.
    """
    return _fetched(_place(target), value, "compare", expected, where)


def _updated(target: SubscriptReference, value: Any, kind: str, mask: Any) -> Any:
    builder = current_builder()
    if builder.is_result_used:
        return _fetched(target, value, kind, mask=mask)
    return builder.store(target, value, kind, mask)


def _fetched(target: SubscriptReference, value: Any, kind: str, expected: Any = None, mask: Any = None) -> Any:
    """What updates found, through scratchpad: they are done once, however often the result is used."""
    builder = current_builder()
    is_used = builder.is_result_used
    old = builder.fetch(target, value, kind, expected, mask)
    if not is_used:
        builder.boundary(None)
        return None
    found = builder.unnamed_scratch(old.axes, old.dtype, "fetched")
    found[old.axes] = old
    builder.boundary(None)
    return found[old.axes]
