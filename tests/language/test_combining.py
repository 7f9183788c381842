"""`vk.reduce` and `vk.scan` with functions of one's own: interpreted, on the CPU, and as on a GPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from jaxtyping import Float, Int, Shaped

import vkernels as vk
from tests.library.on_a_gpu import AMD, NVIDIA, on_a_gpu
from tests.library.reference import fresh_seed


@vk.function
def then(before, after):
    """One step h ↦ a·h + b after another."""
    a, b = before
    c, d = after
    return a * c, b * c + d


@vk.kernel
def recurrence(a: Float[vk.Tensor, "M N D"], b: Float[vk.Tensor, "M N D"], out: Float[vk.Tensor, "M N D"]):
    i, j, d = vk.tile("M"), vk.whole("N"), vk.tile("D")
    _, state = vk.scan(then, (a[i, j, d], b[i, j, d]), axis=j)
    out[i, j, d] = state


@vk.function
def larger(left, right):
    value, place = left
    other, there = right
    is_larger = other > value
    return vk.where(is_larger, other, value), vk.where(is_larger, there, place)


@vk.kernel
def largest(x: Float[vk.Tensor, "M N"], value: Float[vk.Tensor, "M"], place: Int[vk.Tensor, "M"]):
    i, j = vk.tile("M"), vk.whole("N")
    pairs = x[i, j], vk.broadcast(j, (i, j))
    value[i], place[i] = vk.reduce(larger, pairs, axis=j, identity=(float("-inf"), 0))


@vk.function
def joined_moments(left, right):
    """Count, mean and sum of squared differences of two parts: Chan, Golub and LeVeque (1983)."""
    n, mean, squares = left
    m, other, more = right
    total = n + m
    apart = other - mean
    share = vk.where(total > 0, m / vk.maximum(total, 1.0), 0.0)
    return total, mean + apart * share, squares + more + apart * apart * n * share


@vk.kernel
def variance(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    i, j = vk.tile("M"), vk.whole("N")
    value = x[i, j]
    n, _, squares = vk.reduce(
        joined_moments, (vk.full_like(value, 1), value, vk.zeros_like(value)), axis=j, identity=(0, 0, 0)
    )
    out[i] = squares / n


@vk.function
def last_that_counts(left, right):
    """Not commutative: the later of two numbers that is not 0."""
    return vk.where(right != 0, right, left)


@vk.kernel
def filled(x: Shaped[vk.Tensor, "M N"], out: Shaped[vk.Tensor, "M N"], last: Shaped[vk.Tensor, "M"]):
    i, j = vk.tile("M"), vk.whole("N")
    out[i, j] = vk.scan(last_that_counts, x[i, j])
    last[i] = vk.reduce(last_that_counts, x[i, j])


@vk.kernel
def least_products(x: Shaped[vk.Tensor, "M N"], out: Shaped[vk.Tensor, "M"]):
    i, j = vk.tile("M"), vk.whole("N")
    out[i] = vk.reduce(vk.minimum, x[i, j] * 2, axis=j, identity=1000)


def everywhere(kernel, *given):
    """What a kernel stores into its last arguments, interpreted, on the CPU and as on a GPU."""
    seed = fresh_seed()
    with on_a_gpu([NVIDIA, AMD][seed % 2], seed) as gpu:
        for run in (kernel.interpret, kernel._launcher, lambda *arrays: gpu.run(kernel, arrays, {})):
            arrays = [array.copy() for array in given]
            run(*arrays)
            yield arrays


LENGTHS = [1, 2, 7, 33]


@pytest.mark.sample(2)
@pytest.mark.parametrize("length", LENGTHS)
def test_a_linear_recurrence(length):
    random = np.random.default_rng(fresh_seed())
    a, b = (random.uniform(-1, 1, (3, length, 5)).astype(np.float32) for _ in range(2))
    state, expected = np.zeros((3, 5)), []
    for step in range(length):
        state = a[:, step].astype(np.float64) * state + b[:, step]
        expected.append(state)
    for *_, out in everywhere(recurrence, a, b, np.full_like(a, np.nan)):
        np.testing.assert_allclose(out, np.stack(expected, 1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("length", LENGTHS)
def test_the_largest_with_its_place(length):
    x = np.random.default_rng(fresh_seed()).integers(-9, 9, (6, length)).astype(np.float32)
    for _, value, place in everywhere(largest, x, np.full(6, np.nan, np.float32), np.full(6, -7)):
        np.testing.assert_array_equal(value, x.max(1))
        np.testing.assert_array_equal(place, x.argmax(1))


@pytest.mark.sample(2)
@pytest.mark.parametrize("length", LENGTHS)
def test_a_variance_far_from_zero(length):
    x = (1e4 + np.random.default_rng(fresh_seed()).normal(size=(4, length))).astype(np.float32)
    for _, out in everywhere(variance, x, np.full(4, np.nan, np.float32)):
        np.testing.assert_allclose(out, x.astype(np.float64).var(1), rtol=2e-2, atol=1e-5)


@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8"])
@pytest.mark.parametrize("length", LENGTHS)
def test_elements_combine_in_order(length, dtype):
    random = np.random.default_rng(fresh_seed())
    x = (random.integers(0, 100, (5, length)) * (random.random((5, length)) < 0.4)).astype(dtype)
    expected = np.zeros_like(x)
    kept = np.zeros(5, dtype)
    for step in range(length):
        kept = np.where(x[:, step] != 0, x[:, step], kept)
        expected[:, step] = kept
    for _, out, last in everywhere(filled, x, np.full_like(x, 101), np.full(5, 101, dtype)):
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(last, kept)


def test_an_empty_axis_gives_the_identity():
    for run in (least_products, least_products.interpret):
        out = np.full(3, -1, np.int64)
        run(np.zeros((3, 0), np.int64), out)
        np.testing.assert_array_equal(out, 1000)


def test_short_floats_are_combined_in_float32():
    x = torch.full((2, 300), 1.0).to(torch.bfloat16)

    @vk.kernel
    def total(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
        i, j = vk.tile("M"), vk.whole("N")
        out[i] = vk.reduce(plus, x[i, j], axis=j)

    out = torch.full((2,), float("nan"))
    total(x, out)
    assert torch.equal(out, torch.full((2,), 300.0))


@vk.function
def plus(a, b):
    return a + b


def test_functions_of_tiles_are_associative_where_they_say_so():
    """A property of the functions of this file: any grouping gives the same."""
    random = np.random.default_rng(fresh_seed())
    a, b, c = random.uniform(-1, 1, (3, 2))

    def step(before, after):
        return before[0] * after[0], before[1] * after[0] + after[1]

    np.testing.assert_allclose(step(step(a, b), c), step(a, step(b, c)), rtol=1e-12)


@pytest.mark.parametrize("kernel", [recurrence, variance, filled], ids=lambda kernel: kernel.name)
def test_gpus_compile_them(kernel):
    shapes = {"M": 64, "N": 200, "D": 32} if kernel is recurrence else {"M": 64, "N": 200}
    (made,) = kernel.compile(shapes=shapes, targets=["h100-sxm5-80"], dtype="float32")
    assert made.binaries


@vk.function
def plus_size(a, b):
    return a + b + vk.size("N").to(vk.float32)


@vk.kernel
def uses_a_size(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i, j = vk.tile("M"), vk.whole("N")
    out[i, j] = vk.scan(plus_size, x[i, j])


@vk.function
def branches(a, b):
    if a > b:
        return a
    return b


@vk.kernel
def chooses_by_if(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i, j = vk.tile("M"), vk.whole("N")
    out[i, j] = vk.scan(branches, x[i, j])


def test_a_function_may_use_scalars():
    x = np.random.default_rng(fresh_seed()).integers(-9, 9, (3, 21)).astype(np.float32)
    expected = x.cumsum(1) + 21 * np.arange(21, dtype=np.float32)
    for _, out in everywhere(uses_a_size, x, np.full_like(x, np.nan)):
        np.testing.assert_array_equal(out, expected)


def test_a_function_is_elementwise():
    x = np.ones((2, 3), np.float32)
    with pytest.raises(vk.UnsupportedError):
        chooses_by_if(x, x.copy())


@pytest.mark.sample(4)
@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize(
    "pin", [{"lanes": "j"}, {"lanes": "i"}, {"lanes": "j", "chunks": {"j": 16}}, {"chunks": {"j": 3}}]
)
def test_chunks_and_lanes(pin, dtype):
    """Every way through the axis gives the same, exactly, with numbers that are integers."""
    random = np.random.default_rng(fresh_seed())
    a, b = (random.integers(-1, 2, (5, 53)).astype(dtype) for _ in range(2))
    pinned = vk.kernel(plan=vk.Pin(**pin))(plain_recurrence)
    state, expected = np.zeros(5, dtype), np.zeros_like(a)
    for step in range(53):
        state = expected[:, step] = a[:, step] * state + b[:, step]
    for kernel in (pinned, pinned.interpret):
        out = np.full_like(a, 77)
        kernel(a, b, out)
        np.testing.assert_array_equal(out, expected)


def plain_recurrence(a: Shaped[vk.Tensor, "M N"], b: Shaped[vk.Tensor, "M N"], out: Shaped[vk.Tensor, "M N"]):
    i, j = vk.tile("M"), vk.whole("N")
    _, state = vk.scan(then, (a[i, j], b[i, j]), axis=j, identity=(1, 0))
    out[i, j] = state


def test_a_debugger_goes_through_kernels_that_scan():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    out = np.full_like(x, np.nan)
    uses_a_size.interpret(x, out, trace=True)
    assert not np.isnan(out).any()


def summed_areas(x: Shaped[vk.Tensor, "M R C"], out: Shaped[vk.Tensor, "M R C"], highest: Shaped[vk.Tensor, "M C R"]):
    i, u, v = vk.tile("M"), vk.whole("R"), vk.whole("C")
    total = vk.cumulative_sum(vk.cumulative_sum(x[i, u, v], axis=v), axis=u)
    out[i, u, v] = total
    highest[i, v, u] = vk.cumulative_max(total, axis=v)


@pytest.mark.sample(3)
@pytest.mark.parametrize("rows", [1, 3, 16])
@pytest.mark.parametrize("columns", [1, 4, 16])
@pytest.mark.parametrize("lanes", ["i", "u", "v"])
def test_scans_along_two_axes_in_any_chunks(lanes, columns, rows):
    """What is scanned along one axis in chunks is kept for the scan along the other."""
    kernel = vk.kernel(plan=vk.Pin(lanes=lanes, chunks={"u": rows, "v": columns}))(summed_areas)
    x = np.random.default_rng(fresh_seed()).integers(-9, 9, (3, 7, 11))
    expected = x.cumsum(2).cumsum(1)
    out, highest = np.full_like(x, 77), np.full((3, 11, 7), 77)
    kernel(x, out, highest)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(highest, np.maximum.accumulate(expected, 2).transpose(0, 2, 1))
