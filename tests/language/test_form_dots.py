"""Sums of products that are built as dots, and dots along several axes."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Float, Int

import vkernels as vk
from vkernels.ir.dialect import DotOp, SumOp

from .signatures import plain_signature


@vk.kernel
def product(a: Float[vk.Tensor, "M K"], b: Float[vk.Tensor, "K N"], out: Float[vk.Tensor, "M N"]):
    i, j, k = vk.tile("M"), vk.tile("N"), vk.whole("K")
    out[i, j] = vk.sum(a[i, k] * b[k, j], axis=k)


@vk.kernel
def dilated(x: Float[vk.Tensor, "B C T"], w: Float[vk.Tensor, "O C K"], out: Float[vk.Tensor, "B O S"]):
    b, o, s = vk.tile("B"), vk.tile("O"), vk.tile("S")
    c, k = vk.whole("C"), vk.whole("K")
    out[b, o, s] = vk.sum(2 * w[o, c, k] * x[b, c, s + 2 * k], axis=(c, k))


@vk.kernel
def along_both(x: Float[vk.Tensor, "B C T"], w: Float[vk.Tensor, "O C K"], out: Float[vk.Tensor, "B O S"]):
    b, o, s = vk.tile("B"), vk.tile("O"), vk.tile("S")
    c, k = vk.whole("C"), vk.whole("K")
    out[b, o, s] = vk.dot(w[o, c, k], x[b, c, s + 2 * k], 1.0, axis=(c, k))


@vk.kernel
def along_both_of_integers(x: Int[vk.Tensor, "M C K"], w: Int[vk.Tensor, "N C K"], out: Int[vk.Tensor, "M N"]):
    i, j, c, k = vk.tile("M"), vk.tile("N"), vk.whole("C"), vk.whole("K")
    out[i, j] = vk.dot(x[i, c, k], w[j, c, k], axis=(c, k))


@vk.kernel
def weighted(x: Float[vk.Tensor, "M K"], w: Float[vk.Tensor, "K"], out: Float[vk.Tensor, "M"]):
    i, k = vk.tile("M"), vk.whole("K")
    out[i] = vk.sum(x[i, k] * w[k], axis=k)


@vk.kernel
def used_twice(a: Float[vk.Tensor, "M K"], b: Float[vk.Tensor, "K N"], out: Float[vk.Tensor, "M N"]):
    i, j, k = vk.tile("M"), vk.tile("N"), vk.whole("K")
    each = a[i, k] * b[k, j]
    out[i, j] = vk.sum(each, axis=k) / vk.max(each, axis=k)


@vk.kernel
def of_integers(a: Int[vk.Tensor, "M K"], b: Int[vk.Tensor, "K N"], out: Int[vk.Tensor, "M N"]):
    i, j, k = vk.tile("M"), vk.tile("N"), vk.whole("K")
    out[i, j] = vk.sum(a[i, k] * b[k, j], axis=k)


def operations(kernel):
    return [type(op) for op in kernel.build(plain_signature(kernel)).walk() if isinstance(op, SumOp | DotOp)]


def numbers(random, *shape):
    return random.standard_normal(shape).astype(np.float32)


@pytest.fixture
def random():
    seed = np.random.SeedSequence().entropy
    print("seed", seed)
    return np.random.default_rng(seed)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (33, 17, 65), (5, 0, 3)])
def test_a_sum_of_products_is_a_dot(random, sizes):
    rows, inner, columns = sizes
    a, b, out = numbers(random, rows, inner), numbers(random, inner, columns), np.full((rows, columns), np.nan, "f4")
    assert operations(product) == [DotOp]
    product(a, b, out)
    exact = a.astype(float) @ b.astype(float)
    np.testing.assert_allclose(out, exact, atol=1e-6 * (inner + 1) * (np.abs(a) @ np.abs(b) + 1).max())


def test_sums_along_two_axes_and_dots_along_two_agree(random):
    x, w = numbers(random, 2, 7, 40), numbers(random, 5, 7, 3)
    spans = np.stack([x[:, :, 2 * k : 2 * k + 36] for k in range(3)], -1)
    exact = np.einsum("ock,bcsk->bos", w.astype(float), spans.astype(float))
    for kernel, expected in ((dilated, 2 * exact), (along_both, exact + 1)):
        out = np.full((2, 5, 36), np.nan, np.float32)
        assert operations(kernel) == [DotOp, SumOp]
        kernel(x, w, out)
        np.testing.assert_allclose(out, expected, atol=1e-4)


def test_dots_of_integers_along_two_axes_wrap(random):
    x, w = (random.integers(-(1 << 31), 1 << 31, (4, 3, 5), np.int32) for _ in range(2))
    out = np.full((4, 4), -1, np.int32)
    along_both_of_integers(x, w, out)
    wide = np.einsum("ick,jck->ij", x.astype(object), w.astype(object))
    np.testing.assert_array_equal(out, wide.astype(object) % (1 << 32) - (wide % (1 << 32) >= 1 << 31) * (1 << 32))


@pytest.mark.parametrize("kernel", [weighted, used_twice, of_integers], ids=lambda kernel: kernel.name)
def test_other_sums_stay(kernel):
    assert operations(kernel) == [SumOp]
