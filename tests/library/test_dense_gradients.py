"""Gradients of products and of two layers equal torch's in float64, for every dtype, size, stride and activation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import vkernels as vk
from vkernels.library import batched_matmul, matmul, mlp
from vkernels.library.activations import ACTIVATIONS
from vkernels.library.dense import batched_matmul_backward, matmul_backward, mlp_backward

from .gradients import assert_gradients, exact_gradients, largest_sum
from .reference import assert_close, every_dtype, fresh_seed, normal, strided
from .test_dense import ACTIVATIONS as TORCHS

SIZES = [(1, 1, 1), (0, 3, 4), (17, 31, 5), (3, 4, 0), (127, 1, 61)]


def normals(shapes, dtype, seed):
    return [normal(shape, dtype, seed + number) for number, shape in enumerate(shapes)]


@pytest.mark.sample(2)
@pytest.mark.parametrize(("size", "dtype"), every_dtype(SIZES))
def test_gradients_of_products_are_right(size, dtype):
    m, k, n = size
    a, b, bias, grad = normals([(m, k), (k, n), (n,), (m, n)], dtype, fresh_seed())
    expected = exact_gradients(lambda a, b, bias: a @ b + bias, grad, a, b, bias)
    for found, exact, terms in zip(matmul_backward(grad, a, b, bias), expected, (n, m, m), strict=True):
        assert_close(found, exact, terms=terms, scale=max(1, terms) ** 0.5)
    assert matmul_backward(grad, a, b)[2] is None


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("activation", "dtype"), [*((name, torch.float32) for name in ACTIVATIONS), ("gelu", torch.bfloat16)]
)
def test_slopes_of_activations_are_in_the_gradients(activation, dtype):
    torchs = TORCHS[activation]
    a, b, bias, grad = normals([(33, 20), (20, 41), (41,), (33, 41)], dtype, fresh_seed())
    expected = exact_gradients(lambda a, b, bias: torchs(a @ b + bias), grad, a, b, bias)
    (change,) = exact_gradients(torchs, grad, a.double() @ b.double() + bias.double())
    found = matmul_backward(grad, a, b, bias, activation)
    sizes = largest_sum(change, b.t()), largest_sum(a.t(), change), float(change.abs().sum(0).max())
    for gradient, exact, added in zip(found, expected, sizes, strict=True):
        assert_close(gradient, exact, terms=50, scale=8, added=added)


@pytest.mark.sample(1)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("size", "dtype"), every_dtype([(1, 1, 1, 1), (0, 2, 3, 4), (4, 33, 20, 17)]))
def test_gradients_of_batches_are_right(size, dtype, shared):
    batch, m, k, n = size
    b_shape = (k, n) if shared else (batch, k, n)
    a, b, bias, grad = normals([(batch, m, k), b_shape, (n,), (batch, m, n)], dtype, fresh_seed())
    expected = exact_gradients(lambda a, b, bias: torch.relu(a @ b + bias), grad, a, b, bias)
    found = batched_matmul_backward(grad, a, b, bias, "relu")
    for gradient, exact, terms in zip(found, expected, (n, batch * m, batch * m), strict=True):
        assert_close(gradient, exact, terms=terms, scale=8 * max(1, terms) ** 0.5)


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize(("size", "dtype"), every_dtype([(1, 1, 1, 1), (0, 2, 3, 4), (33, 17, 65, 20)]))
def test_gradients_of_two_layers_are_right(size, dtype):
    m, k, h, n = size
    shapes = [(m, k), (k, h), (h,), (h, n), (n,), (m, n)]
    x, w1, b1, w2, b2, grad = normals(shapes, dtype, fresh_seed())
    w1 = (w1.double() / k**0.5).to(dtype)
    expected = exact_gradients(lambda x, w1, b1, w2, b2: torch.tanh(x @ w1 + b1) @ w2 + b2, grad, x, w1, b1, w2, b2)
    hidden = torch.tanh(x.double() @ w1.double() + b1.double())
    change = (grad.double() @ w2.double().t()) * (1 - hidden * hidden)
    kept = (matmul(x, w1, b1),) if fresh_seed() % 2 else ()
    found = mlp_backward(grad, x, w1, b1, w2, b2, "tanh", *kept)
    within = float((grad.double().abs() @ w2.double().abs().t()).max()) if m else 0.0
    sizes = [
        largest_sum(change, w1.t()) + within, largest_sum(x.t(), change) + within,
        float(change.abs().sum(0).max()) + within, largest_sum(hidden.t(), grad), float(grad.abs().sum(0).max()),
    ]  # fmt: skip
    for gradient, exact, added in zip(found, expected, sizes, strict=True):
        assert_close(gradient, exact, terms=k * h, scale=8, added=added)


@pytest.mark.parametrize("activation", ["none", "gelu_tanh"])
def test_gradients_of_products_are_those_of_differences(activation):
    given = normals([(4, 3), (3, 5), (5,)], torch.float64, fresh_seed())
    assert_gradients(
        lambda *given: matmul(*given, activation),
        lambda grad, *given: matmul_backward(grad, *given, activation),
        *given,
    )


@pytest.mark.slow
def test_gradients_of_batches_and_layers_are_those_of_differences():
    batches = normals([(2, 4, 3), (2, 3, 2), (2,)], torch.float64, fresh_seed())
    assert_gradients(
        lambda *given: batched_matmul(*given, "gelu"),
        lambda grad, *given: batched_matmul_backward(grad, *given, "gelu"),
        *batches,
    )
    layers = normals([(3, 2), (2, 4), (4,), (4, 3), (3,)], torch.float64, fresh_seed())
    assert_gradients(
        lambda *given: mlp(*given, "silu"), lambda grad, *given: mlp_backward(grad, *given, "silu"), *layers
    )


@pytest.mark.slow
def test_any_strides():
    seed = fresh_seed()
    (b,) = normals([(30, 19)], torch.float32, seed)
    for a, grad in zip(strided((40, 30), torch.float32, seed), strided((40, 19), torch.float32, seed + 1), strict=True):
        expected = exact_gradients(torch.matmul, grad, a, b)
        for found, exact in zip(matmul_backward(grad, a, b), expected, strict=False):
            assert_close(found, exact, terms=40, scale=7)


def test_a_gradient_of_infinity_or_nan_is_as_in_torch():
    a, b, grad = torch.ones(3, 3), torch.ones(3, 3), torch.ones(3, 3)
    a[0, 0], b[1, 1], grad[2, 2] = float("inf"), float("nan"), float("-inf")
    expected = exact_gradients(lambda a, b: torch.sigmoid(a @ b), grad, a, b)
    for found, exact in zip(matmul_backward(grad, a, b, None, "sigmoid"), expected, strict=False):
        torch.testing.assert_close(found.double(), exact, equal_nan=True)


def test_products_that_were_kept_are_used():
    x, w1, w2, grad = normals([(3, 4), (4, 5), (5, 2), (3, 2)], torch.float64, fresh_seed())
    kept = torch.randn(3, 5, dtype=torch.float64)
    expected = torch.relu(kept).t() @ grad
    torch.testing.assert_close(mlp_backward(grad, x, w1, None, w2, None, "relu", kept)[3], expected)
    with pytest.raises(vk.ArgumentError, match="products"):
        mlp_backward(grad, x, w1, None, w2, None, "relu", kept[:, :4])


def test_numpy_in_numpy_out():
    x, w1, w2 = (np.random.default_rng(fresh_seed()).normal(size=(4, 4)) for _ in range(3))
    found = mlp_backward(np.ones((4, 4)), x, w1, None, w2, None, "none")
    assert found[2] is None
    assert found[4] is None
    np.testing.assert_allclose(found[0], np.ones((4, 4)) @ w2.T @ w1.T, rtol=1e-12, atol=1e-12)
    assert isinstance(matmul_backward(x, w1, w2, x[0])[2], np.ndarray)


def test_wrong_arguments_are_named():
    a, b = torch.zeros(3, 4), torch.zeros(4, 6)
    with pytest.raises(vk.ArgumentError, match=r"grad has shape \(3, 5\), expected \(3, 6\)"):
        matmul_backward(torch.zeros(3, 5), a, b)
    with pytest.raises(vk.ArgumentError, match="swish"):
        matmul_backward(torch.zeros(3, 6), a, b, activation="swish")
    with pytest.raises(vk.ArgumentError, match="expected 3 dimensions: B × M"):
        batched_matmul_backward(torch.zeros(3, 6), a, b[None])
