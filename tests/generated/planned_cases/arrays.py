"""Arrays in memory of any layout, and what lies around them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.ir.interpret.ttir.library import NAMES
from vkernels.compiler.arguments import ArrayView
from vkernels.runtime.arrays import numpy_address

Array = np.ndarray[Any, Any]
_GRAIN = 64
_POISON = 0xFB


def laid_out(choose: random.Random, values: Array, written: bool = False) -> Array:
    """The same elements in memory of their own: in any order of dimensions, with steps, backwards, off any boundary.

    Dimensions along which all elements are the same may have a stride of 0, unless it is `written`.
    """
    plain = choose.random() < 0.5
    count = values.ndim
    order = list(range(count)) if plain else choose.sample(range(count), count)
    strides, reach = [0] * count, 1
    for number in reversed(order):
        length = values.shape[number]
        repeats = choose.random() < 0.7 and not plain and not written and length > 1 and _is_repeated(values, number)
        if repeats:
            continue
        step = 1 if plain else choose.choice([1, 1, 1, 1, 2, 3])
        strides[number] = reach * step
        reach = reach * step * max(1, length) + (0 if plain else choose.choice([0, 0, 0, 1, 3, 16]))
    backwards = [not plain and choose.random() < 0.1 and length > 1 for length in values.shape]
    start = choose.choice([0, 0, 1, 8]) + sum(
        stride * (length - 1) for stride, length, back in zip(strides, values.shape, backwards, strict=True) if back
    )
    strides = [-stride if back else stride for stride, back in zip(strides, backwards, strict=True)]
    held = start + sum(max(0, stride) * (n - 1) for stride, n in zip(strides, values.shape, strict=True) if n) + 17
    base = aligned(held * values.itemsize).view(values.dtype)
    width = values.itemsize
    if values.shape and (values.shape[-1] == 1 or not values.size):
        strides[-1] = 1  # as the runtime gives what nobody sees
    array: Array = np.ndarray(values.shape, values.dtype, base, start * width, [s * width for s in strides])
    if not written:
        array[...] = values
    return array


def _is_repeated(values: Array, dimension: int) -> bool:
    first = np.broadcast_to(np.take(values, [0], dimension), values.shape)
    return first.tobytes() == values.tobytes()


def aligned(size: int, byte: int = _POISON) -> Array:
    """Bytes at a 64-byte boundary, all the same, that own their memory as NumPy sees it."""
    whole = np.full(size + _GRAIN, byte, np.uint8)
    start = -numpy_address(whole) % _GRAIN
    return whole[start : start + size]


def view_of(array: Array) -> ArrayView:
    """As the runtime sees it; uint16 is bf16."""
    name = NAMES.get(array.dtype.type, array.dtype.name)
    strides = tuple(stride // array.itemsize for stride in array.strides)
    return ArrayView(name, array.itemsize, array.shape, strides, numpy_address(array), array.flags.writeable)


def views_of(arguments: Mapping[str, Any]) -> dict[str, ArrayView]:
    return {name: view_of(value) for name, value in arguments.items() if isinstance(value, np.ndarray)}


def whole_memory(array: Array) -> Array:
    """All the bytes that an array lies in."""
    base = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    return base.reshape(-1).view(np.uint8)


def around(array: Array) -> bytes:
    """What lies between and beside an array's elements."""
    whole = whole_memory(array)
    copy = whole.copy()
    start = numpy_address(array) - numpy_address(whole)
    np.ndarray(array.shape, array.dtype, copy, start, array.strides)[...] = 0
    return copy.tobytes()
