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


@vk.kernel
def gram(x: Float[vk.Tensor, "N M K"], out: Float[vk.Tensor, "M M"], dotted: Float[vk.Tensor, "M M"]):
    i, j, n, k = vk.tile("M"), vk.tile("M"), vk.whole("N"), vk.whole("K")
    out[i, j] = vk.sum(x[n, i, k] * x[n, j, k], axis=(n, k))
    dotted[i, j] = vk.dot(x[n, i, k], x[n, j, k], axis=(n, k))


@vk.kernel
def windows(x: Float[vk.Tensor, "C T"], w: Float[vk.Tensor, "O C K"], out: Float[vk.Tensor, "O S"]):
    o, s, c, k = vk.tile("O"), vk.tile("S"), vk.whole("C"), vk.whole("K")
    out[o, s] = vk.sum(w[o, c, k] * x[c, s + k], axis=(k, c))


def test_the_axis_along_the_last_dimension_is_contracted_but_not_that_of_a_window(random):
    for kernel, axes in ((gram, ["k", "k"]), (windows, ["c"])):
        dots = [op for op in kernel.build(plain_signature(kernel)).walk() if isinstance(op, DotOp)]
        assert [op.axis.data for op in dots] == axes
    x = numbers(random, 4, 7, 9)
    out, dotted = np.full((2, 7, 7), np.nan, np.float32)
    gram(x, out, dotted)
    for found in (out, dotted):
        np.testing.assert_allclose(found, np.einsum("nik,njk->ij", x.astype(float), x.astype(float)), atol=1e-4)
    x, w, out = numbers(random, 6, 30), numbers(random, 5, 6, 3), np.full((5, 28), np.nan, np.float32)
    windows(x, w, out)
    spans = np.stack([x[:, k : k + 28] for k in range(3)], -1)
    np.testing.assert_allclose(out, np.einsum("ock,csk->os", w.astype(float), spans.astype(float)), atol=1e-4)
