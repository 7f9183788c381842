"""matmul equals torch in float64, with bias and activation, for every dtype, size and stride."""

from __future__ import annotations

import pytest
import torch

import vkernels as vk
from vkernels.library import matmul

from .reference import DTYPES, assert_close, fresh_seed, normal, poisoned, strided

SIZES = [
    (1, 1, 1),
    (2, 3, 4),
    (17, 31, 5),
    (65, 64, 130),
    (130, 300, 129),
    (1, 500, 200),
    (200, 700, 1),
    (256, 256, 256),
]
ACTIVATIONS = {
    None: lambda x: x,
    "relu": torch.relu,
    "gelu": torch.nn.functional.gelu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_matmul_is_right(size, dtype):
    m, k, n = size
    seed = fresh_seed()
    a, b, out = normal((m, k), dtype, seed), normal((k, n), dtype, seed + 1), poisoned((m, n), dtype)
    assert matmul(a, b, out=out) is out
    assert_close(out, a.double() @ b.double(), terms=k, scale=k**0.5)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_bias_and_activation(activation):
    seed = fresh_seed()
    a, b, bias = (normal(s, torch.float32, seed + n) for n, s in enumerate([(33, 40), (40, 50), (50,)]))
    expected = ACTIVATIONS[activation](a.double() @ b.double() + bias.double())
    assert_close(matmul(a, b, bias, activation), expected, terms=40, scale=8)


def test_empty():
    for m, k, n in ((0, 3, 4), (3, 0, 4), (3, 4, 0)):
        out = matmul(torch.ones(m, k), torch.ones(k, n))
        assert out.shape == (m, n)
        assert (out == 0).all() or k > 0


def test_any_strides():
    seed = fresh_seed()
    for a in strided((40, 300), torch.float32, seed):
        for b in strided((300, 150), torch.float32, seed + 1):
            assert_close(matmul(a, b), a.double() @ b.double(), terms=300, scale=20)


def test_infinities_and_nan():
    a, b = torch.ones(4, 4), torch.ones(4, 4)
    a[0, 0], b[1, 1], a[2, 2] = float("inf"), float("nan"), float("-inf")
    torch.testing.assert_close(matmul(a, b), a @ b, equal_nan=True)


def test_wrong_arguments_are_named():
    with pytest.raises(vk.ArgumentError, match="K"):
        matmul(torch.zeros(3, 4), torch.zeros(5, 6))
    with pytest.raises(vk.ArgumentError, match="swish"):
        matmul(torch.zeros(3, 4), torch.zeros(4, 6), activation="swish")
