"""RMS and group norm, and the gradients of all normalisations, equal torch in float64, for every dtype and size."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

import vkernels as vk
from vkernels.library.norms import (
    group_norm,
    group_norm_backward,
    l2_normalize,
    l2_normalize_backward,
    layer_norm_backward,
    rms_norm,
    rms_norm_backward,
)

from .reference import assert_close, every_dtype, fresh_seed, normal, poisoned, strided

SHAPES = [(1, 1), (3, 5), (0, 7), (17, 33), (64, 16), (5, 127), (1009, 2), (7, 4097), (2, 100_003)]
GROUPED = [(1, 1, 1, 2), (3, 2, 4, 5), (2, 3, 1, 77), (2, 1, 6, 1000), (0, 2, 2, 3), (1, 32, 2, 9), (2, 2, 3, 40_009)]
EPS = 1e-3


def variance(x: torch.Tensor) -> torch.Tensor:
    return (x.double() - x.double().mean(-1, keepdim=True)).square().mean(-1)


def largest(grad: torch.Tensor, weight: torch.Tensor, squares: torch.Tensor) -> float:
    """What gradients of x are the rest of: the largest of grad * weight / sqrt(squares + eps)."""
    factors = (grad, weight, 1 / (squares + EPS).sqrt())
    return float(np.prod([float(factor.abs().max()) if factor.numel() else 0.0 for factor in factors]))


def exactly(function, grad, *arguments):
    """The result and gradients in float64."""
    exact = [argument.double().clone().requires_grad_() for argument in arguments]
    result = function(*exact)
    result.backward(grad.double())
    return result.detach(), [argument.grad for argument in exact]


@pytest.mark.sample(2)
@pytest.mark.parametrize(("shape", "dtype"), every_dtype(SHAPES))
def test_rms_norm_is_right_forward_and_backward(shape, dtype):
    seed = fresh_seed()
    x, grad, weight = normal(shape, dtype, seed), normal(shape, dtype, seed + 1), normal(shape[-1:], dtype, seed + 2)
    expected, gradients = exactly(lambda x, w: functional.rms_norm(x, shape[-1:], w, EPS), grad, x, weight)
    out = poisoned(shape, dtype)
    assert rms_norm(x, weight, EPS, out) is out
    assert_close(out, expected, terms=shape[-1], scale=4.0)
    added = largest(grad, weight, x.double().square().mean(-1))
    for found, gradient in zip(rms_norm_backward(grad, x, weight, EPS), gradients, strict=True):
        assert_close(found, gradient, terms=max(shape), scale=32.0, added=added)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("shape", "dtype"), every_dtype(SHAPES))
def test_l2_normalize_is_right_forward_and_backward(shape, dtype):
    seed = fresh_seed()
    x, grad = normal(shape, dtype, seed), normal(shape, dtype, seed + 1)
    x[:1] *= 0.01  # shorter than eps
    eps = 0.02 * shape[-1] ** 0.5
    expected, (gradient,) = exactly(lambda x: functional.normalize(x, dim=-1, eps=eps), grad, x)
    out = poisoned(shape, dtype)
    assert l2_normalize(x, eps, out) is out
    assert_close(out, expected, terms=shape[-1], scale=4.0)
    added = float(grad.abs().max()) / eps if grad.numel() else 0.0
    assert_close(l2_normalize_backward(grad, x, eps), gradient, terms=max(shape), scale=32.0, added=added)


@pytest.mark.sample(3)
@pytest.mark.parametrize(("shape", "dtype"), every_dtype(SHAPES))
def test_the_gradients_of_layer_norm_are_right(shape, dtype):
    seed = fresh_seed()
    x, grad = normal(shape, dtype, seed), normal(shape, dtype, seed + 1)
    weight, bias = (normal(shape[-1:], dtype, seed + n) for n in (2, 3))
    _, gradients = exactly(lambda x, w, b: functional.layer_norm(x, shape[-1:], w, b, EPS), grad, x, weight, bias)
    added = largest(grad, weight, variance(x))
    for found, gradient in zip(layer_norm_backward(grad, x, weight, EPS), gradients, strict=True):
        assert_close(found, gradient, terms=max(shape), scale=32.0, added=added)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("sizes", "dtype"), every_dtype(GROUPED))
def test_group_norm_is_right_forward_and_backward(sizes, dtype):
    seed = fresh_seed()
    batch, groups, each, rest = sizes
    shape = (batch, groups * each, rest)
    x, grad = normal(shape, dtype, seed), normal(shape, dtype, seed + 1)
    weight, bias = (normal(shape[1:2], dtype, seed + n) for n in (2, 3))
    expected, gradients = exactly(lambda x, w, b: functional.group_norm(x, groups, w, b, EPS), grad, x, weight, bias)
    out = poisoned(shape, dtype)
    assert group_norm(x, groups, weight, bias, EPS, out) is out
    assert_close(out, expected, terms=each * rest, scale=4.0)
    squares = variance(x.reshape(batch, groups, each * rest))
    added, terms = largest(grad, weight, squares), max(each, batch) * rest
    for found, gradient in zip(group_norm_backward(grad, x, groups, weight, EPS), gradients, strict=True):
        assert_close(found, gradient, terms=terms, scale=32.0, added=added)


def test_without_parameters_weights_are_one_and_biases_nothing():
    x, grad = (normal((6, 8, 5), torch.float32, fresh_seed() + n) for n in range(2))
    assert_close(rms_norm(x), functional.rms_norm(x.double(), (5,), None, 1e-5), terms=5, scale=4.0)
    assert_close(group_norm(x, 4), functional.group_norm(x.double(), 4), terms=10, scale=4.0)
    _, (gradient,) = exactly(lambda x: functional.layer_norm(x, (5,)), grad, x)
    assert_close(layer_norm_backward(grad, x)[0], gradient, terms=5, scale=32.0)


def test_any_strides():
    for view in strided((37, 203), torch.float32, fresh_seed()):
        assert_close(rms_norm(view), functional.rms_norm(view.double(), (203,), None, 1e-5), terms=203, scale=4.0)
    x = normal((3, 10, 8, 7), torch.float32, fresh_seed()).permute(0, 2, 1, 3)
    out = poisoned((3, 10, 8, 7), torch.float32).permute(0, 2, 1, 3)
    assert group_norm(x, 2, out=out) is out
    assert_close(out, functional.group_norm(x.double(), 2), terms=280, scale=4.0)


@pytest.mark.parametrize("columns", [5, 300, 70_000])
def test_nan_and_infinity_behave_as_in_torch(columns):
    x = torch.ones(3, columns)
    x[0, columns // 2], x[1, -1] = float("nan"), float("inf")
    torch.testing.assert_close(rms_norm(x), functional.rms_norm(x, (columns,), None, 1e-5), equal_nan=True)


@pytest.mark.parametrize("shape", [(1, 4, 0, 2), (3, 4, 0), (0, 4, 3), (0, 4, 0)])
def test_channels_without_elements_have_gradients_of_zero(shape):
    for x in (torch.ones(shape), np.ones(shape, np.float16)):
        of_x, of_weight, of_bias = group_norm_backward(x, x, 2)
        assert of_x.shape == shape
        for found in (of_weight, of_bias):
            assert np.array_equal(np.asarray(found), np.zeros(4))


def test_numpy_in_numpy_out():
    x = np.random.default_rng(fresh_seed()).normal(size=(4, 6, 11))
    found = group_norm(x, 3)
    assert isinstance(found, np.ndarray)
    assert_close(torch.from_numpy(found), functional.group_norm(torch.from_numpy(x), 3), terms=22, scale=4.0)
    assert all(isinstance(each, np.ndarray) for each in layer_norm_backward(x, x))


def test_wrong_arguments_are_named():
    x = torch.zeros(4, 8)
    with pytest.raises(vk.ArgumentError, match="weight"):
        rms_norm(x, torch.zeros(9))
    with pytest.raises(vk.ArgumentError, match="3 groups"):
        group_norm(x, 3)
    with pytest.raises(vk.ArgumentError, match="groups is 0, expected an integer of at least 1"):
        group_norm(x, 0)
    with pytest.raises(vk.ArgumentError, match="out"):
        rms_norm(x, out=torch.zeros(4, 9))
    with pytest.raises(vk.ArgumentError, match="grad"):
        layer_norm_backward(torch.zeros(4, 9), x)
