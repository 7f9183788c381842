"""spdnn equals torch in float64, for every dtype, size and stride; take_columns takes the columns that it is told."""

from __future__ import annotations

import pytest
import torch

from vkernels.library.spdnn import (
    block_layer,
    block_layers,
    distance_to_state,
    equal_weight_layers,
    sparse_layer,
    sparse_layers,
    spdnn,
    take_columns,
)

from .reference import DTYPES, assert_close, fresh_seed, normal, poisoned, strided

SIZES = [  # neurons, inputs of each, layers, images
    (1, 1, 1, 1),
    (7, 3, 2, 5),
    (64, 8, 3, 64),
    (33, 5, 4, 129),
    (100, 32, 1, 16),
    (1024, 32, 5, 70),
    (5, 0, 2, 9),
    (6, 2, 0, 10),
    (6, 2, 3, 0),
]


def network(neurons: int, inputs: int, layers: int, dtype: torch.dtype, seed: int):
    generator = torch.Generator().manual_seed(seed)
    column = torch.randint(0, neurons, (layers, neurons, inputs), generator=generator, dtype=torch.int32)
    return column, normal((layers, neurons, inputs), dtype, seed + 1) / max(1, inputs) ** 0.5


def reference(
    y: torch.Tensor, column: torch.Tensor, weight: torch.Tensor, bias: float | torch.Tensor, cap: float = 32
) -> torch.Tensor:
    """`bias`: one for all, or layers × neurons."""
    values, bias = y.double(), torch.as_tensor(bias, dtype=torch.float64, device=y.device).expand(weight.shape[:2])
    for layer in range(column.shape[0]):
        total = torch.einsum("nki,nk->ni", values[column[layer].long()], weight[layer].double())
        values = (total + bias[layer][:, None]).clamp(0, cap)
    return values


def check(y, column, weight, bias, out):
    peak = torch.full((y.shape[1],), float("nan"))
    spdnn(y, column, weight, bias, out, peak)
    expected = reference(y, column, weight, bias)
    depth = max(1, column.shape[2] * column.shape[0])
    assert_close(out, expected, terms=depth, scale=4.0 * max(1, column.shape[0]))
    if y.shape[1]:
        assert_close(peak, expected.amax(0), terms=depth, scale=4.0 * max(1, column.shape[0]))


@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", SIZES)
def test_spdnn_is_right(size, dtype):
    neurons, inputs, layers, images = size
    seed = fresh_seed()
    column, weight = network(neurons, inputs, layers, dtype, seed)
    check(normal((neurons, images), dtype, seed).abs() * 4, column, weight, 0.05, poisoned((neurons, images), dtype))


def test_any_strides():
    seed = fresh_seed()
    column, weight = network(48, 6, 3, torch.float32, seed)
    column = column.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    weight = weight.permute(2, 1, 0).contiguous().permute(2, 1, 0)
    for y in strided((48, 75), torch.float32, seed):
        out = torch.full((75, 48), float("nan")).t()
        check(y, column, weight, -0.1, out)


@pytest.mark.parametrize("integer", [torch.int16, torch.int32, torch.int64])
def test_indices_of_any_width(integer):
    seed = fresh_seed()
    column, weight = network(30, 4, 2, torch.float32, seed)
    check(normal((30, 20), torch.float32, seed), column.to(integer), weight, 0.0, poisoned((30, 20), torch.float32))


def check_layers(out, peak, expected, inputs, layers):
    """Features are held in the dtype of the results, so that each layer rounds them."""
    assert torch.equal(peak.to(out.dtype).float(), peak)
    rounded = 0.0 if out.dtype == torch.float32 or not out.numel() else 4.0 * layers * float(expected.max())
    terms, scale = max(1, inputs * layers), 4.0 * max(1, layers)
    assert_close(out, expected, terms=terms, scale=scale, added=rounded)
    if peak.numel():
        assert_close(peak.to(out.dtype), expected.amax(0), terms=terms, scale=scale, added=rounded)


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", SIZES)
def test_layers_with_biases_and_caps_of_their_own_are_right(size, dtype):
    """Several layers, and the first alone with as many outputs as there are less one."""
    neurons, inputs, layers, images = size
    seed = fresh_seed()
    column, weight = network(neurons, inputs, layers, dtype, seed)
    bias, cap = normal((layers, neurons), dtype, seed + 2), 2.5
    y = normal((neurons, images), dtype, seed).abs()
    out, peak = poisoned((neurons, images), dtype), torch.full((images,), float("nan"))
    sparse_layers(y, column, weight, bias, cap, out, peak)
    check_layers(out, peak, reference(y, column, weight, bias, cap), inputs, layers)
    if layers and neurons > 1:
        fewer = neurons - 1
        out = poisoned((fewer, images), dtype)
        sparse_layer(y, column[0, :fewer], weight[0, :fewer], bias[0, :fewer], cap, out, peak)
        expected = reference(y, column[:1, :fewer], weight[:1, :fewer], bias[:1, :fewer], cap)
        assert_close(out, expected, terms=max(1, inputs), scale=4.0)


BLOCKS = [  # blocks, outputs of each, inputs of each, layers, images
    (1, 1, 1, 1, 1),
    (2, 4, 3, 2, 5),
    (5, 7, 5, 4, 129),
    (64, 16, 32, 3, 70),
    (3, 8, 2, 0, 10),
    (3, 8, 0, 2, 10),
    (3, 8, 2, 3, 0),
]


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", BLOCKS)
def test_layers_in_blocks_are_right(size, dtype):
    """Several layers, and the first alone with a block less than there are."""
    blocks, height, inputs, layers, images = size
    seed = fresh_seed()
    column, _ = network(blocks * height, inputs, layers, dtype, seed)
    column = column[:, ::height].contiguous()
    weight = normal((layers, blocks, height, inputs), dtype, seed + 1) / max(1, inputs) ** 0.5
    bias, cap = normal((layers, blocks, height), dtype, seed + 2), 2.5
    y = normal((blocks, height, images), dtype, seed).abs()
    out, peak = poisoned((blocks, height, images), dtype), torch.full((images,), float("nan"))
    block_layers(y, column, weight, bias, cap, out, peak)
    expected = blocks_reference(y, column, weight, bias, cap)
    check_layers(out.flatten(0, 1), peak, expected, inputs, layers)
    if layers and blocks > 1:
        few = slice(blocks - 1)
        out = poisoned((blocks - 1, height, images), dtype)
        block_layer(y.flatten(0, 1), column[0, few], weight[0, few], bias[0, few], cap, out)
        expected = blocks_reference(y, column[:1, few], weight[:1, few], bias[:1, few], cap)
        assert_close(out.flatten(0, 1), expected, terms=max(1, inputs), scale=4.0)


def blocks_reference(y, column, weight, bias, cap):
    """Each output with inputs of its own."""
    each = column.repeat_interleave(weight.shape[2], dim=1)
    return reference(y.flatten(0, 1), each, weight.flatten(1, 2), bias.flatten(1, 2), cap)


@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", SIZES)
def test_layers_with_one_weight_an_output_are_right(size, dtype):
    neurons, inputs, layers, images = size
    seed = fresh_seed()
    column, weight = network(neurons, inputs, layers, dtype, seed)
    weight = weight[:, :, 0].contiguous() if inputs else torch.ones(layers, neurons, dtype=dtype)
    bias, cap = normal((layers, neurons), dtype, seed + 2), 2.5
    y = normal((neurons, images), dtype, seed).abs()
    out, peak = poisoned((neurons, images), dtype), torch.full((images,), float("nan"))
    equal_weight_layers(y, column, weight, bias, cap, out, peak)
    check_layers(out, peak, reference(y, column, weight[:, :, None].expand(column.shape), bias, cap), inputs, layers)


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", DTYPES)
def test_distances_are_the_largest_of_each_image(dtype):
    seed = fresh_seed()
    for neurons, images in ((1, 1), (9, 200), (33, 17), (129, 0)):
        y, state = normal((neurons, images), dtype, seed), normal((neurons,), dtype, seed + 1)
        out = poisoned((images,), dtype)
        distance_to_state(y, state, out)
        assert_close(out, (y.double() - state.double()[:, None]).abs().amax(0), terms=1, scale=2.0)


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", DTYPES)
def test_take_columns(dtype):
    seed = fresh_seed()
    y = normal((9, 200), dtype, seed)
    for count in (0, 1, 31, 200):
        column = torch.randperm(200, generator=torch.Generator().manual_seed(seed))[:count].to(torch.int32)
        out = poisoned((9, count), dtype)
        take_columns(y, column, out)
        assert torch.equal(out, y[:, column.long()])
