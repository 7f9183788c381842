"""Gradients of sparse products equal torch's in float64, for every dtype and size, and are the same bits every time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

import vkernels as vk
from vkernels.library import block_matmul, csr_matmul, ell_matmul, sampled_matmul
from vkernels.library.sparse_products_gradients import (
    block_matmul_backward,
    csr_matmul_backward,
    ell_matmul_backward,
    sampled_matmul_backward,
)
from vkernels.library.transposes import csr_transpose, ell_transpose, pair_transposes

from .gradients import assert_gradients, exact_gradients
from .reference import assert_close, every_dtype, fresh_seed, normal
from .test_sparse_products import indices, starts

CSR = [(9, 40, 7, 30), (1, 1, 1, 1), (31, 200, 45, 17), (0, 3, 4, 5), (5, 0, 4, 7), (65, 127, 1, 1)]
BLOCKS = [(9, 11, 30, 4, 8, 50), (1, 1, 1, 1, 1, 1), (6, 5, 17, 16, 16, 33), (3, 2, 0, 4, 4, 9)]


def some_rows(rows: int, elements: int, seed: int) -> torch.Tensor:
    """Starts of rows that leave out what comes first and last."""
    return (starts(rows, elements, seed) if rows else torch.zeros(1, dtype=torch.int64)).clamp(1, max(1, elements - 1))


def by_rows(start: torch.Tensor, products: torch.Tensor) -> torch.Tensor:
    """Sums of the elements of each row, so that torch can differentiate them."""
    sums = [products[a:b].sum(0) for a, b in zip(start[:-1].tolist(), start[1:].tolist(), strict=True)]
    return torch.stack(sums) if sums else products.new_zeros((0, *products.shape[1:]))


def bound(expected: torch.Tensor, terms: int) -> float:
    """What sums of so many products of normal numbers are the rest of."""
    return 16.0 * max(1, terms) ** 0.5 if expected.numel() else 0.0


@pytest.mark.sample(2)
@pytest.mark.parametrize("activation", ["none", "sigmoid"])
@pytest.mark.parametrize(("sizes", "dtype"), every_dtype(CSR))
def test_gradients_of_csr_are_right(sizes, dtype, activation):
    torchs = torch.sigmoid if activation == "sigmoid" else lambda x: x
    seed, (rows, elements, inner, columns) = fresh_seed(), sizes
    start = starts(rows, elements, seed) if elements < 3 else some_rows(rows, elements, seed)
    column, value = indices((elements,), inner, seed + 1), normal((elements,), dtype, seed + 2)
    dense, grad = normal((inner, columns), dtype, seed + 3), normal((rows, columns), dtype, seed + 4)
    bias = normal((rows,), dtype, seed + 5)

    def products(value, dense, bias):
        return torchs(by_rows(start, value[:, None] * dense[column]) + bias[:, None])

    expected = exact_gradients(products, grad, value, dense, bias)
    found = csr_matmul_backward(grad, start, column, value, dense, bias, activation)
    for gradient, exact, terms in zip(found, expected, (columns, elements, columns), strict=True):
        assert_close(gradient, exact, terms=terms, scale=8.0, added=bound(exact, terms))
    assert csr_matmul_backward(grad, start, column, value, dense)[2] is None
    transpose = csr_transpose(start, column, inner)
    again = csr_matmul_backward(grad, start.int(), column.int(), value, dense, bias, activation, transpose)
    assert all(torch.equal(*pair) for pair in zip(found, again, strict=True))


@pytest.mark.sample(2)
@pytest.mark.parametrize("activation", ["none", "gelu"])
@pytest.mark.parametrize(
    ("sizes", "dtype"), every_dtype([(21, 5, 40, 33), (1, 1, 1, 1), (33, 8, 17, 20), (0, 3, 4, 5), (5, 0, 4, 7)])
)
def test_gradients_of_ell_are_right(sizes, dtype, activation):
    seed, (rows, along, inner, columns) = fresh_seed(), sizes
    torchs = functional.gelu if activation == "gelu" else lambda x: x
    column, value = indices((rows, along), inner, seed), normal((rows, along), dtype, seed + 1)
    dense, bias = normal((inner, columns), dtype, seed + 2), normal((rows,), dtype, seed + 3)
    grad = normal((rows, columns), dtype, seed + 4)

    def products(value, dense, bias):
        return torchs(torch.einsum("rl,rlc->rc", value, dense[column]) + bias[:, None])

    expected = exact_gradients(products, grad, value, dense, bias)
    found = ell_matmul_backward(grad, column, value, dense, bias, activation, ell_transpose(column, inner))
    for gradient, exact, terms in zip(found, expected, (columns, rows * along, columns), strict=True):
        assert_close(gradient, exact, terms=terms, scale=4.0, added=bound(exact, terms))
    assert ell_matmul_backward(grad, column, value, dense)[2] is None


@pytest.mark.sample(1)
@pytest.mark.parametrize("activation", ["none", "sigmoid"])
@pytest.mark.parametrize(("sizes", "dtype"), every_dtype(BLOCKS))
def test_gradients_of_blocks_are_right(sizes, dtype, activation):
    seed, (rows, inner, blocks, down, across, columns) = fresh_seed(), sizes
    torchs = torch.sigmoid if activation == "sigmoid" else lambda x: x
    start = starts(rows, blocks, seed) if blocks < 3 else some_rows(rows, blocks, seed)
    column, block = indices((blocks,), inner, seed + 1), normal((blocks, down, across), dtype, seed + 2)
    dense, bias = normal((inner * across, columns), dtype, seed + 3), normal((rows * down,), dtype, seed + 4)
    grad = normal((rows * down, columns), dtype, seed + 5)

    def products(block, dense, bias):
        each = torch.einsum("epq,eqc->epc", block, dense.reshape(inner, across, columns)[column])
        return torchs(by_rows(start, each).reshape(rows * down, columns) + bias[:, None])

    expected = exact_gradients(products, grad, block, dense, bias)
    found = block_matmul_backward(grad, start, column, block, dense, bias, activation)
    for gradient, exact, terms in zip(found, expected, (columns, blocks * down, columns), strict=True):
        assert_close(gradient, exact, terms=terms, scale=8.0, added=bound(exact, terms))


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("sizes", "dtype"), every_dtype([(31, 45, 200, 40), (1, 1, 1, 1), (7, 9, 63, 127), (4, 4, 0, 5), (3, 3, 5, 0)])
)
def test_gradients_of_sampled_products_are_right(sizes, dtype):
    seed, (rows, columns, elements, inner) = fresh_seed(), sizes
    row, column = indices((elements,), rows, seed), indices((elements,), columns, seed + 1)
    value, a, b, grad = (
        normal(shape, dtype, seed + 2 + number)
        for number, shape in enumerate([(elements,), (rows, inner), (columns, inner), (elements,)])
    )
    expected = exact_gradients(lambda v, a, b: v * (a[row] * b[column]).sum(-1), grad, value, a, b)
    pairs = pair_transposes(row, column, rows, columns)
    found = sampled_matmul_backward(grad, row, column, value, a, b, pairs)
    for gradient, exact, terms in zip(found, expected, (inner, elements, elements), strict=True):
        assert_close(gradient, exact, terms=terms, added=4 * bound(exact, terms))
    again = sampled_matmul_backward(grad, row, column, value, a, b)
    assert all(torch.equal(*pair) for pair in zip(found, again, strict=True))


@pytest.mark.slow
def test_gradients_are_those_of_differences():
    seed = fresh_seed()
    start, column = torch.tensor([0, 2, 2, 5]), indices((5,), 4, seed)
    value, dense = normal((5,), torch.float64, seed), normal((4, 3), torch.float64, seed + 1)
    assert_gradients(
        lambda *given: csr_matmul(start, column, *given, "gelu_tanh"),
        lambda grad, *given: csr_matmul_backward(grad, start, column, *given, "gelu_tanh"),
        value, dense, normal((3,), torch.float64, seed + 3),
    )  # fmt: skip
    assert_gradients(
        lambda *given: sampled_matmul(column, column.flip(0), *given),
        lambda grad, *given: sampled_matmul_backward(grad, column, column.flip(0), *given),
        value, dense, normal((4, 3), torch.float64, seed + 2),
    )  # fmt: skip
    places, weight, bias = column[:4].reshape(2, 2), normal((2, 2), torch.float64, seed), value[:2]
    assert_gradients(
        lambda *given: ell_matmul(places, *given, "tanh"),
        lambda grad, *given: ell_matmul_backward(grad, places, *given, "tanh"),
        weight, dense, bias,
    )  # fmt: skip
    blocks, bias = normal((5, 2, 2), torch.float64, seed), normal((6,), torch.float64, seed)
    assert_gradients(
        lambda *given: block_matmul(start, column // 2, *given, "silu"),
        lambda grad, *given: block_matmul_backward(grad, start, column // 2, *given, "silu"),
        blocks, dense, bias,
    )  # fmt: skip


def test_what_is_in_no_row_gets_nothing_and_gives_nothing():
    start, column = torch.tensor([1, 2, 3]), torch.tensor([0, 1, 0, 0])
    value, dense = torch.tensor([float("nan"), 2.0, 3.0, float("inf")]), torch.full((2, 3), float("inf"))
    of_value, of_dense, _ = csr_matmul_backward(torch.ones(2, 3), start, column, value, dense)
    assert of_value.tolist() == [0.0, float("inf"), float("inf"), 0.0]
    assert of_dense.tolist() == [[3.0] * 3, [2.0] * 3]


def test_numpy_in_numpy_out():
    choose = np.random.default_rng(fresh_seed())
    start, column, value, dense = np.array([0, 2, 5]), choose.integers(0, 4, 5), choose.normal(size=5), np.eye(4)
    of_value, of_dense, _ = csr_matmul_backward(np.ones((2, 4)), start, column, value, dense)
    np.testing.assert_allclose(of_value, np.ones(5))
    np.testing.assert_allclose(of_dense, np.bincount(column, value, 4)[:, None] * np.ones(4), rtol=1e-12, atol=1e-13)
    places = column[:4].reshape(2, 2)
    assert isinstance(ell_matmul_backward(dense[:2], places, dense[:2, :2], dense)[0], np.ndarray)
    assert isinstance(sampled_matmul_backward(value, column, column, value, dense, dense)[1], np.ndarray)


def test_wrong_arguments_are_named():
    value, dense, start = torch.zeros(3), torch.zeros(4, 5), torch.tensor([0, 3])
    for message, call in {
        "column holds 0 to 4, expected 0 to 3": lambda: csr_matmul_backward(
            torch.zeros(1, 5), start, torch.tensor([0, 4, 1]), value, dense
        ),
        "grad has shape": lambda: csr_matmul_backward(torch.zeros(2, 5), start, torch.zeros(3).long(), value, dense),
        "activation is 'relo'": lambda: ell_matmul_backward(
            torch.zeros(1, 5), torch.zeros(1, 3).long(), value[None], dense, activation="relo"
        ),
        "row holds": lambda: sampled_matmul_backward(
            value, torch.tensor([0, 9, 0]), torch.zeros(3).long(), value, dense, dense
        ),
    }.items():
        with pytest.raises(vk.ArgumentError, match=message):
            call()
