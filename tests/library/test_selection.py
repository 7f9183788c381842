"""The largest elements of rows equal NumPy's stable order, for every dtype, size, number and stride."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import vkernels as vk
from vkernels.library import topk

from .reference import every_dtype, fresh_seed, normal, strided


def check(x: torch.Tensor, k: int) -> None:
    """Values and places are those of a stable sort in falling order, NaN first."""
    value, index = topk(x, k)
    falling = -x.double().numpy()
    order = np.lexsort((falling, ~np.isnan(falling)), axis=1)[:, :k]
    assert torch.equal(index, torch.from_numpy(order))
    torch.testing.assert_close(value, x.gather(1, index), rtol=0, atol=0, equal_nan=True)


@pytest.mark.sample(2)
@pytest.mark.parametrize("share", [0.05, 1.0])
@pytest.mark.parametrize(("shape", "dtype"), every_dtype([(7, 40), (1, 1), (33, 1009), (0, 40), (5, 0), (2, 30_011)]))
def test_any_number_is_right(shape, dtype, share):
    x = normal(shape, dtype, fresh_seed()).round(decimals=1)  # some are equal: the first comes first
    if x.numel() > 40:
        x[0, 3], x[0, 7], x[-1, 5], x[-1, 6] = float("nan"), float("nan"), float("inf"), -float("inf")
        x[0, 9], x[0, 11], x[-1, 9] = -float("nan"), float("inf"), -0.0
    check(x, int(np.ceil(share * shape[1])))


@pytest.mark.sample(2)
@pytest.mark.parametrize("k", [9, 64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("number", [float("-inf"), float("inf"), float("nan"), 0.0, -1e-45, 3e38])
def test_equal_elements_come_in_the_order_of_their_places(number, dtype, k):
    x = torch.full((3, 64), number, dtype=dtype)
    x[1, ::2], x[2, 5::3] = -0.0, float("nan")
    check(x, k)


@pytest.mark.slow
def test_any_strides():
    for view, k in zip(strided((37, 203), torch.float32, fresh_seed()), (50, 203, 3, 50), strict=True):
        check(view, k)


def test_places_of_no_number_are_left_out_where_there_are_enough_others():
    x = torch.tensor([[1.0, float("nan"), 3.0] + [-float("inf")] * 20])
    assert topk(x, 10)[1].tolist() == [[1, 2, 0, *range(3, 10)]]


def test_numpy_in_numpy_out():
    x = np.random.default_rng(fresh_seed()).normal(size=(4, 60))
    for k in (2, 20, 60):
        value, index = topk(x, k)
        np.testing.assert_array_equal(index, np.argsort(-x, axis=1)[:, :k])
        np.testing.assert_array_equal(value, np.take_along_axis(x, index, 1))


def test_wrong_arguments_are_named():
    for k in (-1, 9):
        with pytest.raises(vk.ArgumentError, match=f"k is {k}"):
            topk(torch.zeros(4, 8), k)
    with pytest.raises(vk.ArgumentError, match="x has shape"):
        topk(torch.zeros(8), 2)
    with pytest.raises(vk.ArgumentError, match="expected dtype"):
        topk(torch.zeros(2, 20, dtype=torch.int64), 12)
