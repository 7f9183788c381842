"""Stencils equal torch's convolution in float64, for every dtype, size and stride."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import vkernels as vk
from vkernels.library import stencil

from .reference import DTYPES, assert_close, fresh_seed, normal, poisoned

SHAPES = [(1, 1), (1, 7), (9, 1), (3, 5), (4, 32), (17, 33), (64, 130), (3, 20, 40), (2, 3, 5, 7)]


def square_of(cross: torch.Tensor) -> torch.Tensor:
    """The 3 × 3 weights that a cross of five is."""
    square = cross.new_zeros(9)
    square[[1, 3, 4, 5, 7]] = cross
    return square.view(3, 3)


def reference(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    weight = square_of(weight) if weight.ndim == 1 else weight
    images = x.double().reshape(-1, 1, *x.shape[-2:])
    return torch.nn.functional.conv2d(images, weight.double()[None, None], padding=1).reshape(x.shape)


@pytest.mark.sample(4)
@pytest.mark.parametrize("points", [(5,), (3, 3)], ids=["cross", "square"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_stencil_is_right(shape, dtype, points):
    seed = fresh_seed()
    x, weight, out = normal(shape, dtype, seed), normal(points, dtype, seed + 1), poisoned(shape, dtype)
    assert stencil(x, weight, out) is out
    assert_close(out, reference(x, weight), terms=9, scale=9)


@pytest.mark.parametrize("points", [(5,), (3, 3)], ids=["cross", "square"])
def test_one_weight_moves_an_image_and_lets_zeros_in(points):
    x = normal((6, 40), torch.float32, fresh_seed())
    weight = torch.zeros(points)
    weight.view(-1)[1] = 1  # of a cross the left neighbour, of a square the one above
    expected = torch.zeros_like(x)
    if len(points) == 1:
        expected[:, 1:] = x[:, :-1]
    else:
        expected[1:] = x[:-1]
    assert torch.equal(stencil(x, weight), expected)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 4, 4)])
def test_empty(shape):
    assert stencil(torch.ones(shape), torch.ones(3, 3)).shape == shape


def test_any_strides():
    seed = fresh_seed()
    weight = normal((3, 6), torch.float32, seed)[:, ::2]
    for x in [
        normal((40, 30), torch.float32, seed).t(),
        normal((60, 80), torch.float32, seed)[::2, ::2],
        normal((30, 45), torch.float32, seed)[:, 2:-3].flip(0),
        normal((4, 30, 3, 40), torch.float32, seed)[:, :, 1],
    ]:
        out = poisoned((*x.shape[:-2], x.shape[-1], x.shape[-2]), torch.float32).swapaxes(-1, -2)
        assert_close(stencil(x, weight, out), reference(x, weight), terms=9, scale=9)


def test_numpy_in_numpy_out():
    x = np.random.default_rng(fresh_seed()).normal(size=(11, 77))
    out = stencil(x, np.full(5, 0.25))
    assert isinstance(out, np.ndarray)
    padded = np.pad(x, 1)
    expected = (padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:] + x) / 4
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-14)


def test_wrong_arguments_are_named():
    x = torch.zeros(4, 8)
    for wrong in (torch.zeros(4), torch.zeros(3, 4)):
        with pytest.raises(vk.ArgumentError, match="weight"):
            stencil(x, wrong)
    with pytest.raises(vk.ArgumentError, match="out"):
        stencil(x, torch.zeros(3, 3), torch.zeros(4, 9))
    with pytest.raises(vk.ArgumentError, match="at least 2 dimensions"):
        stencil(torch.zeros(4), torch.zeros(3, 3))
    with pytest.raises(vk.Error, match="x"):
        stencil(x, torch.zeros(3, 3), x)
