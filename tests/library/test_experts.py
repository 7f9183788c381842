"""Grouped products and mixtures of experts equal the same in float64, for every dtype and share of rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

import vkernels as vk
from vkernels.library.experts import grouped_matmul, mixture_of_experts

from .reference import assert_close, every_dtype, fresh_seed, normal, poisoned

CASES = [
    ([13, 0, 67, 20], 24, 37), ([1], 1, 1), ([32, 33, 31], 16, 64), ([0, 0], 5, 6), ([100], 7, 9), ([5] * 5, 130, 3),
]  # fmt: skip


@pytest.mark.sample(2)
@pytest.mark.parametrize(("case", "dtype"), every_dtype(CASES))
def test_grouped_products_are_right(case, dtype):
    seed, (lengths, inner, columns) = fresh_seed(), case
    rows, groups = sum(lengths), len(lengths)
    x, weight = normal((rows + 3, inner), dtype, seed), normal((groups, columns, inner), dtype, seed + 1).swapaxes(1, 2)
    bias, row = normal((groups, columns), dtype, seed + 2), torch.randperm(rows + 3)[:rows]
    start = torch.tensor([0, *np.cumsum(lengths).tolist()])
    parts = [
        x[row[a:b]].double() @ weight[g].double() + bias[g].double()
        for g, (a, b) in enumerate(zip(start[:-1].tolist(), start[1:].tolist(), strict=True))
    ]
    out = grouped_matmul(x, weight, start, bias, "relu", row, poisoned((rows, columns), dtype))
    assert_close(out, torch.cat(parts).relu(), terms=inner + 1, scale=8.0)


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("case", "dtype"), every_dtype([(40, 2, 4, 12, 30, 9), (1, 1, 1, 1, 1, 1), (70, 3, 8, 16, 33, 16)])
)
def test_mixtures_are_right(case, dtype):
    seed, (tokens, choices, experts, inner, hidden, columns) = fresh_seed(), case
    generator = torch.Generator().manual_seed(seed)
    x, gate = normal((tokens, inner), dtype, seed), normal((tokens, choices), dtype, seed + 1).abs()
    expert = torch.rand((tokens, experts), generator=generator).topk(choices).indices
    w1, w2 = normal((experts, inner, hidden), dtype, seed + 2), normal((experts, hidden, columns), dtype, seed + 3)
    b1, b2 = normal((experts, hidden), dtype, seed + 4), normal((experts, columns), dtype, seed + 5)
    found = mixture_of_experts(x, expert, gate, w1, w2, b1, b2, "gelu")
    expected = torch.zeros(tokens, columns, dtype=torch.float64)
    for choice in range(choices):
        chosen = expert[:, choice]
        inner_ = torch.einsum("tk,tkh->th", x.double(), w1.double()[chosen]) + b1.double()[chosen]
        outer = (
            torch.einsum("th,thn->tn", functional.gelu(inner_).to(dtype).double(), w2.double()[chosen])
            + b2.double()[chosen]
        )
        expected += gate[:, choice, None].double() * outer.to(dtype).double()
    # what lies between is rounded to x's dtype twice, which moves it by a unit now and then
    largest = float(expected.abs().max())
    assert_close(found, expected, terms=inner * hidden, scale=64.0, added=4 * largest)


def test_all_tokens_may_choose_one_expert():
    x, weight = normal((100, 8), torch.float32, fresh_seed()), normal((5, 8, 8), torch.float32, 1)
    expert, gate = torch.full((100, 1), 3), torch.ones(100, 1)
    found = mixture_of_experts(x, expert, gate, weight, weight, activation="none")
    assert_close(found, x.double() @ weight[3].double() @ weight[3].double(), terms=64, scale=8.0)


def test_numpy_in_numpy_out():
    choose = np.random.default_rng(fresh_seed())
    x, weight = choose.normal(size=(9, 4)), choose.normal(size=(2, 4, 4))
    found = mixture_of_experts(x, np.arange(9)[:, None] % 2, np.ones((9, 1)), weight, weight, activation="none")
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(
        found, [row @ weight[n % 2] @ weight[n % 2] for n, row in enumerate(x)], rtol=1e-12, atol=1e-12
    )


def test_wrong_arguments_are_named():
    x, weight = torch.zeros(9, 4), torch.zeros(2, 4, 4)
    one = torch.zeros(9, 1, dtype=torch.int64)
    for message, call in {
        r"start has shape \(2,\), expected \(3,\)": lambda: grouped_matmul(x, weight, torch.tensor([0, 9])),
        "expected 3 starts that do not fall, from 0 to 9": lambda: grouped_matmul(x, weight, torch.tensor([0, 10, 9])),
        "row holds 0 to 9, expected 0 to 8": lambda: grouped_matmul(
            x, weight, torch.tensor([0, 1, 2]), row=torch.tensor([0, 9])
        ),
        "expert holds 2 to 2, expected 0 to 1": lambda: mixture_of_experts(x, one + 2, one.float(), weight, weight),
        r"expert has shape \(8, 1\), expected 9 × C": lambda: mixture_of_experts(
            x, one[:8], one[:8].float(), weight, weight
        ),
        "activation is 'relo'": lambda: grouped_matmul(x, weight, torch.tensor([0, 1, 9]), activation="relo"),
    }.items():
        with pytest.raises(vk.ArgumentError, match=message):
            call()
