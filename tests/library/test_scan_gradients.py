"""Gradients of cumulative sums and stencils equal float64, for every dtype, size and stride."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import vkernels as vk
from vkernels.library import cumulative_sum, stencil
from vkernels.library.scans import cumulative_sum_backward
from vkernels.library.stencils import stencil_backward

from .gradients import assert_gradients, exact_gradients
from .reference import assert_close, every_dtype, fresh_seed, normal, poisoned, strided
from .test_scans import reference, tolerance_of
from .test_stencils import reference as stencil_reference

ROWS = [(1, 1), (5, 127), (17, 33), (0, 3), (3, 0), (7, 4097), (1, 70_001), (3, 2, 41), (1, 1 << 21)]


@pytest.mark.sample(3)
@pytest.mark.parametrize(("shape", "dtype"), every_dtype(ROWS))
def test_gradients_of_cumulative_sums_add_up_from_the_end(shape, dtype):
    grad, out = normal(shape, dtype, fresh_seed()), poisoned(shape, dtype)
    assert cumulative_sum_backward(grad, out) is out
    turned = grad.flip(-1)
    assert_close(out, reference(turned).flip(-1), terms=shape[-1], scale=tolerance_of(turned))


def test_any_strides_and_in_place():
    for grad in strided((37, 203), torch.float32, fresh_seed()):
        expected, scale = reference(grad.flip(-1)).flip(-1), tolerance_of(grad.flip(-1))
        assert_close(cumulative_sum_backward(grad), expected, terms=203, scale=scale)
        assert cumulative_sum_backward(grad, grad) is grad
        assert_close(grad, expected, terms=203, scale=scale)


def test_nan_and_infinity_reach_all_that_is_before():
    grad = torch.ones(2, 300)
    grad[0, 40], grad[1, 200] = float("nan"), float("inf")
    found = cumulative_sum_backward(grad)
    assert (found[0].isnan() == (torch.arange(300) <= 40)).all()
    assert (found[1].isinf() == (torch.arange(300) <= 200)).all()


@pytest.mark.sample(2)
@pytest.mark.parametrize("points", [(5,), (3, 3)], ids=["cross", "square"])
@pytest.mark.parametrize(
    ("shape", "dtype"), every_dtype([(1, 1), (1, 7), (9, 1), (64, 130), (3, 20, 40), (2, 3, 5, 7), (0, 5), (5, 0)])
)
def test_gradients_of_stencils_are_right(shape, dtype, points):
    seed = fresh_seed()
    x, weight, grad = (normal(size, dtype, seed + n) for n, size in enumerate((shape, points, shape)))
    if x.numel() == 0:
        assert stencil_backward(grad, x, weight)[1].tolist() == torch.zeros(points).tolist()
        return
    expected = exact_gradients(lambda x, weight: stencil_reference(x, weight), grad, x, weight)
    size = float((x.double().abs().sum() * grad.double().abs().sum()).sqrt())  # no sum of products is larger
    for found, exact, added in zip(stencil_backward(grad, x, weight), expected, (16.0, size), strict=True):
        assert_close(found, exact, terms=max(9, x.numel()), added=added)


def test_gradients_are_those_of_differences():
    seed = fresh_seed()
    x = normal((2, 4, 5), torch.float64, seed)
    assert_gradients(cumulative_sum, lambda grad, x: [cumulative_sum_backward(grad)], x)
    for points in ((5,), (3, 3)):
        assert_gradients(stencil, stencil_backward, x, normal(points, torch.float64, seed + 1))


def test_stencils_of_any_strides():
    x, grad = (normal((30, 40, 3), torch.float32, fresh_seed() + n).permute(2, 1, 0) for n in range(2))
    weight = normal((3, 6), torch.float32, 1)[:, ::2]
    expected = exact_gradients(stencil_reference, grad, x, weight)
    for found, exact in zip(stencil_backward(grad, x, weight), expected, strict=True):
        assert_close(found, exact, terms=3600, added=60.0)


def test_numpy_in_numpy_out():
    np.testing.assert_array_equal(cumulative_sum_backward(np.ones((2, 3))), [[3.0, 2.0, 1.0]] * 2)
    of_x, of_weight = stencil_backward(np.ones((2, 2)), np.ones((2, 2)), np.arange(5.0))
    np.testing.assert_array_equal(of_x, [[3.0, 5.0], [7.0, 9.0]])
    np.testing.assert_array_equal(of_weight, [2.0, 2.0, 4.0, 2.0, 2.0])


def test_wrong_arguments_are_named():
    x = torch.zeros(4, 8)
    with pytest.raises(vk.ArgumentError, match=r"out has shape \(4, 9\)"):
        cumulative_sum_backward(x, torch.zeros(4, 9))
    with pytest.raises(vk.ArgumentError, match="grad has shape"):
        stencil_backward(x[:2], x, torch.zeros(3, 3))
    with pytest.raises(vk.ArgumentError, match="weight"):
        stencil_backward(x, x, torch.zeros(4))
