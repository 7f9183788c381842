"""matmul equals torch in float64, with bias and activation, for every dtype, size and stride."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

import vkernels as vk
from vkernels.library import batched_matmul, matmul

from .reference import DTYPES, assert_close, every_dtype, fresh_seed, normal, poisoned, strided

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
    "none": lambda x: x,
    "relu": torch.relu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_matmul_is_right(size, dtype):
    m, k, n = size
    seed = fresh_seed()
    a, b, out = normal((m, k), dtype, seed), normal((k, n), dtype, seed + 1), poisoned((m, n), dtype)
    assert matmul(a, b, out=out) is out
    assert_close(out, a.double() @ b.double(), terms=k, scale=k**0.5)


@pytest.mark.sample(3)
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


@pytest.mark.slow
def test_any_strides():
    seed = fresh_seed()
    for a in strided((40, 300), torch.float32, seed):
        for b in strided((300, 150), torch.float32, seed + 1):
            assert_close(matmul(a, b), a.double() @ b.double(), terms=300, scale=20)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("of_a", "of_b"), [(False, True), (True, False), (True, True)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_transposed_operands(dtype, of_a, of_b):
    seed = fresh_seed()
    a = normal((129, 65), dtype, seed).t() if of_a else normal((65, 129), dtype, seed)
    b = normal((70, 129), dtype, seed).t() if of_b else normal((129, 70), dtype, seed)
    assert_close(matmul(a, b), a.double() @ b.double(), terms=129, scale=12)


@pytest.mark.sample(2)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    ("size", "dtype"),
    every_dtype([(3, 17, 31, 5), (1, 1, 1, 1), (5, 64, 33, 65), (0, 2, 3, 4), (7, 1, 0, 3), (2, 0, 5, 3)]),
)
def test_batches_are_right(size, dtype, shared):
    batch, m, k, n = size
    seed = fresh_seed()
    a, bias = normal((batch, m, k), dtype, seed), normal((n,), dtype, seed + 1)
    b = normal((n, k), dtype, seed + 2).t() if shared else normal((batch, n, k), dtype, seed + 2).swapaxes(1, 2)
    out = poisoned((batch, m, n), dtype)
    assert batched_matmul(a, b, bias, "silu", out=out) is out
    assert_close(out, functional.silu(a.double() @ b.double() + bias.double()), terms=k + 1, scale=8 * max(1, k) ** 0.5)


def test_batches_of_any_strides():
    a = normal((7, 5, 6), torch.float32, fresh_seed()).permute(1, 0, 2)
    out = poisoned((9, 7, 5), torch.float32).permute(2, 1, 0)
    for b in (normal((6, 9), torch.float32, 1), normal((9, 6, 5), torch.float32, 2).permute(2, 1, 0)):
        assert_close(batched_matmul(a, b, out=out), a.double() @ b.double(), terms=6, scale=4)


@pytest.mark.slow
def test_results_may_have_another_dtype():
    a, b = (normal((40, 40), torch.float16, fresh_seed() + n) for n in range(2))
    out, expected = poisoned((40, 40), torch.float32), a.double() @ b.double() + a[0].double()
    assert_close(matmul(a, b, a[0], out=out), expected, terms=40, scale=7)
    for dtype in (torch.bfloat16, torch.float64):
        found = batched_matmul(a[None], b, a[0], dtype=str(dtype).removeprefix("torch."))
        assert found.dtype == dtype
        tight = found.float() if dtype == torch.float64 else found  # products are added in f32
        assert_close(tight[0], expected, terms=40, scale=7)
    with pytest.raises(vk.ArgumentError, match="no dtype 'float17'"):
        matmul(a, b, dtype="float17")


@pytest.mark.parametrize("precision", [None, "ieee", "tf32"])
def test_a_cpu_keeps_every_bit_whatever_precision_is_allowed(precision):
    a, b = (normal((50, 50), torch.float32, fresh_seed() + n) for n in range(2))
    assert_close(matmul(a, b, precision=precision), a.double() @ b.double(), terms=50, scale=7)
    assert_close(batched_matmul(a[None], b, precision=precision)[0], a.double() @ b.double(), terms=50, scale=7)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_products_of_eight_bits(dtype):
    a, b = (normal((40, 40), torch.float32, fresh_seed() + n).to(dtype) for n in range(2))
    expected = a.double() @ b.double()
    assert_close(matmul(a, b), expected, terms=40, scale=7)
    out = torch.full((40, 40), 7.0).to(dtype)
    matmul(a, b, out=out)
    assert (out.double() - expected).abs().max() <= (expected.abs().max() * torch.finfo(dtype).eps)


def test_infinities_and_nan():
    a, b = torch.ones(4, 4), torch.ones(4, 4)
    a[0, 0], b[1, 1], a[2, 2] = float("inf"), float("nan"), float("-inf")
    torch.testing.assert_close(matmul(a, b), a @ b, equal_nan=True)


def test_wrong_arguments_are_named():
    with pytest.raises(vk.ArgumentError, match=r"b has shape \(5, 6\), expected 4 × N"):
        matmul(torch.zeros(3, 4), torch.zeros(5, 6))
    with pytest.raises(vk.ArgumentError, match="swish"):
        matmul(torch.zeros(3, 4), torch.zeros(4, 6), activation="swish")
    with pytest.raises(vk.ArgumentError, match="tf33"):
        matmul(torch.zeros(3, 4), torch.zeros(4, 6), precision="tf33")
    with pytest.raises(vk.ArgumentError, match="expected 2 dimensions: M × K"):
        matmul(torch.zeros(4), torch.zeros(4, 6))
    with pytest.raises(vk.ArgumentError, match="expected 3 dimensions: B × M × K"):
        batched_matmul(torch.zeros(3, 4), torch.zeros(4, 6))
    with pytest.raises(vk.ArgumentError, match=r"b has shape \(3, 4, 6\), expected 2 × 4 × N"):
        batched_matmul(torch.zeros(2, 3, 4), torch.zeros(3, 4, 6))
    a = torch.zeros(4, 4)
    with pytest.raises(vk.ArgumentError, match="out is a"):
        matmul(a, torch.zeros(4, 4), out=a)
