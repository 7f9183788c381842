"""Atomics whose place lacks axes of the value: whole axes are reduced, positions of tile axes meet in one element."""

import numpy as np
import pytest
from jaxtyping import Shaped

import vkernels as vk
from tests.library.on_a_gpu import AMD, NVIDIA, on_a_gpu
from tests.library.reference import fresh_seed

DTYPES = ("float32", "float64", "int32", "int64")


@vk.kernel
def group_sums(x: Shaped[vk.Tensor, "G N C"], out: Shaped[vk.Tensor, "G C"]):
    g, n, c = vk.tile("G"), vk.tile("N"), vk.tile("C")
    vk.atomic_add(out[g, c], x[g, n, c])


@vk.kernel
def channel_sums(x: Shaped[vk.Tensor, "G N C"], out: Shaped[vk.Tensor, "C"]):
    g, n, c = vk.tile("G"), vk.whole("N"), vk.tile("C")
    vk.atomic_add(out[c], x[g, n, c])


@vk.kernel
def largest(x: Shaped[vk.Tensor, "G N C"], out: Shaped[vk.Tensor, "1"]):
    g, n, c = vk.tile("G"), vk.whole("N"), vk.tile("C")
    vk.atomic_max(out[0], x[g, n, c])


@vk.kernel
def smallest(x: Shaped[vk.Tensor, "G N C"], out: Shaped[vk.Tensor, "C 2"]):
    g, n, c = vk.tile("G"), vk.tile("N"), vk.tile("C")
    vk.atomic_min(out[c, 1], x[g, n, c])


def expected_of(kernel, x, out):
    """The result in exact arithmetic: values are small whole numbers."""
    wide = x.astype(np.int64)
    if kernel is group_sums:
        return out + wide.sum(1)
    if kernel is channel_sums:
        return out + wide.sum((0, 1))
    if kernel is largest:
        return np.maximum(out, wide.max())
    return np.stack([out[:, 0], np.minimum(out[:, 1], wide.min((0, 1)))], 1)


def sample(kernel, dtype, seed):
    generator = np.random.default_rng(seed)
    g, n, c = (int(size) for size in generator.integers(1, 70, 3))
    shape = {group_sums: (g, c), channel_sums: (c,), largest: (1,), smallest: (c, 2)}[kernel]
    values = generator.integers(-50, 50, (g, n, c)).astype(dtype), generator.integers(-9, 9, shape).astype(dtype)
    return values


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", [group_sums, channel_sums, largest, smallest], ids=lambda kernel: kernel.name)
def test_positions_combine_in_the_place(kernel, dtype):
    seed = fresh_seed()
    x, out = sample(kernel, dtype, seed)
    expected = expected_of(kernel, x, out)
    with on_a_gpu([NVIDIA, AMD][seed % 2], seed) as gpu:
        for run in (kernel._launcher, kernel.interpret, lambda *given: gpu.run(kernel, given, {})):
            found = out.copy()
            run(x, found)
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("threads", [1, 3])
def test_programs_on_several_threads_lose_no_update(threads):
    before = vk.get_threads()
    vk.set_threads(threads)
    try:
        x = np.ones((5, 4000, 3), np.float32)
        out = np.zeros((5, 3), np.float32)
        group_sums(x, out)
    finally:
        vk.set_threads(before)
    np.testing.assert_array_equal(out, 4000)
