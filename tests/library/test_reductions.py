"""Reductions, the largest elements and histograms equal torch, for every dtype, dimension, size and stride."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import vkernels as vk
from vkernels.library import reductions

from .reference import assert_close, every_dtype, fresh_seed, normal, strided

SHAPES = [(1,), (7, 5), (3, 4, 5), (1, 100_003), (1009, 2), (2, 70_001, 3), (0, 7), (64, 64), (5, 1, 3)]
INTEGERS = [torch.int64, torch.int32, torch.int8]


@pytest.mark.sample(2)
@pytest.mark.parametrize(("shape", "dtype"), every_dtype(SHAPES))
def test_sums_and_means_are_right_along_every_dimension(shape, dtype):
    x = normal(shape, dtype, fresh_seed())
    for dim in (None, *range(-len(shape), len(shape))):
        terms = x.numel() if dim is None else shape[dim]
        size = float((x.double().abs().sum() if dim is None else x.double().abs().sum(dim).max()) if x.numel() else 1)
        expected = x.double().sum() if dim is None else x.double().sum(dim)
        assert_close(reductions.sum(x, dim), expected, terms=terms, added=size)
        expected = x.double().mean() if dim is None else x.double().mean(dim)
        assert_close(reductions.mean(x, dim), expected, terms=terms, added=size / max(1, terms))


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize(("shape", "dtype"), every_dtype(SHAPES[:-2]))
def test_extremes_and_their_places_are_right(shape, dtype):
    x = normal(shape, dtype, fresh_seed()).round(decimals=1)  # some are equal: the first counts
    for dim in (None, *range(len(shape))):
        if dim is not None and shape[dim] == 0:
            continue
        if dim is None and x.numel() == 0:
            continue
        along = x.flatten() if dim is None else x
        at = 0 if dim is None else dim
        for name in ("max", "min"):
            assert torch.equal(getattr(reductions, name)(x, dim), getattr(along, f"a{name}")(at))
            found = getattr(reductions, f"arg{name}")(x, dim)
            first = torch.from_numpy(np.asarray(getattr(along.double().numpy(), f"arg{name}")(at)))
            assert torch.equal(found, first)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_added_in_int64(dtype):
    x = torch.randint(-100, 100, (13, 517), generator=torch.Generator().manual_seed(fresh_seed()), dtype=dtype)
    assert torch.equal(reductions.sum(x, 1), x.sum(1))
    assert torch.equal(reductions.max(x, 0), x.amax(0))
    assert torch.equal(reductions.argmin(x), torch.from_numpy(np.asarray(x.numpy().argmin())))


def test_dimensions_may_be_kept():
    x = normal((3, 4, 5), torch.float32, fresh_seed())
    assert reductions.sum(x, 1, keepdim=True).shape == (3, 1, 5)
    assert reductions.argmax(x, keepdim=True).shape == (1, 1, 1)


def test_nothing_adds_up_to_nothing():
    assert torch.equal(reductions.sum(torch.zeros(0, 3), 0), torch.zeros(3))
    assert reductions.mean(torch.zeros(0)).isnan()


def test_nan_is_the_extreme_and_infinities_add_up_as_in_torch():
    x = torch.zeros(3, 700)
    x[0, 400], x[0, 500], x[1, 3], x[2, 5], x[2, 6] = (
        float("nan"),
        float("nan"),
        float("inf"),
        float("inf"),
        -float("inf"),
    )
    for name in ("sum", "max", "min"):
        expected = getattr(x, {"sum": "sum"}.get(name, f"a{name}"))(1)
        torch.testing.assert_close(getattr(reductions, name)(x, 1), expected, equal_nan=True)
    assert reductions.argmax(x, 1).tolist() == [400, 3, 5]
    assert reductions.argmin(x, 1).tolist() == [400, 0, 6]


@pytest.mark.slow
def test_any_strides():
    for view in strided((37, 203), torch.float32, fresh_seed()):
        for dim in (0, 1):
            assert_close(reductions.sum(view, dim), view.double().sum(dim), terms=203, added=400.0)
            assert torch.equal(reductions.max(view, dim), view.amax(dim))


@pytest.mark.sample(2)
@pytest.mark.parametrize("k", [0, 1, 6, 40])
@pytest.mark.parametrize(("shape", "dtype"), every_dtype([(7, 40), (1, 5000), (0, 40), (33, 129)]))
def test_topk_is_right(shape, dtype, k):
    x = normal(shape, dtype, fresh_seed()).round(decimals=1)
    if x.numel():
        x[0, 3], x[0, 7], x[-1, 5], x[-1, 6] = float("nan"), float("nan"), float("inf"), -float("inf")
    value, index = reductions.topk(x, k)
    order = np.argsort(-x.double().nan_to_num(np.inf, 1e300, -1e300).numpy(), axis=1, kind="stable")[:, :k]
    assert torch.equal(index, torch.from_numpy(order))
    torch.testing.assert_close(value, x.gather(1, index), rtol=0, atol=0, equal_nan=True)


def test_rows_of_the_least_there_is_have_largest_elements_too():
    assert reductions.topk(torch.full((1, 9), -float("inf")), 3)[1].tolist() == [[0, 1, 2]]


@pytest.mark.parametrize(("shape", "dtype"), every_dtype([(1,), (1000,), (0, 3), (17, 70_001), (3, 5, 7)]))
def test_histograms_are_right(shape, dtype):
    x = (normal(shape, dtype, fresh_seed()) * 8).round() / 8  # what bins begin with counts exactly
    found = reductions.histogram(x, 32, -2.0, 2.0)
    inside = x.double().flatten()
    inside = inside[(inside >= -2) & (inside <= 2)]
    expected = torch.bincount(((inside + 2) * 8).long().clamp(max=31), minlength=32)
    assert torch.equal(found, expected)


def test_histograms_leave_out_what_is_no_number():
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.5, 1.0, 0.0, -0.1])
    assert reductions.histogram(x, 2, 0.0, 1.0).tolist() == [1, 2]


def test_numpy_in_numpy_out():
    x = np.random.default_rng(fresh_seed()).normal(size=(4, 6, 11))
    np.testing.assert_allclose(reductions.sum(x, 1), x.sum(1), rtol=1e-12, atol=1e-13)
    assert isinstance(reductions.topk(x[0], 2)[1], np.ndarray)
    assert reductions.histogram(x, 5, -9.0, 9.0).sum() == x.size


def test_wrong_arguments_are_named():
    x = torch.zeros(4, 8)
    for message, call in {
        "dim is 2, but x has 2": lambda: reductions.sum(x, 2),
        "mean: x has dtype int64": lambda: reductions.mean(x.long()),
        "expected elements": lambda: reductions.max(torch.zeros(0)),
        "k is 9": lambda: reductions.topk(x, 9),
        "bins is 0, expected an integer of at least 1": lambda: reductions.histogram(x, 0, 0.0, 1.0),
        "low is 1.0 and high is 1.0, expected low below high": lambda: reductions.histogram(x, 3, 1.0, 1.0),
    }.items():
        with pytest.raises(vk.ArgumentError, match=message):
            call()
