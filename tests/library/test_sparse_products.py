"""Products with sparse matrices and bags of embeddings equal the same in float64, for every dtype, size and stride."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

import vkernels as vk
from vkernels.library.segments import embedding_bag
from vkernels.library.sparse_products import block_matmul, ell_matmul, sampled_matmul

from .reference import assert_close, every_dtype, fresh_seed, normal, poisoned

TORCHS = {"none": lambda x: x, "relu": torch.relu, "gelu": torch.nn.functional.gelu}


def indices(shape, below: int, seed: int) -> torch.Tensor:
    return torch.randint(0, below, shape, generator=torch.Generator().manual_seed(seed))


def starts(rows: int, elements: int, seed: int) -> torch.Tensor:
    """So many rows of elements, some of them empty."""
    inner = indices((max(0, rows - 1),), elements + 1, seed).sort().values
    ends = [torch.zeros(1, dtype=torch.int64), inner] + ([torch.tensor([elements])] if rows else [])
    return torch.cat(ends)


@pytest.mark.sample(4)
@pytest.mark.parametrize("activation", TORCHS)
@pytest.mark.parametrize(
    ("sizes", "dtype"),
    every_dtype([(21, 5, 40, 33), (1, 1, 1, 1), (64, 32, 64, 100), (0, 3, 4, 5), (5, 0, 4, 7), (9, 4, 3, 1)]),
)
def test_ell_is_right(sizes, dtype, activation):
    seed, (rows, along, inner, columns) = fresh_seed(), sizes
    column, value = indices((rows, along), inner, seed), normal((rows, along), dtype, seed + 1)
    dense, bias = normal((columns, inner), dtype, seed + 2).t(), normal((rows,), dtype, seed + 3)
    sums = torch.einsum("rl,rlc->rc", value.double(), dense.double()[column]) + bias.double()[:, None]
    size = float(value.abs().double().sum(-1).max()) * float(dense.abs().max()) if sums.numel() and along else 0.0
    out = poisoned((rows, columns), dtype)
    assert ell_matmul(column, value, dense, bias, activation, out) is out
    assert_close(out, TORCHS[activation](sums), terms=along + 1, added=size)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("sizes", "dtype"),
    every_dtype(
        [(9, 11, 30, 4, 8, 50), (1, 1, 1, 1, 1, 1), (6, 5, 17, 16, 16, 33), (3, 2, 0, 4, 4, 9), (0, 3, 0, 2, 3, 4)]
    ),
)
def test_blocks_are_right(sizes, dtype):
    seed, (rows, inner, blocks, down, across, columns) = fresh_seed(), sizes
    start, column = starts(rows, blocks, seed), indices((blocks,), inner, seed + 1)
    block, dense = normal((blocks, down, across), dtype, seed + 2), normal((inner * across, columns), dtype, seed + 3)
    bias = normal((rows * down,), dtype, seed + 4)
    products = torch.einsum("epq,eqc->epc", block.double(), dense.double().reshape(inner, across, columns)[column])
    expected = torch.zeros(rows, down, columns, dtype=torch.float64)
    for row, (first, end) in enumerate(pairwise(start.tolist())):
        expected[row] = products[first:end].sum(0)
    expected = expected.reshape(rows * down, columns) + bias.double()[:, None]
    out = block_matmul(start, column, block, dense, bias, out=poisoned(expected.shape, dtype))
    assert_close(out, expected, terms=blocks * across, scale=8.0)


@pytest.mark.parametrize(
    ("sizes", "dtype"), every_dtype([(31, 45, 200, 40), (1, 1, 1, 1), (7, 9, 63, 128), (4, 4, 0, 5), (3, 3, 5, 0)])
)
def test_sampled_products_are_right(sizes, dtype):
    seed, (rows, columns, elements, inner) = fresh_seed(), sizes
    row, column = indices((elements,), rows, seed), indices((elements,), columns, seed + 1)
    value, a = normal((elements,), dtype, seed + 2), normal((rows, inner), dtype, seed + 3)
    b = normal((inner, columns), dtype, seed + 4).t()
    products = a.double()[row] * b.double()[column]
    size = float((products.abs().sum(-1) * value.double().abs()).max()) if elements and inner else 0.0
    out = sampled_matmul(row, column, value, a, b, poisoned((elements,), dtype))
    assert_close(out, products.sum(-1) * value.double(), terms=inner, added=size)


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", ["sum", "mean", "max"])
@pytest.mark.parametrize(
    ("sizes", "dtype"), every_dtype([(21, 45, 33, 100), (1, 1, 1, 1), (40, 9, 130, 77), (3, 2, 4, 0)])
)
def test_bags_are_right(sizes, dtype, kind):
    seed, (bags, rows, columns, elements) = fresh_seed(), sizes
    table, index, start = (
        normal((rows, columns), dtype, seed),
        indices((elements,), rows, seed),
        starts(bags, elements, seed),
    )
    exact = torch.nn.functional.embedding_bag(index, table.double(), start[:-1], mode=kind)
    out = embedding_bag(table, index, start, kind, poisoned((bags, columns), dtype))
    assert_close(out, exact, terms=max(1, elements), scale=4.0)


def test_numpy_in_numpy_out():
    choose = np.random.default_rng(fresh_seed())
    value, dense, column = choose.normal(size=(4, 3)), choose.normal(size=(6, 5)), choose.integers(0, 6, (4, 3))
    found = ell_matmul(column, value, dense)
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, np.einsum("rl,rlc->rc", value, dense[column]), rtol=1e-12, atol=1e-13)


def test_wrong_arguments_are_named():
    value, dense, index = torch.zeros(4, 3), torch.zeros(6, 5), torch.zeros(4, 3, dtype=torch.int64)
    start, six = torch.tensor([0, 1, 2]), torch.tensor([0, 6])
    for message, call in {
        "column holds 0 to 6, expected 0 to 5": lambda: ell_matmul(index + torch.tensor([0, 6, 0]), value, dense),
        "activation is 'relo'": lambda: ell_matmul(index, value, dense, activation="relo"),
        r"dense has shape \(6, 5\), expected K\*4 × 5": lambda: block_matmul(start, six, torch.zeros(2, 2, 4), dense),
        "column holds 0 to 6, expected 0 to 2": lambda: block_matmul(start, six, torch.zeros(2, 2, 2), dense),
        "start falls": lambda: block_matmul(torch.tensor([0, 2, 1]), six, torch.zeros(2, 2, 2), dense),
        "row holds": lambda: sampled_matmul(six, six, torch.zeros(2), dense, dense),
        "kind is 'avg'": lambda: embedding_bag(dense, six, start, "avg"),
        "index holds 0 to 6": lambda: embedding_bag(dense, six, start),
        "start holds 0 to 3, expected 0 to 2": lambda: embedding_bag(dense, six - six, torch.tensor([0, 3])),
    }.items():
        with pytest.raises(vk.ArgumentError, match=message):
            call()
