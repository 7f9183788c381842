"""Gradients of grouped products and mixtures of experts equal torch's in float64, for every dtype and share of rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

import vkernels as vk
from vkernels.library import grouped_matmul, mixture_of_experts
from vkernels.library.experts import grouped_matmul_backward, mixture_of_experts_backward

from .gradients import assert_gradients, exact_gradients
from .reference import assert_close, every_dtype, fresh_seed, normal
from .test_experts import CASES


def of_groups(x, weight, bias, start, row, activation):
    parts = [
        activation(x[row[a:b]] @ weight[g] + bias[g])
        for g, (a, b) in enumerate(zip(start[:-1].tolist(), start[1:].tolist(), strict=True))
    ]
    return torch.cat(parts)


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize(("case", "dtype"), every_dtype(CASES))
def test_gradients_of_grouped_products_are_right(case, dtype):
    seed, (lengths, inner, columns) = fresh_seed(), case
    rows, groups = sum(lengths), len(lengths)
    x, weight = normal((rows + 3, inner), dtype, seed), normal((groups, columns, inner), dtype, seed + 1).swapaxes(1, 2)
    bias, grad = normal((groups, columns), dtype, seed + 2), normal((rows, columns), dtype, seed + 3)
    generator = torch.Generator().manual_seed(seed)
    row = torch.randint(0, rows + 3, (rows,), generator=generator)  # some rows more than once, some never
    start = torch.tensor([0, *np.cumsum(lengths).tolist()])
    expected = exact_gradients(
        lambda x, weight, bias: of_groups(x, weight, bias, start, row, functional.gelu), grad, x, weight, bias
    )
    found = grouped_matmul_backward(grad, x, weight, start, bias, "gelu", row)
    for gradient, exact, terms in zip(found, expected, (columns, rows, rows), strict=True):
        assert_close(gradient, exact, terms=2 * terms + 2, scale=8.0, added=8.0 * max(1, terms) ** 0.5)


def test_rows_may_stand_in_the_order_of_groups():
    x, weight, grad = (normal(size, torch.float32, 3 + n) for n, size in enumerate([(9, 4), (2, 4, 5), (9, 5)]))
    start = torch.tensor([0, 3, 9])
    expected = exact_gradients(
        lambda x, weight: of_groups(x, weight, torch.zeros(2, 5), start, torch.arange(9), torch.relu), grad, x, weight
    )
    of_x, of_weight, of_bias = grouped_matmul_backward(grad, x, weight, start, None, "relu")
    assert of_bias is None
    assert_close(of_x, expected[0], terms=5, scale=8.0)
    assert_close(of_weight, expected[1], terms=9, scale=8.0)


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("case", "dtype"), every_dtype([(20, 2, 4, 12, 17, 9), (1, 1, 1, 1, 1, 1), (37, 3, 8, 5, 7, 4)])
)
def test_gradients_of_mixtures_are_right(case, dtype):
    seed, (tokens, choices, experts, inner, hidden, columns) = fresh_seed(), case
    generator = torch.Generator().manual_seed(seed)
    expert = torch.rand((tokens, experts), generator=generator).topk(choices).indices
    shapes = [
        (tokens, inner), (tokens, choices), (experts, inner, hidden), (experts, hidden, columns), (experts, hidden),
        (experts, columns), (tokens, columns),
    ]  # fmt: skip
    x, gate, w1, w2, b1, b2, grad = (normal(shape, dtype, seed + n) for n, shape in enumerate(shapes))

    def mixture(x, gate, w1, w2, b1, b2):
        between = functional.silu(torch.einsum("tk,tckh->tch", x, w1[expert]) + b1[expert])
        return (gate[..., None] * (torch.einsum("tch,tchn->tcn", between, w2[expert]) + b2[expert])).sum(1)

    expected = exact_gradients(mixture, grad, x, gate, w1, w2, b1, b2)
    found = mixture_of_experts_backward(grad, x, expert, gate, w1, w2, b1, b2, "silu")
    for gradient, exact in zip(found, expected, strict=True):
        # what lies between is rounded to x's dtype three times on the way
        assert_close(gradient, exact, terms=tokens * hidden, scale=32.0, added=4 * float(exact.abs().max()) + 1)


@pytest.mark.slow
def test_gradients_are_those_of_differences():
    seed = fresh_seed()
    start, row = torch.tensor([0, 2, 2, 5]), torch.tensor([3, 1, 0, 3, 2])
    given = [normal(size, torch.float64, seed + n) for n, size in enumerate([(4, 2), (3, 2, 3), (3, 3)])]
    assert_gradients(
        lambda x, weight, bias: grouped_matmul(x, weight, start, bias, "tanh", row),
        lambda grad, x, weight, bias: grouped_matmul_backward(grad, x, weight, start, bias, "tanh", row),
        *given,
    )
    expert, sizes = torch.tensor([[0, 1], [1, 2], [2, 0]]), [(3, 2), (3, 2), (3, 2, 3), (3, 3, 2), (3, 3), (3, 2)]
    given = [normal(size, torch.float64, seed + n) for n, size in enumerate(sizes)]
    assert_gradients(
        lambda x, gate, w1, w2, b1, b2: mixture_of_experts(x, expert, gate, w1, w2, b1, b2),
        lambda grad, x, gate, w1, w2, b1, b2: mixture_of_experts_backward(grad, x, expert, gate, w1, w2, b1, b2),
        *given,
    )


def test_numpy_in_numpy_out():
    x, weight = np.ones((4, 2)), np.ones((2, 2, 3))
    of_x, of_weight, _ = grouped_matmul_backward(np.ones((4, 3)), x, weight, np.array([0, 1, 4]))
    np.testing.assert_array_equal(of_x, np.full((4, 2), 3.0))
    np.testing.assert_array_equal(of_weight, np.array([1.0, 3.0])[:, None, None] * np.ones((2, 3)))


def test_wrong_arguments_are_named():
    x, weight, start = torch.zeros(9, 4), torch.zeros(2, 4, 4), torch.tensor([0, 1, 9])
    with pytest.raises(vk.ArgumentError, match="grad has shape"):
        grouped_matmul_backward(torch.zeros(8, 4), x, weight, start)
    with pytest.raises(vk.ArgumentError, match="activation is 'relo'"):
        grouped_matmul_backward(x, x, weight, start, activation="relo")
    with pytest.raises(vk.ArgumentError, match="row holds"):
        grouped_matmul_backward(x, x, weight, start, row=torch.full((9,), 9))
    with pytest.raises(vk.ArgumentError, match=r"start has shape \(2,\), expected \(3,\)"):
        grouped_matmul_backward(x, x, weight, torch.tensor([0, 9]))
