"""Softmax, its gradient and layer_norm equal torch in float64, for every dtype, size and stride."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import vkernels as vk
from vkernels.library import layer_norm, softmax
from vkernels.library.rows import softmax_backward

from .reference import DTYPES, assert_close, every_dtype, fresh_seed, normal, poisoned, strided

SHAPES = [
    (1, 1),
    (3, 5),
    (17, 33),
    (64, 16),
    (5, 127),
    (4, 128),
    (3, 129),
    (2, 1000),
    (7, 4097),
    (1, 70001),
    (2, 100_003),
    (1, 3 << 20),
    (2, 1 << 21),
]


def softmax_reference(x: torch.Tensor) -> torch.Tensor:
    """In long double: torch's own sums in float64 are less accurate than what is tested."""
    rows = x.double().numpy().astype(np.longdouble)
    with np.errstate(invalid="ignore"):
        e = np.exp(rows - rows.max(-1, keepdims=True, initial=-np.inf))
        return torch.from_numpy((e / e.sum(-1, keepdims=True)).astype(np.float64))


def layer_norm_reference(x, weight, bias, eps) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x.double(), x.shape[-1:], weight.double(), bias.double(), eps)


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_softmax_is_right(shape, dtype):
    x = normal(shape, dtype, fresh_seed()) * 8
    out = poisoned(shape, dtype)
    assert softmax(x, out) is out
    assert_close(out, softmax_reference(x), terms=shape[-1])


def softmax_gradient_reference(grad: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    grad, result = grad.double(), result.double()
    return result * (grad - (grad * result).sum(-1, keepdim=True))


@pytest.mark.sample(3)
@pytest.mark.parametrize(("shape", "dtype"), every_dtype([(0, 7), (3, 0), *SHAPES[1::2]]))
def test_the_gradient_of_softmax_is_right(shape, dtype):
    seed = fresh_seed()
    result, grad = softmax(normal(shape, dtype, seed) * 8), normal(shape, dtype, seed + 1)
    out = poisoned(shape, dtype)
    assert softmax_backward(grad, result, out) is out
    added = float((grad.double() * result.double()).abs().max()) if result.numel() else 0.0
    assert_close(out, softmax_gradient_reference(grad, result), terms=shape[-1], added=added)


def test_the_gradient_of_softmax_is_what_autograd_takes_it_for():
    x = normal((3, 4, 50), torch.float64, fresh_seed()).requires_grad_()
    result, grad = x.softmax(-1), normal((3, 4, 50), torch.float64, fresh_seed())
    result.backward(grad)
    assert_close(softmax_backward(grad, result.detach()), x.grad, terms=50)
    out = poisoned((4, 3, 50), torch.float64).transpose(0, 1)
    assert softmax_backward(grad.numpy(), result.detach().numpy(), out.numpy()) is not None
    assert_close(out, x.grad, terms=50)


@pytest.mark.parametrize("columns", [5, 300, 70_000])
def test_nan_and_infinity_spread_through_the_gradient_of_softmax_as_in_torch(columns):
    result, grad = torch.full((5, columns), 1 / columns), normal((5, columns), torch.float32, fresh_seed())
    result[0, columns // 2], grad[1, -1], grad[2, 0] = float("nan"), float("nan"), float("inf")
    grad[3, 1], result[3, 1] = float("-inf"), 0.0
    expected = softmax_gradient_reference(grad, result)
    assert_close(softmax_backward(grad, result), expected, terms=columns, added=5 / columns)


def test_the_gradient_of_softmax_in_place_and_of_any_strides():
    seed = fresh_seed()
    for grad in strided((37, 203), torch.float32, seed):
        result = softmax(normal((37, 203), torch.float32, seed + 1))
        expected = softmax_gradient_reference(grad, result)
        added = float((grad * result).abs().max())
        assert_close(softmax_backward(grad, result, result), expected, terms=203, added=added)


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_layer_norm_is_right(shape, dtype):
    seed = fresh_seed()
    x = normal(shape, dtype, seed)
    weight, bias = normal(shape[-1:], dtype, seed + 1), normal(shape[-1:], dtype, seed + 2)
    out = poisoned(shape, dtype)
    layer_norm(x, weight, bias, 1e-3, out)
    assert_close(out, layer_norm_reference(x, weight, bias, 1e-3), terms=shape[-1], scale=4.0)


@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize("columns", [0, 1, 40, 300])
def test_empty_and_tiny_inputs(rows, columns):
    x = normal((rows, columns), torch.float32, fresh_seed())
    assert_close(softmax(x), softmax_reference(x), terms=max(1, columns))


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [softmax, layer_norm])
def test_any_strides(kernel):
    seed = fresh_seed()
    for view in strided((37, 203), torch.float32, seed):
        expected = kernel(view.contiguous())
        alike = bool((view == view[:, :1]).all())
        added = 316.0 * float(view.abs().max()) if alike else 0.0  # of what is left of each number less the mean
        assert_close(kernel(view), expected.double(), terms=203, added=added)
        out = strided((37, 203), torch.float32, seed)[0]
        assert_close(kernel(view, out=out), expected.double(), terms=203, added=added)


def test_any_rank():
    x = normal((2, 3, 4, 50), torch.float32, fresh_seed())
    assert softmax(x).shape == x.shape
    assert_close(softmax(x), softmax_reference(x), terms=50)


@pytest.mark.parametrize("kernel", [softmax, layer_norm])
def test_results_reach_an_out_that_has_no_view_as_rows(kernel):
    x = normal((4, 6, 40), torch.float32, fresh_seed())
    out = poisoned((6, 4, 40), torch.float32).transpose(0, 1)
    assert kernel(x, out=out) is out
    assert_close(out, kernel(x).double(), terms=40)
    array = poisoned((6, 4, 40), torch.float32).numpy().transpose(1, 0, 2)
    kernel(x.numpy(), out=array)
    np.testing.assert_array_equal(array, out.numpy())


@pytest.mark.slow
def test_in_place():
    for rows, columns in ((9, 16), (9, 1000), (3, 1 << 21)):
        x = normal((rows, columns), torch.float32, fresh_seed())
        expected = softmax_reference(x)
        assert_close(softmax(x, out=x), expected, terms=columns)


@pytest.mark.sample(2)
@pytest.mark.parametrize("columns", [5, 300, 70000, 1 << 21])
def test_nan_and_infinity_behave_as_in_torch(columns):
    x = torch.zeros(5, columns)
    x[0, columns // 2] = float("nan")
    x[1, -1] = float("inf")
    x[2, 0] = float("-inf")
    x[3, :] = float("-inf")
    x[4, 1], x[4, 3] = 3e38, -3e38
    out = softmax(x)
    np.testing.assert_array_equal(out.isnan().numpy(), torch.softmax(x, -1).isnan().numpy())
    assert_close(out[2], softmax_reference(x[2]), terms=columns)
    assert_close(out[4], softmax_reference(x[4]), terms=columns)


def test_numpy_in_numpy_out():
    x = np.random.default_rng(fresh_seed()).normal(size=(11, 77))
    out = softmax(x)
    assert isinstance(out, np.ndarray)
    assert out.dtype == np.float64
    assert_close(torch.from_numpy(out), softmax_reference(torch.from_numpy(x)), terms=77)


def test_wrong_arguments_are_named():
    x = torch.zeros(4, 8)
    with pytest.raises(vk.ArgumentError, match="out"):
        softmax(x, torch.zeros(4, 9))
    with pytest.raises(vk.ArgumentError, match="softmax_backward: grad has shape"):
        softmax_backward(x, torch.zeros(4, 9))
    with pytest.raises(vk.ArgumentError, match="x"):
        softmax(torch.zeros(4, 8, dtype=torch.int32))
    with pytest.raises(vk.ArgumentError, match="weight"):
        layer_norm(x, torch.zeros(9))
