"""Checks of index tensors; wrong indices would access memory out of range."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int, Integer

import vkernels.language as vk
from vkernels.ir.errors import ArgumentError

from .arrays import Array, as_rows, as_signed, dtype_name, integers_like
from .replay import expect
from .samples import CPU_ROWS, SampleInputs, entry, random_indices


@vk.kernel
def find_extent(index: Integer[vk.Tensor, "M N"], least: Int[vk.Tensor, "1"], most: Int[vk.Tensor, "1"]):
    one = vk.tile(1)
    i = vk.whole("M")
    j = vk.whole("N")
    number = index[i, j].to(vk.int64)
    least[one] = vk.min(number, axis=(i, j))
    most[one] = vk.max(number, axis=(i, j))


@vk.kernel
def find_fall(
    start: Integer[vk.Tensor, "S"], first: Int[vk.Tensor, "1"], last: Int[vk.Tensor, "1"], falls: Int[vk.Tensor, "1"]
):
    one = vk.tile(1)
    i = vk.whole("S")
    end = vk.size("S") - 1
    # Compared, as a difference could overflow; in int64, where what is 2^63 or more in uint64 falls below 0.
    is_fall = (i < end) & (start[i + 1].to(vk.int64) < start[i].to(vk.int64))
    falls[one] = vk.max(vk.where(is_fall, 1, 0), axis=i)
    first[one] = start[one].to(vk.int64)
    last[one] = start[one + end].to(vk.int64)


def check_starts(function: str, start: Array, values: int, checked: bool, name: str = "start") -> None:
    """Raise `ArgumentError` unless `start` holds starts of segments of the values; `checked`: check elements too."""
    if start.ndim != 1 or start.shape[0] == 0:
        raise ArgumentError(f"{function}: {name} has shape {tuple(start.shape)}, expected one more than segments")
    if not checked or _starts_are_right(start, values):
        return
    start = as_signed(start)
    if bool((start[1:] < start[:-1]).any()):
        raise ArgumentError(f"{function}: {name} falls, expected each segment to end at or after its start")
    least, most = int(start[0]), int(start[-1])
    if least < 0 or most > values:
        raise ArgumentError(f"{function}: {name} holds {least} to {most}, expected 0 to {values}")


def check_indices(function: str, name: str, index: Array, length: int) -> None:
    """Raise `ArgumentError` if an index is not from 0 to `length` - 1."""
    if 0 in index.shape or _all_within(index, length):
        return
    index = as_signed(index)
    least, most = int(index.min()), int(index.max())  # compared as Python integers, which do not overflow
    if least < 0 or most >= length:
        raise ArgumentError(f"{function}: {name} holds {least} to {most}, expected 0 to {length - 1}")


def _starts_are_right(start: Array, values: int) -> bool:
    """Check all in one pass; False also on a GPU, where one program is slow and torch checks instead."""
    if not is_read_here(start):
        return False
    found = integers_like(start, (3,))
    find_fall(start, found[0:1], found[1:2], found[2:3])
    return expect(found, lambda numbers: numbers[2] == 0 and numbers[0] >= 0 and numbers[1] <= values)


def _all_within(index: Array, length: int) -> bool:
    if not is_read_here(index) or index.ndim == 0:
        return False
    found = integers_like(index, (2,))
    find_extent(as_rows(index), found[0:1], found[1:2])
    return expect(found, lambda numbers: numbers[0] >= 0 and numbers[1] < length)


def is_read_here(index: Array) -> bool:
    """Whether one program reads these integers fast: not on a GPU."""
    return not getattr(index, "is_cuda", False) and dtype_name(index) in _INTEGERS


_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


CATALOGUE = (
    entry(
        "indices",
        find_extent,
        {"M": 1, "N": 1 << 20},
        CPU_ROWS,
        "int64",
        samples=SampleInputs(
            arrays=lambda sizes, constants, random: {"index": random_indices(1000, (sizes["M"], sizes["N"]), random)}
        ),
    ),
    entry(
        "indices",
        find_fall,
        {"S": 65537},
        {"S": 65537},
        "int64",
        samples=SampleInputs(
            arrays=lambda sizes, constants, random: {"start": np.sort(random_indices(1 << 20, sizes["S"], random))}
        ),
    ),
)
