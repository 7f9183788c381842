"""cumulative_sum equals long double, for every dtype, size and stride."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import vkernels as vk
from vkernels.library import cumulative_sum

from .reference import DTYPES, assert_close, fresh_seed, normal, poisoned, strided

SHAPES = [
    (1, 1),
    (3, 5),
    (17, 33),
    (64, 16),
    (5, 127),
    (3, 129),
    (2, 1000),
    (7, 4097),
    (1, 70001),
    (1, 1 << 21),
    (3, 1 << 21),
]


def reference(x: torch.Tensor) -> torch.Tensor:
    """In long double: torch adds one after another, in float64."""
    rows = x.double().numpy().astype(np.longdouble)
    return torch.from_numpy(rows.cumsum(-1).astype(np.float64))


def tolerance_of(x: torch.Tensor) -> float:
    """How much larger than the results their errors may be: they follow the sum of magnitudes, which cancel."""
    total = x.double().abs().sum(-1).max() if x.numel() else torch.tensor(1.0)
    return float(total / reference(x).abs().max().clamp(min=1e-300)) if x.numel() else 1.0


@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_cumulative_sum_is_right(shape, dtype):
    x = normal(shape, dtype, fresh_seed())
    out = poisoned(shape, dtype)
    assert cumulative_sum(x, out) is out
    assert_close(out, reference(x), terms=shape[-1], scale=tolerance_of(x))


@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize("columns", [0, 1, 40, 300])
def test_empty_and_tiny_inputs(rows, columns):
    x = normal((rows, columns), torch.float32, fresh_seed())
    assert_close(cumulative_sum(x), reference(x), terms=max(1, columns), scale=tolerance_of(x))


def test_any_strides_rank_and_out():
    seed = fresh_seed()
    for view in strided((37, 203), torch.float32, seed):
        out = strided((37, 203), torch.float32, seed)[0]
        assert_close(cumulative_sum(view, out), reference(view), terms=203, scale=tolerance_of(view))
    x = normal((4, 6, 40), torch.float32, seed)
    out = poisoned((6, 4, 40), torch.float32).transpose(0, 1)
    assert cumulative_sum(x, out) is out
    assert_close(out, reference(x), terms=40, scale=tolerance_of(x))


@pytest.mark.slow
def test_in_place():
    for columns in (16, 1000, 1 << 21):
        x = normal((3, columns), torch.float32, fresh_seed())
        expected, scale = reference(x), tolerance_of(x)
        assert_close(cumulative_sum(x, out=x), expected, terms=columns, scale=scale)


@pytest.mark.parametrize("columns", [70, 1 << 21])
def test_nan_and_infinity_reach_all_that_follows_and_nothing_before(columns):
    x = torch.zeros(3, columns)
    x[0, columns // 2], x[1, 3] = float("nan"), float("inf")
    x[2, 3], x[2, 40] = float("inf"), float("-inf")
    torch.testing.assert_close(cumulative_sum(x), torch.cumsum(x, -1), equal_nan=True)


def test_numpy_in_numpy_out():
    x = np.random.default_rng(fresh_seed()).normal(size=(11, 77))
    out = cumulative_sum(x)
    assert isinstance(out, np.ndarray)
    np.testing.assert_allclose(out, x.cumsum(-1), rtol=0, atol=1e-13)


def test_wrong_arguments_are_named():
    with pytest.raises(vk.ArgumentError, match="out"):
        cumulative_sum(torch.zeros(4, 8), torch.zeros(4, 9))
    with pytest.raises(vk.ArgumentError, match="x"):
        cumulative_sum(torch.zeros(4, 8, dtype=torch.int32))
