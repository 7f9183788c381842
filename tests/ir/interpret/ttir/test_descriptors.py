"""Descriptors in the interpreter of TTIR: what is out of bounds, what hardware refuses, and what it does not order."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import f16, f32, i64

from vkernels.ir.dialect import arith, tt
from vkernels.ir.errors import CheckError

from .modules import Kernel, pointer


def rows(count: int, columns: int, dtype: type = np.float32, shift: int = 0) -> np.ndarray:
    """Numbers from 1, at an address that is a multiple of 64 bytes plus a shift."""
    block = np.zeros(count * columns * np.dtype(dtype).itemsize + 128, np.uint8)
    start = -block.ctypes.data % 64 + shift
    made = block[start : start + count * columns * np.dtype(dtype).itemsize].view(dtype).reshape(count, columns)
    made[...] = np.arange(1, made.size + 1).reshape(made.shape)
    return made


def describe(k: Kernel, base: int, sizes: Sequence[int], strides: Sequence[int], box: Sequence[int]):
    numbers = [k.number(size) for size in sizes]
    steps = [k.number(stride, i64) for stride in strides]
    return k.do(tt.MakeTensorDescriptorOp(k.arguments[base], numbers, steps, box))


@pytest.mark.parametrize("first", [(0, 0), (3, 4), (-2, -5), (4, 0), (100, -100)])
def test_loads_are_0_outside_of_the_tensor_and_stores_leave_out_what_is_there(first):
    x, out = rows(5, 12), rows(5, 12)
    k = Kernel(pointer(f32), pointer(f32))
    source, target = (describe(k, n, (5, 10), (12, 1), (4, 8)) for n in range(2))
    places = [k.number(n) for n in first]
    tile = k.do(tt.DescriptorLoadOp(source, places))
    k.do(tt.DescriptorStoreOp(target, k.do(arith.AddfOp(tile, tile)), places))
    expected = rows(5, 12)
    inside = [slice(max(0, min(start, end)), max(0, min(end, start + size)))
              for start, size, end in zip(first, (4, 8), (5, 10), strict=True)]  # fmt: skip
    expected[tuple(inside)] *= 2
    k.run(x, out)
    np.testing.assert_array_equal(out, expected)


def test_what_is_loaded_out_of_bounds_is_0():
    k = Kernel(pointer(f32), pointer(f32))
    source, target = describe(k, 0, (3, 4), (4, 1), (4, 4)), describe(k, 1, (4, 4), (4, 1), (4, 4))
    zero, one = k.number(0), k.number(1)
    k.do(tt.DescriptorStoreOp(target, k.do(tt.DescriptorLoadOp(source, [one, one])), [zero, zero]))
    x, out = rows(3, 4), rows(4, 4)
    k.run(x, out)
    np.testing.assert_array_equal(out, np.pad(x[1:, 1:], ((0, 2), (0, 1))))


REFUSED = {
    "an address off by 4 bytes": ((4, 8), (8, 1), (4, 8), 4, "begins at an address that is no multiple of 16"),
    "no dimension without gaps": ((4, 8), (8, 2), (4, 4), 0, "a last stride of 2"),
    "rows off by 4 bytes": ((4, 8), (9, 1), (4, 4), 0, "strides of (9, 1) elements"),
    "rows backwards": ((4, 8), (-8, 1), (4, 4), 0, "strides of (-8, 1) elements"),
    "an empty tensor": ((0, 8), (8, 1), (4, 4), 0, "sizes (0, 8)"),
    "a long box": ((4, 8), (8, 1), (512, 4), 0, "512 positions along a dimension"),
    "a thin box": ((4, 8), (8, 1), (4, 2), 0, "rows of 8 bytes"),
    "six dimensions": ((1,) * 6, (4,) * 5 + (1,), (1,) * 5 + (4,), 0, "6 dimensions, more than 5"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_no_tensor_map_can_be_is_reported(case):
    sizes, strides, box, shift, words = REFUSED[case]
    k = Kernel(pointer(f32))
    describe(k, 0, sizes, strides, box)
    with pytest.raises(CheckError, match=re.escape(words)):
        k.run(rows(8, 8, shift=shift))


def test_elements_of_two_bytes_need_eight_side_by_side():
    k = Kernel(pointer(f16))
    describe(k, 0, (4, 8), (8, 1), (4, 4))
    with pytest.raises(CheckError, match="rows of 8 bytes"):
        k.run(rows(4, 8, np.float16))


def test_a_tensor_must_hold_what_its_descriptor_says():
    k = Kernel(pointer(f32))
    k.do(tt.DescriptorLoadOp(describe(k, 0, (5, 8), (8, 1), (8, 8)), [k.number(0), k.number(0)]))
    with pytest.raises(CheckError, match=r"tt.descriptor_load reads .* outside its 128 bytes"):
        k.run(rows(4, 8))


@pytest.mark.parametrize("order", ["store, load", "load, store", "store, describe"])
def test_no_barrier_orders_threads_and_descriptors(order):
    k = Kernel(pointer(f32))
    box, zero = describe(k, 0, (4, 8), (8, 1), (4, 8)), k.number(0)
    if order == "store, load":
        k.do(tt.DescriptorStoreOp(box, k.filled(0, f32, 4, 8), [zero, zero]))
        k.barrier()
        k.load(k.arguments[0], k.range(8))
    elif order == "load, store":
        k.do(tt.DescriptorLoadOp(box, [zero, zero]))
        k.barrier()
        k.store(k.arguments[0], k.range(8), k.filled(0, f32, 8))
    else:
        k.store(k.arguments[0], k.range(8), k.filled(0, f32, 8))
        k.barrier()
        k.do(tt.DescriptorLoadOp(box, [zero, zero]))
    with pytest.raises(CheckError, match="also accessed the other way"):
        k.run(rows(4, 8))


def test_elements_that_only_one_way_writes_may_lie_beside_others():
    k = Kernel(pointer(f32))
    box, zero = describe(k, 0, (2, 8), (8, 1), (2, 8)), k.number(0)
    k.do(tt.DescriptorStoreOp(box, k.filled(0, f32, 2, 8), [zero, zero]))
    k.load(k.arguments[0], k.shift(k.range(8), 16))
    k.run(rows(4, 8))
