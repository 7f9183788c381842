"""Every library kernel equals torch in float64 on a real GPU: sizes of one, odd and large, every dtype and layout."""

from __future__ import annotations

import pytest
import torch

from vkernels.library import layer_norm, matmul, softmax
from vkernels.library.spdnn import spdnn, take_columns

from .reference import assert_close, fresh_seed, normal, poisoned, strided
from .test_dense import ACTIVATIONS
from .test_sparse import network, reference

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
ROWS = [(1, 1), (3, 37), (257, 1001), (1000, 4096), (65, 9001), (33, 100_000), (2, 1 << 21), (0, 8), (8, 0)]
MATMULS = [(1, 1, 1), (1, 3, 0), (17, 31, 65), (128, 128, 128), (1000, 1001, 999), (64, 2048, 4096), (0, 4, 4)]
ON = "cuda"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", ROWS)
def test_softmax_is_right(shape: tuple[int, int], dtype: torch.dtype) -> None:
    x, out = normal(shape, dtype, fresh_seed()).to(ON), poisoned(shape, dtype).to(ON)
    softmax(x, out=out)
    assert_close(out, torch.softmax(x.double(), -1), shape[1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", ROWS)
def test_layer_norm_is_right(shape: tuple[int, int], dtype: torch.dtype) -> None:
    seed = fresh_seed()
    x, out = normal(shape, dtype, seed).to(ON), poisoned(shape, dtype).to(ON)
    weight, bias = (normal(shape[1:], dtype, seed + n).to(ON) for n in (1, 2))
    layer_norm(x, weight, bias, out=out)
    exact = torch.nn.functional.layer_norm(x.double(), shape[1:], weight.double(), bias.double())
    assert_close(out, exact, shape[1], scale=8)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", MATMULS)
def test_matmul_is_right(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    seed, (m, n, k) = fresh_seed(), shape
    a, b = normal((m, k), dtype, seed).to(ON), normal((k, n), dtype, seed + 1).to(ON)
    bias, out = normal((n,), dtype, seed + 2).to(ON), poisoned((m, n), dtype).to(ON)
    matmul(a, b, bias, out=out)
    assert_close(out, a.double() @ b.double() + bias.double(), k, scale=8)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_are_right(activation: str) -> None:
    seed = fresh_seed()
    a, b = normal((70, 50), torch.float32, seed).to(ON), normal((50, 90), torch.float32, seed + 1).to(ON)
    exact = a.double() @ b.double()
    assert_close(matmul(a, b, activation=activation), ACTIVATIONS[activation](exact), 50, scale=8)


@pytest.mark.parametrize("number", range(4))
def test_any_strides_are_right(number: int) -> None:
    seed = fresh_seed()
    x = strided((70, 130), torch.float32, seed)[number]
    moved = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=ON).copy_(x)
    assert_close(softmax(moved), torch.softmax(moved.double(), -1), 130)
    b = normal((130, 40), torch.float32, seed + 1).to(ON)
    assert_close(matmul(moved, b), moved.double() @ b.double(), 130, scale=8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", [(1, 1, 1, 1), (33, 5, 4, 129), (100, 32, 1, 16), (1024, 32, 5, 70), (6, 2, 0, 10)])
def test_spdnn_is_right(size: tuple[int, int, int, int], dtype: torch.dtype) -> None:
    neurons, inputs, layers, images = size
    seed = fresh_seed()
    column, weight = (tensor.to(ON) for tensor in network(neurons, inputs, layers, dtype, seed))
    y = (normal((neurons, images), dtype, seed).abs() * 4).to(ON)
    out, peak = poisoned((neurons, images), dtype).to(ON), poisoned((images,), torch.float32).to(ON)
    spdnn(y, column, weight, 0.05, out, peak)
    exact, depth = reference(y, column, weight, 0.05), max(1, inputs * layers)
    assert_close(out, exact, depth, scale=4.0 * max(1, layers))
    assert_close(peak, exact.amax(0), depth, scale=4.0 * max(1, layers))


def test_take_columns_is_exact() -> None:
    seed = fresh_seed()
    y = normal((100, 300), torch.float32, seed).to(ON)
    column = torch.randint(0, 300, (77,), generator=torch.Generator().manual_seed(seed)).to(ON)
    out = poisoned((100, 77), torch.float32).to(ON)
    take_columns(y, column, out)
    assert torch.equal(out, y[:, column])
