"""`vk.sort`, `vk.argsort` and `vk.topk`: what torch gives, interpreted, on the CPU, and as on a GPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from jaxtyping import Int, Shaped

import vkernels as vk
from tests.library.reference import fresh_seed
from vkernels.compiler.specialise import kernel_in
from vkernels.ir.limits import Limits
from vkernels.ir.planning.choose_plan import choose_plan

from .test_combining import everywhere

SIZES = [1, 2, 3, 8, 37]


@vk.kernel
def ordered(x: Shaped[vk.Tensor, "M N"], out: Shaped[vk.Tensor, "M N"], place: Int[vk.Tensor, "M N"]):
    i, j = vk.tile("M"), vk.whole("N")
    out[i, j] = vk.sort(x[i, j], axis=j)
    place[i, j] = vk.argsort(x[i, j])


@vk.kernel
def turned(x: Shaped[vk.Tensor, "M N"], out: Shaped[vk.Tensor, "M N"], place: Int[vk.Tensor, "M N"]):
    i, j = vk.tile("M"), vk.whole("N")
    out[i, j] = vk.sort(x[i, j], descending=True)
    place[i, j] = vk.argsort(x[i, j], axis=j, descending=True)


@vk.kernel
def greatest(x: Shaped[vk.Tensor, "M N"], out: Shaped[vk.Tensor, "M K"], place: Int[vk.Tensor, "M K"]):
    i, j, k = vk.tile("M"), vk.whole("N"), vk.whole("K")
    out[i, k], place[i, k] = vk.topk(x[i, j], k, axis=j)


@vk.kernel
def least(x: Shaped[vk.Tensor, "M N"], out: Shaped[vk.Tensor, "M K"], place: Int[vk.Tensor, "M K"]):
    i, j, k = vk.tile("M"), vk.whole("N"), vk.whole("K")
    out[i, k], place[i, k] = vk.topk(x[i, j], k, axis=j, largest=False)


def sample(dtype: str, length: int) -> np.ndarray:
    """Few different values, so that many are equal; floats have both zeros, infinities and NaN."""
    random = np.random.default_rng(fresh_seed())
    if not dtype.startswith("float"):
        return random.integers(0, 9, (5, length)).astype(dtype)
    values = np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, 3.0], dtype)
    return random.choice(values, (5, length))


def expected_of(x: np.ndarray, descending: bool) -> tuple[np.ndarray, np.ndarray]:
    values, places = torch.sort(torch.from_numpy(x.copy()), stable=True, descending=descending)
    return values.numpy(), places.numpy()


@pytest.mark.sample(2)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8", "int16", "float16"])
@pytest.mark.parametrize("length", SIZES)
def test_rows_in_order(length, dtype, descending):
    x = sample(dtype, length)
    values, places = expected_of(x, descending)
    for _, out, place in everywhere(turned if descending else ordered, x, np.full_like(x, 77), np.full(x.shape, -7)):
        np.testing.assert_array_equal(out, values)
        np.testing.assert_array_equal(place, places)


@vk.kernel
def three(x: Shaped[vk.Tensor, "M N"], out: Shaped[vk.Tensor, "M K"], place: Int[vk.Tensor, "M K"]):
    i, j, k = vk.tile("M"), vk.whole("N"), vk.whole(3)
    out[i, k], place[i, k] = vk.topk(x[i, j], k, axis=j)


@vk.kernel
def many(x: Shaped[vk.Tensor, "M N"], out: Shaped[vk.Tensor, "M K"], place: Int[vk.Tensor, "M K"]):
    i, j, k = vk.tile("M"), vk.whole("N"), vk.whole(20)
    out[i, k], place[i, k] = vk.topk(x[i, j], k, axis=j)


@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", ["float32", "uint64", "int8"])
@pytest.mark.parametrize(("kernel", "count"), [(three, 3), (many, 20)])
def test_a_number_that_the_kernel_knows(kernel, count, dtype):
    """Few are found one after another, many by a threshold."""
    x = sample(dtype, 50)
    if dtype == "uint64":
        x += np.uint64(2**64 - 9) * (x % 2)
    order = np.argsort(x.max() - x, axis=1, kind="stable") if dtype == "uint64" else expected_of(x, True)[1]
    for _, out, place in everywhere(kernel, x, np.full((5, count), 77, dtype), np.full((5, count), -7)):
        np.testing.assert_array_equal(place, order[:, :count])
        np.testing.assert_array_equal(out, np.take_along_axis(x, order[:, :count], 1))


@pytest.mark.sample(2)
@pytest.mark.parametrize("kernel", [greatest, least], ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("dtype", ["float32", "int64", "float16"])
@pytest.mark.parametrize(("length", "count"), [(1, 1), (9, 4), (33, 33), (40, 1), (70, 18)])
def test_the_first_in_order(length, count, dtype, kernel):
    x = sample(dtype, length)
    values, places = expected_of(x, descending=kernel is greatest)
    shape = (5, count)
    for _, out, place in everywhere(kernel, x, np.full(shape, 77, dtype), np.full(shape, -7)):
        np.testing.assert_array_equal(out, values[:, :count])
        np.testing.assert_array_equal(place, places[:, :count])


@pytest.mark.parametrize("shape", [(3, 5000), (700, 130), (0, 4), (4, 0)])
def test_longer_rows(shape):
    x = np.random.default_rng(fresh_seed()).normal(size=shape).astype(np.float32)
    out, place = np.full_like(x, np.nan), np.full(shape, -7)
    ordered(x, out, place)
    np.testing.assert_array_equal(out, np.sort(x, 1))
    np.testing.assert_array_equal(place, np.argsort(x, 1, kind="stable"))


def test_gpus_compile_it():
    (made,) = greatest.compile(shapes={"M": 64, "N": 200, "K": 8}, targets=["h100-sxm5-80"], dtype="float32")
    assert made.binaries


@vk.kernel
def places(x: Shaped[vk.Tensor, "M N"], place: Int[vk.Tensor, "M N"]):
    i, j = vk.tile("M"), vk.whole("N")
    place[i, j] = vk.argsort(x[i, j], axis=j, descending=True)


@pytest.mark.parametrize(("rows", "length"), [(512, 512), (4096, 1024), (1024, 1000)])
def test_a_step_reads_one_copy_of_what_is_sorted_and_writes_the_other(rows, length):
    """Only with a second copy of both, elements and positions, nothing is kept from one phase of a step to the next."""
    module = places.build(places.signature(x="float32", place="int64"))
    limits = Limits(registers=32, register_bytes=64, shared=1 << 20, multiprocessors=1, cache=32 << 20, memory=1 << 34)
    plan = choose_plan(kernel_in(module), {"M": rows, "N": length}, limits).plan
    assert set(plan.copies) == {"sorted0", "sorted1"}
