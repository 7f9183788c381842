"""Memory as pointers see it: regions of bytes, with their bounds and the bytes that have been written.

A pointer is an i64: a region's number in the bits from `_NUMBER` up, and below them, counted from the middle, the byte
in the region's allocation. So pointers are plain arrays, and regions are farther apart than any kernel's offsets reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..numbers import Array
from .races import Released, Stamps

_NUMBER = 40
_MIDDLE = 1 << (_NUMBER - 1)
_GRAIN = 16
"""Allocations begin and end at multiples of this many bytes, so that arrays of any element fit over them."""
_POISON = 0xA5


@dataclass(frozen=True, eq=False)
class TensorRegion:
    """An array as an argument, with a name for messages. One that is `write_only` may not be read before it is written.

    The array may be a view of any strides; bytes between its elements are out of bounds.
    """

    array: Array
    name: str = ""
    write_only: bool = False


@dataclass(eq=False)
class RuntimeMemory:
    """Memory that a runtime allocates: a buffer or swap space. It keeps its contents from launch to launch."""

    name: str
    size: int
    bytes: Array = field(init=False, repr=False)
    written: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        whole = np.full(_up(self.size) + 64, _POISON, np.uint8)
        start = -whole.ctypes.data % 64
        self.bytes = whole[start : start + _up(self.size)]
        self.written = np.zeros(_up(self.size), np.bool_)


class Allocation:
    """Bytes that several regions may share, and when each was accessed."""

    def __init__(self, data: Array):
        self.data, self.stamps = data, Stamps(len(data))
        self.released: dict[int, Released] = {}  # by the byte of what atomic updates released
        self._ways: dict[tuple[str, bool], Array] = {}

    def note_way(self, way: str, does: str, cells: Array, width: int) -> Array | None:
        """Note in which way elements of `width` bytes are accessed. Returns which of them the launch has accessed in
        another way, where either access writes; None where it has in no other way."""
        writes = does != "reads"
        noted = self._ways.setdefault((way, writes), np.zeros(len(self.data), np.bool_))
        noted.reshape(-1, width)[cells] = True
        found: Array | None = None
        for (other, wrote), bytes_ in self._ways.items():
            if other != way and (writes or wrote):
                mixed = np.asarray(bytes_.reshape(-1, width)[cells].any(axis=1))
                found = mixed if found is None else np.asarray(found | mixed)
        return found


@dataclass(eq=False)
class Region:
    """The bytes of an allocation from `low` up to `high` that one argument gives access to.

    `valid`: which of them, None for all. `written`: which have been written, None where the caller has written all.
    `slot`: the byte where the slot begins, in which inactive elements may be loaded and stored.
    """

    label: str
    allocation: Allocation
    low: int
    high: int
    valid: Array | None = None
    written: Array | None = None
    writeable: bool = True
    first: int = 0
    """The byte of the first element."""
    slot: int | None = None
    private: bool = False
    """Whether it is one program's own."""

    @classmethod
    def scratchpad(cls, size: int, slot_bytes: int) -> Region:
        """A program's scratchpad of `size` bytes; the last `slot_bytes` are the slot."""
        data, written = np.full(_up(size), _POISON, np.uint8), np.zeros(_up(size), np.bool_)
        slot = size - slot_bytes if slot_bytes else None
        return cls("scratchpad", Allocation(data), 0, size, None, written, slot=slot, private=True)

    @property
    def size(self) -> int:
        return self.high - self.low

    def outside(self, offsets: Array, width: int) -> Array:
        """Which elements of `width` bytes, at byte `offsets`, are not in the region."""
        outside = np.asarray((offsets < self.low) | (offsets > self.high - width))
        if self.valid is not None:
            inside = np.where(outside, self.low, offsets)
            held = np.ones(offsets.shape, np.bool_)
            for byte in range(width):
                held &= self.valid[np.minimum(inside + byte, self.high - 1)]
            outside |= ~held
        return outside

    def unwritten(self, cells: Array, width: int) -> Array | None:
        """Which elements have a byte that has not been written; None where all has."""
        if self.written is None:
            return None
        all_written = int.from_bytes(b"\1" * width, "little")
        return np.asarray(self.written.view(f"u{width}")[cells] != all_written)

    def elements(self, dtype: np.dtype[Any]) -> Array:
        """The allocation as elements."""
        return self.allocation.data.view(dtype)

    def note_written(self, cells: Array, width: int) -> None:
        if self.written is not None:
            self.written.view(f"u{width}")[cells] = int.from_bytes(b"\1" * width, "little")


class AddressSpace:
    """All regions that pointers reach. Arrays that overlap share an allocation."""

    def __init__(self, memories: Sequence[TensorRegion | RuntimeMemory]):
        self._regions: list[Region] = []
        allocations = _allocations([_extent(memory.array) for memory in memories if isinstance(memory, TensorRegion)])
        shared: dict[int, Allocation] = {}
        for memory in memories:
            if isinstance(memory, RuntimeMemory):
                allocation = shared.setdefault(id(memory), Allocation(memory.bytes))
                self._regions.append(Region(memory.name, allocation, 0, memory.size, None, memory.written))
            else:
                self._regions.append(_tensor_region(memory, allocations))

    def pointer(self, number: int) -> np.int64:
        """A pointer to the first element of a region."""
        return np.int64(((number + 1) << _NUMBER) + _MIDDLE + self._regions[number].first)

    def find(self, pointers: Array) -> list[tuple[Region | None, Array, Array]]:
        """The regions that pointers lead to; for each, the numbers of the pointers, and bytes in its allocation."""
        if not pointers.size:
            return []
        numbers = pointers >> _NUMBER
        offsets = (pointers & ((1 << _NUMBER) - 1)) - _MIDDLE
        if numbers.min() == numbers.max():
            return [(self._region(int(numbers[0])), np.arange(len(pointers)), offsets)]
        return [
            (self._region(int(number)), chosen, offsets[chosen])
            for number in np.unique(numbers)
            for chosen in [np.flatnonzero(numbers == number)]
        ]

    def _region(self, number: int) -> Region | None:
        return self._regions[number - 1] if 0 < number <= len(self._regions) else None


def _up(size: int) -> int:
    return -(-size // _GRAIN) * _GRAIN


def _extent(array: Array) -> tuple[int, int]:
    """The addresses from an array's lowest byte up to its end, in whole grains."""
    low, high = np.lib.array_utils.byte_bounds(array)
    return low // _GRAIN * _GRAIN, _up(high)


class _Bytes:
    """Addresses as an array of bytes. Only bytes that belong to an argument are ever accessed."""

    def __init__(self, low: int, high: int):
        self.__array_interface__ = {"data": (low, False), "shape": (high - low,), "typestr": "|u1", "version": 3}


def _allocations(extents: Sequence[tuple[int, int]]) -> list[tuple[int, int, Allocation]]:
    """Overlapping extents joined: (low, high, allocation)."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted(extents):
        if joined and low < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return [(low, high, Allocation(np.asarray(_Bytes(low, high)))) for low, high in joined]


def _tensor_region(tensor: TensorRegion, allocations: Sequence[tuple[int, int, Allocation]]) -> Region:
    array, label = tensor.array, tensor.name
    if not array.size:
        return Region(label, Allocation(np.zeros(0, np.uint8)), 0, 0)
    low, high = np.lib.array_utils.byte_bounds(array)
    start, end, allocation = next(a for a in allocations if a[0] <= low < a[1])
    first = array.ctypes.data - start
    written = np.zeros(end - start, np.bool_) if tensor.write_only else None
    valid = None if high - low == array.nbytes else _held(array, first, end - start)
    return Region(label, allocation, low - start, high - start, valid, written, bool(array.flags.writeable), first)


def _held(array: Array, first: int, size: int) -> Array:
    """Which bytes of an allocation belong to elements of a view whose first element is at byte `first`."""
    offsets = np.full((1,) * array.ndim, first, np.int64)
    for dimension, (count, stride) in enumerate(zip(array.shape, array.strides, strict=True)):
        steps = np.arange(count, dtype=np.int64) * stride
        offsets = offsets + steps.reshape([-1 if d == dimension else 1 for d in range(array.ndim)])
    held = np.zeros(size, np.bool_)
    for byte in range(array.itemsize):
        held[offsets + byte] = True
    return held
