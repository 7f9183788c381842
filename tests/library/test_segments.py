"""Segment sums and sparse products equal float64, for every dtype, lengths and stride; wrong indices are refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import vkernels as vk
from vkernels.library import csr_matmul, segment_sum

from .reference import DTYPES, assert_close, fresh_seed, normal, poisoned, strided

LENGTHS = {
    "one": [1],
    "empty ones": [0, 0, 3, 0],
    "all empty": [0, 0, 0],
    "none": [],
    "odd": [5, 31, 32, 33, 1, 64, 65],
    "one long": [2, 40_000, 0, 7],
    "many": [n % 23 for n in range(1000)],
}


def starts_of(lengths: list[int], dtype: torch.dtype = torch.int32, first: int = 0) -> torch.Tensor:
    return torch.tensor([first, *lengths]).cumsum(0).to(dtype)


def sums(value: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    rows = [value[a:b].double().sum(0) for a, b in zip(start[:-1].tolist(), start[1:].tolist(), strict=True)]
    return torch.stack(rows) if rows else value.new_zeros((0, *value.shape[1:]), dtype=torch.float64)


def largest(added: torch.Tensor) -> float:
    """Of what is added up, which a sum may be but little of."""
    return float(added.abs().max()) if added.numel() else 0.0


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_segment_sum_is_right(lengths, dtype):
    seed = fresh_seed()
    start = starts_of(lengths, torch.int64 if seed % 2 else torch.int32, first=seed % 3)
    values, longest = int(start[-1]) + seed % 4, max([1, *lengths])
    for columns in ((), (1,), (37,)):
        value = normal((values, *columns), dtype, seed)
        out = poisoned((len(lengths), *columns), dtype)
        assert segment_sum(value, start, out) is out
        assert_close(out, sums(value, start), terms=longest, scale=longest**0.5, added=largest(value))


@pytest.mark.sample(1)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_csr_matmul_is_right(lengths, dtype):
    """Without and with a bias, and an activation."""
    seed = fresh_seed()
    start, longest = starts_of(lengths), max([1, *lengths])
    values = int(start[-1])
    column = torch.randint(0, 19, (values,), generator=torch.Generator().manual_seed(seed), dtype=torch.int32)
    for columns in (1, 37, 200):
        value, dense = normal((values,), dtype, seed), normal((19, columns), dtype, seed + 1)
        out = poisoned((len(lengths), columns), dtype)
        assert csr_matmul(start, column, value, dense, out=out) is out
        products = value.double()[:, None] * dense.double()[column.long()]
        expected = sums(products, start)
        assert_close(out, expected, terms=longest, scale=longest**0.5, added=largest(products))
        bias, out = normal((len(lengths),), dtype, seed + 2), poisoned((len(lengths), columns), dtype)
        csr_matmul(start, column, value, dense, bias, "silu", out)
        expected = torch.nn.functional.silu(expected + bias.double()[:, None])
        assert_close(out, expected, terms=longest, scale=2 * longest**0.5, added=largest(products))


def test_any_strides():
    seed = fresh_seed()
    start = starts_of([3, 0, 40, 7])
    for value in strided((50, 30), torch.float32, seed):
        assert_close(segment_sum(value, start), sums(value, start), terms=40, scale=7)
        assert_close(segment_sum(value[:, 3], start), sums(value[:, 3], start), terms=40, scale=7)
        column = torch.arange(100, dtype=torch.int64)[::2] % 50
        expected = sums(value[:, :1].double() * value.double()[column], start)
        assert_close(csr_matmul(start, column, value[:, 0], value), expected, terms=40, scale=7)


def test_a_segment_never_sees_its_neighbours():
    value = torch.ones(100)
    value[[9, 43]] = float("nan")
    out = segment_sum(value, torch.tensor([0, 9, 10, 43, 44, 100]))
    torch.testing.assert_close(out, torch.tensor([9, float("nan"), 33, float("nan"), 56]), equal_nan=True)


def test_numpy_in_numpy_out():
    value = np.random.default_rng(fresh_seed()).normal(size=50)
    out = segment_sum(value, np.array([0, 20, 50]))
    assert isinstance(out, np.ndarray)
    np.testing.assert_allclose(out, [value[:20].sum(), value[20:].sum()], rtol=0, atol=1e-13)
    dense = np.eye(50)
    product = csr_matmul(np.array([0, 20, 50]), np.arange(50), value, dense)
    np.testing.assert_allclose(product, np.stack([value * (np.arange(50) < 20), value * (np.arange(50) >= 20)]))


@pytest.mark.parametrize("start", [[0, 5, 3, 9], [-1, 5, 9], [0, 11], [3, 2]])
def test_starts_out_of_order_or_range_are_refused(start):
    with pytest.raises(vk.ArgumentError, match="start"):
        segment_sum(torch.ones(10), torch.tensor(start))
    with pytest.raises(vk.ArgumentError, match="start"):
        csr_matmul(torch.tensor(start), torch.zeros(10, dtype=torch.int64), torch.ones(10), torch.ones(3, 4))


def test_wrong_arguments_are_named():
    start, value = torch.tensor([0, 2]), torch.ones(2)
    for column in ([0, 3], [-1, 0]):
        with pytest.raises(vk.ArgumentError, match="column holds"):
            csr_matmul(start, torch.tensor(column), value, torch.ones(3, 4))
    with pytest.raises(vk.ArgumentError, match="bias"):
        csr_matmul(start, torch.tensor([0, 1]), value, torch.ones(3, 4), torch.ones(2))
    with pytest.raises(vk.ArgumentError, match="csr_matmul: activation is 'cube'"):
        csr_matmul(start, torch.tensor([0, 1]), value, torch.ones(3, 4), activation="cube")
    with pytest.raises(vk.ArgumentError, match="start has shape"):
        segment_sum(value, torch.zeros(0, dtype=torch.int64))
    with pytest.raises(vk.ArgumentError, match=r"out has shape \(3,\), expected \(1,\)"):
        segment_sum(value, start, torch.zeros(3))
    with pytest.raises(vk.ArgumentError, match="start"):
        segment_sum(value, torch.tensor([0.0, 2.0]))
    with pytest.raises(vk.ArgumentError, match="value has shape"):
        segment_sum(torch.ones(2, 2, 2), start)
