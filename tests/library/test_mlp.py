"""The fused MLP equals torch in float64, for every dtype, size and stride."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import vkernels as vk
from vkernels.library import mlp

from .reference import DTYPES, EPSILON, assert_close, fresh_seed, normal, poisoned, strided
from .test_dense import ACTIVATIONS

SIZES = [(1, 1, 1, 1), (2, 3, 4, 5), (17, 31, 65, 9), (65, 64, 130, 33), (100, 129, 300, 70), (1, 200, 700, 1)]


def operands(sizes: tuple[int, int, int, int], dtype: torch.dtype, seed: int) -> list[torch.Tensor]:
    """x, w1, b1, w2, b2, scaled so that hidden values are around one."""
    m, k, h, n = sizes
    shapes = (m, k), (k, h), (h,), (h, n), (n,)
    x, w1, b1, w2, b2 = (normal(shape, torch.float64, seed + number) for number, shape in enumerate(shapes))
    return [tensor.to(dtype) for tensor in (x, w1 / max(1, k) ** 0.5, b1, w2, b2)]


def reference(x, w1, b1, w2, b2, activation="relu") -> torch.Tensor:
    """In float64, but for hidden values, which are rounded to the dtype as they are in the kernel."""
    hidden = ACTIVATIONS[activation](x.double() @ w1.double() + b1.double())
    return hidden.to(x.dtype).double() @ w2.double() + b2.double()


def scale_of(x: torch.Tensor, inputs: int, hidden: int) -> float:
    """Errors of sums of so many terms; and where hidden values have 16 bits, of those that round to a neighbour."""
    flips = EPSILON[x.dtype] / EPSILON[torch.float32] / 16 if EPSILON[x.dtype] > EPSILON[torch.float32] else 0
    return (inputs * hidden) ** 0.5 + flips


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", SIZES)
def test_mlp_is_right(sizes, dtype):
    arguments = operands(sizes, dtype, fresh_seed())
    out = poisoned((sizes[0], sizes[3]), dtype)
    assert mlp(*arguments, out=out) is out
    scale = scale_of(out, sizes[1], sizes[2])
    assert_close(out, reference(*arguments), terms=sizes[1] * sizes[2], scale=scale)


@pytest.mark.sample(1)
@pytest.mark.parametrize("activation", [name for name in ACTIVATIONS if name])
def test_activations(activation):
    arguments = operands((33, 40, 150, 50), torch.float32, fresh_seed())
    expected = reference(*arguments, activation)
    assert_close(mlp(*arguments, activation), expected, terms=6000, scale=20)


def test_without_biases_and_activation():
    x, w1, _, w2, _ = operands((9, 20, 30, 10), torch.float32, fresh_seed())
    expected = x.double() @ w1.double() @ w2.double()
    assert_close(mlp(x, w1, None, w2, activation="none"), expected, terms=600, scale=25)


@pytest.mark.parametrize("sizes", [(0, 3, 4, 5), (3, 0, 4, 5), (3, 4, 0, 5), (3, 4, 5, 0)])
def test_empty(sizes):
    arguments = operands(sizes, torch.float32, fresh_seed())
    assert_close(mlp(*arguments), reference(*arguments), terms=20, scale=5)


@pytest.mark.thorough  # its code takes 20 s to compile
def test_hidden_values_that_do_not_fit_in_a_cores_cache_are_kept_in_memory():
    hidden = 70_001
    arguments = operands((40, 5, hidden, 30), torch.float32, fresh_seed())
    assert_close(mlp(*arguments), reference(*arguments), terms=hidden, scale=hidden**0.5)


@pytest.mark.slow
def test_any_strides():
    seed = fresh_seed()
    _, _, b1, w2, b2 = operands((30, 50, 140, 60), torch.float32, seed)
    for first in strided((50, 140), torch.float32, seed):
        for second in (w2, w2.t().contiguous().t()):
            out = poisoned((60, 30), torch.float32).t()
            rows = normal((50, 30), torch.float32, seed).t()
            mlp(rows, first, b1, second, b2, out=out)
            assert_close(out, reference(rows, first, b1, second, b2), terms=7000, scale=90)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_result_has_memory_of_its_own(dtype):
    x, *others = operands((40, 30, 70, 30), dtype, fresh_seed())
    with pytest.raises(vk.ArgumentError, match="out is x"):
        mlp(x, *others, out=x)


def test_numpy_in_numpy_out():
    arguments = operands((5, 6, 7, 8), torch.float64, fresh_seed())
    out = mlp(*(tensor.numpy() for tensor in arguments))
    assert isinstance(out, np.ndarray)
    assert_close(torch.from_numpy(out), reference(*arguments), terms=42, scale=7)


def test_wrong_arguments_are_named():
    x, w1, b1, w2, b2 = operands((4, 4, 4, 4), torch.float32, 0)
    with pytest.raises(vk.ArgumentError, match="swish"):
        mlp(x, w1, b1, w2, b2, "swish")
    with pytest.raises(vk.ArgumentError, match="w2"):
        mlp(x, w1, b1, w2[:3], b2)
    with pytest.raises(vk.ArgumentError, match="out is w1"):
        mlp(x, w1, b1, w2, b2, out=w1)
