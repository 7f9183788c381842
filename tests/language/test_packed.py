"""Tensors of 4-bit integers, `Int4` and `UInt4`: loads, products and stores against int64 and float64, however run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jaxtyping import Float, Int, Int4, Int8, UInt4

import vkernels as vk
from tests.library.on_a_gpu import AMD, NVIDIA, SMALL, on_a_gpu
from tests.library.reference import fresh_seed

SHAPES = [(3, 8), (5, 7), (2, 1), (1, 2), (4, 0), (0, 5), (9, 130), (2, 1001)]
"""Rows and values in a row: even, odd, none, and more than a chunk."""


def packed(values: np.ndarray) -> np.ndarray:
    """Two values in a byte along the last dimension, the first in the lower half; random bits where one is missing."""
    bits = values & 15
    if values.shape[-1] % 2:
        last = np.random.default_rng(values.size).integers(0, 16, (*values.shape[:-1], 1))
        bits = np.concatenate([bits, last], -1)
    return (bits[..., ::2] | bits[..., 1::2] << 4).astype(np.uint8)


def unpacked(stored: np.ndarray, count: int, is_signed: bool) -> np.ndarray:
    bits = np.stack([stored & 15, stored >> 4], -1).reshape(*stored.shape[:-1], -1)[..., :count].astype(np.int64)
    return (bits ^ 8) - 8 if is_signed else bits


def signed(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.integers(-8, 8, shape)


def agree(kernel: Any, given: list[Any], expected: list[Any], seed: int, tolerance: float = 0) -> None:
    """Whether the interpreter, the CPU and a GPU's code give what is expected of the last arguments."""
    with on_a_gpu([NVIDIA, AMD, SMALL][seed % 3], seed) as gpu:
        for run in (kernel.interpret, kernel._launcher, lambda *arrays: gpu.run(kernel, arrays, {})):
            arguments = [each.copy(order="K") if isinstance(each, np.ndarray) else each for each in given]
            run(*arguments)
            for found, exact in zip(arguments[-len(expected) :], expected, strict=True):
                np.testing.assert_allclose(found, exact, rtol=tolerance, atol=tolerance)


@vk.kernel
def extended(
    w: Int4[vk.Tensor, "M N"], u: UInt4[vk.Tensor, "M N"], low: Int8[vk.Tensor, "M N"], high: Int[vk.Tensor, "M N"]
):
    i, j = vk.tile("M"), vk.tile("N")
    low[i, j] = vk.where(w[i, j] < 0, w[i, j] * 2, w[i, j])
    high[i, j] = w[i, j].to(vk.int64) * 100 + u[i, j]


@pytest.mark.sample(3)
@pytest.mark.parametrize(("m", "n"), SHAPES)
def test_values_are_extended(m, n):
    seed = fresh_seed()
    random = np.random.default_rng(seed)
    w, u = signed(random, m, n), random.integers(0, 16, (m, n))
    results = [np.full((m, n), -7, np.int8), np.full((m, n), -7)]
    agree(extended, [packed(w), packed(u), *results], [np.where(w < 0, 2 * w, w), w * 100 + u], seed)


@vk.function
def wide(tile):
    return tile.to(vk.int64)


@vk.kernel
def around(w: Int4[vk.Tensor, "M N"], out: Int[vk.Tensor, "M N"], at: vk.Scalar):
    i, j = vk.tile("M"), vk.whole("N")
    beside = wide(w[i, j + 1]) - 16 * wide(w[i, j - 1])
    out[i, j] = beside + 256 * wide(w[i, 2 * j + 1]) + 4096 * wide(w[i, at + j]) + wide(w[i, at])


@pytest.mark.sample(2)
@pytest.mark.parametrize(("m", "n"), SHAPES)
def test_positions_outside_are_zero(m, n):
    seed = fresh_seed()
    random = np.random.default_rng(seed)
    w, at = signed(random, m, n), int(random.integers(-2, n + 2))

    def of(place):
        padded = np.concatenate([w, np.zeros((m, 1), int)], 1)
        return padded[:, np.where((place >= 0) & (place < n), place, n)]

    j = np.arange(n)
    expected = of(j + 1) - 16 * of(j - 1) + 256 * of(2 * j + 1) + 4096 * of(at + j) + of(np.full(1, at))
    for run in (around.interpret, around._launcher, None):
        out = np.full((m, n), -7)
        with on_a_gpu(NVIDIA, seed) as gpu:
            run(packed(w), out, at) if run else gpu.run(around, (packed(w), out, at), {})
        np.testing.assert_array_equal(out, expected)


@vk.kernel
def summed(w: Int4[vk.Tensor, "B _"], u: UInt4[vk.Tensor, "N"], rows: Int[vk.Tensor, "B"], total: Int[vk.Tensor, "1"]):
    b, k, n, one = vk.tile("B"), vk.whole(w.shape[1]), vk.whole("N"), vk.tile(1)
    rows[b] = vk.sum(w[b, k].to(vk.int64), axis=k)
    total[one] = vk.sum(u[n].to(vk.int64), axis=n) + 1000 * vk.size("N")


@pytest.mark.sample(3)
@pytest.mark.parametrize(("m", "n"), [(m, n) for m, n in SHAPES if m])
def test_a_size_that_only_bytes_have_is_twice_theirs(m, n):
    seed = fresh_seed()
    random = np.random.default_rng(seed)
    w, u = signed(random, m, 2 * n), random.integers(0, 16, 2 * n)
    given = [packed(w), packed(u), np.full(m, -7), np.full(1, -7)]
    agree(summed, given, [w.sum(1), np.array([u.sum() + 2000 * n])], seed)


@vk.kernel
def gathered(
    w: Int4[vk.Tensor, "B M 7"], row: Int[vk.Tensor, "N"], column: Int[vk.Tensor, "N"], out: Int[vk.Tensor, "B N 7"]
):
    b, n, k = vk.tile("B"), vk.tile("N"), vk.whole(7)
    kept = vk.load(w[b, row[n], k], where=k < 5).to(vk.int64)
    out[b, n, k] = kept * 256 + w[b, row[n], column[n]] * 16 + w[b, row[n], 6]


def test_indices_of_tiles_and_masks():
    seed = fresh_seed()
    random = np.random.default_rng(seed)
    w = signed(random, 2, 6, 7)
    row, column = random.integers(0, 6, 11), random.integers(0, 7, 11)
    kept = np.where(np.arange(7) < 5, w[:, row], 0)
    expected = kept * 256 + (w[:, row, column].astype(np.int8) * 16)[..., None] + w[:, row, 6:]
    agree(gathered, [packed(w), row, column, np.full((2, 11, 7), -77)], [expected], seed)


@vk.kernel
def products(
    x: Float[vk.Tensor, "M K"],
    n8: Int8[vk.Tensor, "M K"],
    w: Int4[vk.Tensor, "N K"],
    u: UInt4[vk.Tensor, "N K"],
    floats: Float[vk.Tensor, "M N"],
    integers: Int[vk.Tensor, "M N"],
):
    i, j, k = vk.tile("M"), vk.tile("N"), vk.whole("K")
    floats[i, j] = vk.dot(x[i, k], u[j, k] - 8.0)
    integers[i, j] = vk.dot(n8[i, k], w[j, k])


@pytest.mark.sample(3)
@pytest.mark.parametrize(("m", "n", "k"), [(3, 4, 8), (5, 2, 33), (1, 7, 0), (17, 40, 257), (64, 64, 128)])
@pytest.mark.parametrize("is_turned", [False, True], ids=["by rows", "by columns"])
def test_products(m, n, k, is_turned):
    seed = fresh_seed()
    random = np.random.default_rng(seed)
    x, n8 = random.standard_normal((m, k)).astype(np.float32), random.integers(-128, 128, (m, k)).astype(np.int8)
    w, u = signed(random, n, k), random.integers(0, 16, (n, k))
    weights = [packed(each) for each in (w, u)]
    if is_turned:  # the bytes of one column lie side by side
        weights = [np.asfortranarray(each) for each in weights]
    results = [np.full((m, n), np.nan, np.float32), np.full((m, n), -7)]
    expected = [x.astype(float) @ (u - 8).T, n8.astype(int) @ w.T]
    agree(products, [x, n8, *weights, *results], expected, seed, 1e-3)


@vk.kernel
def steps(w: Int4[vk.Tensor, "M N"], x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    total = 0.0
    for k in vk.range("N"):
        if w[0, k] != 7:
            total += w[i, k] * x[k]
    out[i] = total


def test_a_loop_over_values():
    seed = fresh_seed()
    random = np.random.default_rng(seed)
    w, x = signed(random, 5, 21), random.standard_normal(21).astype(np.float32)
    expected = (w * x.astype(float) * (w[0] != 7)).sum(1)
    agree(steps, [packed(w), x, np.full(5, np.nan, np.float32)], [expected], seed, 1e-4)


@vk.kernel
def quantised(
    x: Float[vk.Tensor, "M N"], scale: Float[vk.Tensor, "M"], w: Int4[vk.Tensor, "M N"], u: UInt4[vk.Tensor, "N"]
):
    i, j = vk.tile("M"), vk.whole("N")
    largest = vk.max(vk.abs(x[i, j]), axis=j) / 7.0
    scale[i] = largest
    w[i, j] = vk.round(x[i, j] / largest).to(vk.int32)
    u[j] = j  # the low bits


@pytest.mark.sample(2)
@pytest.mark.parametrize(("m", "n"), [(m, n) for m, n in SHAPES if m and n])
def test_rows_are_stored(m, n):
    seed = fresh_seed()
    x = np.random.default_rng(seed).standard_normal((m, n)).astype(np.float32)
    places = np.full((m, (n + 1) // 2), 0x77, np.uint8), np.full((n + 1) // 2, 0x77, np.uint8)
    scale = np.abs(x).max(1) / np.float32(7)
    values = np.round(x / scale[:, None]).astype(int)
    with on_a_gpu([NVIDIA, AMD, SMALL][seed % 3], seed) as gpu:
        for run in (quantised.interpret, quantised._launcher, lambda *arrays: gpu.run(quantised, arrays, {})):
            found, w, u = np.empty(m, np.float32), *(each.copy() for each in places)
            run(x, found, w, u)
            np.testing.assert_allclose(found, scale, rtol=1e-6)
            np.testing.assert_array_equal(unpacked(u, n, False), np.arange(n) % 16)
            halfway = np.abs(np.abs(x / scale[:, None]) % 1 - 0.5) < 1e-4
            np.testing.assert_array_equal(unpacked(w, n, True)[~halfway], values[~halfway])
            if n % 2:
                assert not (w[:, -1] >> 4).any(), "the half byte behind the last value is 0"


@vk.kernel
def updated(w: Int4[vk.Tensor, "M B N"], row: Int[vk.Tensor, "B"], out: UInt4[vk.Tensor, "R B N"]):
    m, b, n = vk.tile("M"), vk.tile("B"), vk.whole("N")
    w[m, b, n] += 3
    for step in vk.range(2):
        w[m, b, n] = -w[m, b, n] + step
    for other in (0, 1):
        out[2 * m + other, row[b], n] = w[m, b, n].to(vk.uint8) + other


@pytest.mark.sample(2)
@pytest.mark.parametrize("n", [1, 6, 77])
@pytest.mark.parametrize("is_turned", [False, True], ids=["by rows", "by columns"])
def test_stores_in_loops_in_place_and_at_rows_of_a_tile(n, is_turned):
    seed = fresh_seed()
    random = np.random.default_rng(seed)
    before, row = signed(random, 3, 4, n), random.permutation(4)
    w, out = packed(before), np.full((6, 4, (n + 1) // 2), 0x77, np.uint8)
    if is_turned:
        w, out = np.asfortranarray(w), np.asfortranarray(out)
    after = before + 3 + 1
    exact = np.empty((6, 4, n), int)
    for other in (0, 1):
        exact[other::2, row] = after + other
    with on_a_gpu([NVIDIA, AMD, SMALL][seed % 3], seed) as gpu:
        for run in (updated.interpret, updated._launcher, lambda *arrays: gpu.run(updated, arrays, {})):
            found, stored = w.copy(order="K"), out.copy(order="K")
            run(found, row, stored)
            np.testing.assert_array_equal(unpacked(found, n, False), after & 15)
            np.testing.assert_array_equal(unpacked(stored, n, False), exact & 15)


def test_another_number_of_bytes_is_refused():
    x, out = np.zeros((1, 4), np.float32), np.zeros(3, np.float32)
    for count in (1, 3):
        with pytest.raises(vk.ArgumentError, match="`w`: expected 2 bytes in the last dimension for N=4, as in `x`"):
            steps(np.zeros((3, count), np.uint8), x[0], out)
    with pytest.raises(vk.ArgumentError, match="`w`: expected dtype uint8, got int8"):
        steps(np.zeros((3, 2), np.int8), x[0], out)


def test_sizes_of_bytes_follow_from_those_of_values():
    assert steps.sizes == ("M", "N")
    (made,) = steps.compile(shapes={"M": 3, "N": 5}, targets=["cpu"], dtype="float32")
    assert made.plan is not None
