"""Find tensors that share memory: a tensor that a kernel writes must be disjoint from each other one, or the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from vkernels.compiler.arguments import ArrayView, Same
from vkernels.ir.errors import ArgumentError

if TYPE_CHECKING:
    from vkernels.ir.dialect import KernelOp

MAX_SEARCH_STEPS = 100_000
"""Steps that an exact search for a shared element may take."""


def check_written(kernel: str, written: Sequence[str], tensors: Mapping[str, ArrayView]) -> None:
    """Raise `ArgumentError` for a tensor that the kernel writes but may not, or whose elements overlap one another."""
    for name in written:
        view = tensors[name]
        what = f"{kernel}: argument `{name}`"
        if not view.writable:
            raise ArgumentError(
                f"{what}: expected memory that may be written, got a read-only array or a tensor that requires grad"
            )
        if overlaps_itself(view):
            raise ArgumentError(
                f"{what}: it is written, so expected elements at places of their own, got shape {list(view.shape)} "
                f"with strides {list(view.strides)}"
            )


def overlaps_itself(view: ArrayView) -> bool:
    """Whether two elements may have the same address."""
    if view.size <= 1:
        return False
    steps = sorted((abs(stride), length) for length, stride in zip(view.shape, view.strides, strict=True) if length > 1)
    reach = 0
    for stride, length in steps:
        if stride <= reach:
            return True
        reach += stride * (length - 1)
    return False


def same_tensors(kernel: KernelOp, written: Sequence[str], tensors: Mapping[str, ArrayView]) -> Same:
    """The tensors that are the same as a written one, each with the first such one.

    Raises `ArgumentError` where a written tensor overlaps another in part, and where they are the same and the
    kernel would give another result than with memory of their own.
    """
    from vkernels.ir.transforms.merge_tensors import works_in_place

    def works(name: str, other: str) -> bool:
        return works_in_place(kernel, name, other)

    return same_where(kernel.sym_name.data, works, written, tensors)


def same_where(
    kernel: str, works_in_place: Callable[[str, str], bool], written: Sequence[str], tensors: Mapping[str, ArrayView]
) -> Same:
    """`same_tensors`, given the kernel's name and whether it may write one tensor where another one is."""
    same: dict[str, str] = {}
    for name in written:
        for other, view in tensors.items():
            if other == name or not share_memory(tensors[name], view):
                continue
            if not _same(tensors[name], view):
                raise ArgumentError(
                    f"{kernel}: argument `{name}`: it is written, so expected the same memory as "
                    f"`{other}` or none of it, got a part of it"
                )
            if not works_in_place(name, other):
                why = (
                    ", and the kernel writes both: expected memory of its own for each" if other in written
                    else ", whose elements are needed later or at other places than it is written at: expected memory "
                    "of its own"
                )  # fmt: skip
                raise ArgumentError(
                    f"{kernel}: argument `{name}` is the same tensor as `{other}`{why}"
                )  # fmt: skip
            if name not in same:
                same.setdefault(other, name)
    return tuple(sorted(same.items()))


def _same(one: ArrayView, other: ArrayView) -> bool:
    return (one.address, one.dtype, one.shape) == (other.address, other.dtype, other.shape) and all(
        length <= 1 or a == b for length, a, b in zip(one.shape, one.strides, other.strides, strict=True)
    )


def share_memory(one: ArrayView, other: ArrayView) -> bool:
    """Whether some byte belongs to both; True too where finding out would take too long."""
    (low, high), (other_low, other_high) = one.reach, other.reach
    difference = other.address - one.address
    if low == high or other_low == other_high or high <= difference + other_low or difference + other_high <= low:
        return False
    try:
        return bool(np.shares_memory(_bytes_of(one), _bytes_of(other), max_work=MAX_SEARCH_STEPS))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _bytes_of(view: ArrayView) -> np.ndarray[Any, Any]:
    """A NumPy array with the view's addresses. Its elements are not read."""
    interface = {
        "data": (view.address, True),
        "shape": view.shape,
        "strides": tuple(stride * view.itemsize for stride in view.strides),
        "typestr": f"|V{view.itemsize}",
        "version": 3,
    }
    return np.asarray(SimpleNamespace(__array_interface__=interface))
