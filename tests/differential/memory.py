"""Arrays of any layout in memory of their own, with guarded zones around and between their elements."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from typing import Any

import numpy as np

from .case import Argument, Layout
from .formats import FORMATS, Array

Put = Callable[[Any], Any]
"""Copies a tensor of the CPU to a device."""

ZONE = 256
"""Bytes before and after an array that must stay as they are."""
SIZES = {"bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "bfloat16": 2}


def itemsize(dtype: str) -> int:
    return SIZES.get(dtype) or np.dtype(dtype).itemsize


class Held:
    """One array: its memory, and it as torch or NumPy sees it."""

    def __init__(self, argument: Argument, library: str, values: Array | None, random: np.random.Generator):
        self.argument, self.library = argument, library
        self.size = itemsize(argument.dtype)
        strides, extent = _strides(argument.shape, argument.layout)
        self.strides = strides
        self.first = -sum(
            min(0, stride * max(0, length - 1)) for stride, length in zip(strides, argument.shape, strict=True)
        )
        span = max(1, extent) * self.size
        self.memory, begin = _edged(span) if argument.layout.edge else _zoned(span, argument.layout.shift)
        self.begin = begin + self.first * self.size
        self.memory[:] = random.integers(0, 256, self.memory.size, np.uint8)
        if argument.dtype in FORMATS:
            self.memory[:] = 0xFF  # NaN in every format
        self.there: Any = None
        self.array = self.shifted(0)
        if values is not None:
            self._fill(values)
        self.before = self.memory.copy()

    def shifted(self, elements: int) -> Any:
        """The array; or one like it in the same memory, so many elements further on."""
        if not elements and hasattr(self, "array"):
            return self.array
        shape, name, begin = self.argument.shape, self.argument.dtype, self.begin + elements * self.size
        if self.library == "numpy":
            strides = tuple(each * self.size for each in self.strides)
            return np.ndarray(shape, np.dtype(name), self.memory.data, begin, strides)
        import torch

        if 0 in shape and self.argument.layout.edge:
            return torch.empty(shape, dtype=getattr(torch, name))  # whose address is 0
        if self.there is not None:
            if 0 in shape:
                return self.there.new_empty(shape, dtype=getattr(torch, name))
            begin += self._lead
            bytes_ = self.there[begin : begin + (self.there.numel() - begin) // self.size * self.size]
            return bytes_.view(getattr(torch, name)).as_strided(shape, self.strides)
        count = (self.memory.size - begin) // self.size
        flat = torch.frombuffer(self.memory.data, dtype=getattr(torch, name), count=count, offset=begin)
        return flat.as_strided(shape, self.strides)

    def move(self, put: Put) -> None:
        """Have the array on a device, in memory like this, zones and alignment included."""
        import torch

        room = put(torch.zeros(self.memory.size + 128, dtype=torch.uint8))
        self._lead = (int(self.memory.ctypes.data) - int(room.data_ptr())) % 64
        room[self._lead : self._lead + self.memory.size] = put(torch.from_numpy(self.memory))
        self.there = room
        del self.array
        self.array = self.shifted(0)

    def fetch(self) -> None:
        """Take over what the device's memory holds now."""
        if self.there is not None:
            self.memory[:] = self.there[self._lead : self._lead + self.memory.size].cpu().numpy()

    def _fill(self, values: Array) -> None:
        """`values`: of 1 where an element is seen again and again."""
        steps = self.argument.layout.steps
        once = tuple(slice(0, 1) if step == 0 else slice(None) for step in steps)
        view = self.array[once] if steps else self.array
        if self.library == "numpy":
            with np.errstate(all="ignore"):
                view[...] = values.astype(view.dtype)
            return
        import torch

        name = self.argument.dtype
        if name in FORMATS:
            given = torch.from_numpy(np.ascontiguousarray(values.astype(np.float64)).reshape(values.shape)).to(
                view.dtype
            )
        else:
            given = torch.from_numpy(np.ascontiguousarray(values.astype(np.dtype(name))).reshape(values.shape))
        view.copy_(given)

    def numbers(self) -> Array:
        """What it holds now: floats in float64 (exactly), others as they are."""
        return as_numbers(self.array)

    def is_unchanged(self) -> bool:
        return bool(np.array_equal(self.memory, self.before))

    def is_unchanged_around(self) -> bool:
        """Whether all bytes but those of elements are as they were."""
        now, kind = self.memory.copy(), np.dtype(f"V{self.size}")
        strides = tuple(each * self.size for each in self.strides)
        seen, was = (
            np.ndarray(self.argument.shape, kind, memory.data, self.begin, strides) for memory in (now, self.before)
        )
        seen[...] = was
        return bool(np.array_equal(now, self.before))


def _zoned(span: int, shift: int) -> tuple[Array, int]:
    """Memory with zones around so many bytes, and where they begin: `shift` beyond a multiple of 64."""
    room = np.zeros(2 * ZONE + span + 192, np.uint8)
    begin = ZONE + (-(room.ctypes.data + ZONE) % 64) + shift
    return room[: begin + span + ZONE], begin


def _edged(span: int) -> tuple[Array, int]:
    """Memory whose last so many bytes end where a page begins that must not be touched."""
    room = -(-(span + ZONE) // mmap.PAGESIZE) * mmap.PAGESIZE
    pages = mmap.mmap(-1, room + mmap.PAGESIZE)
    memory = np.frombuffer(pages, np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(memory.ctypes.data + room), ctypes.c_size_t(mmap.PAGESIZE), 0):
        raise OSError(ctypes.get_errno(), "mprotect")
    return memory[:room], room - span


def as_numbers(array: Any) -> Array:
    if isinstance(array, np.ndarray):
        return array.astype(np.float64) if array.dtype.kind == "f" else array.copy()
    array = array.detach().cpu()
    return np.array((array.double() if array.dtype.is_floating_point else array).numpy())


def dtype_name(array: Any) -> str:
    return str(array.dtype).removeprefix("torch.")


def stored_shape(argument: Argument) -> tuple[int, ...]:
    """The argument's shape, but 1 where one element is seen again and again."""
    steps = argument.layout.steps
    return tuple(min(1, length) if step == 0 else length for length, step in zip(argument.shape, steps, strict=True))


def _strides(shape: tuple[int, ...], layout: Layout) -> tuple[tuple[int, ...], int]:
    """Strides and the extent of all, in elements."""
    strides, reach = [0] * len(shape), 1
    for number, at in enumerate(layout.order):
        step = layout.steps[at]
        strides[at] = step * reach
        reach *= max(1, abs(step)) * max(1, shape[at]) if step else 1
        reach += layout.pad if number == 0 else 0
    return tuple(strides), reach
