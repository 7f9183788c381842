"""Sums of gathered elements are right however many positions and lanes a thread takes at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from jaxtyping import Float, Int

import vkernels as vk
from tests.library.on_a_gpu import NVIDIA, on_a_gpu
from tests.library.reference import fresh_seed
from vkernels.compiler.protocols import Signature
from vkernels.compiler.specialise import kernel_in
from vkernels.ir.dialect.interleave import InterleaveOp
from vkernels.ir.facts import Facts
from vkernels.ir.pipeline import gpu_pipeline, run_passes
from vkernels.ir.plan import Plan
from vkernels.library.spdnn import block_layers, equal_weight_layers, sparse_layers


def two_sums(
    x: Float[vk.Tensor, "N I"],
    column: Int[vk.Tensor, "N K"],
    weight: Float[vk.Tensor, "N K"],
    out: Float[vk.Tensor, "N I"],
):
    """Two sums of one loop, one of them of weights by their position, one that starts with a bias."""
    i = vk.tile("I")
    n = vk.whole("N")
    kept = vk.scratch((n, i), vk.float32)
    kept[n, i] = x[n, i]
    vk.phase()
    one = vk.zeros((n, i), vk.float32)
    other = vk.zeros((n, i), vk.float32) + 3
    for k in vk.range("K"):
        one += weight[n, k] * kept[column[n, k], i]
        other += k * kept[column[n, k], i] + weight[n, k]
    out[n, i] = one - other


def two_sums_of(x: np.ndarray, column: np.ndarray, weight: np.ndarray, out: np.ndarray) -> np.ndarray:
    taken = x[column]  # N, K, I
    positions = np.arange(column.shape[1])[None, :, None]
    return (weight[..., None] * taken).sum(1) - (3 + (positions * taken + weight[..., None]).sum(1))


def layers_of(y: np.ndarray, column: np.ndarray, weight: np.ndarray, bias: np.ndarray, cap: float) -> np.ndarray:
    """`sparse_layers` in f64; weights of one per neuron are repeated."""
    weight = np.broadcast_to(weight if weight.ndim == 3 else weight[..., None], column.shape)
    for c, w, b in zip(column, weight, bias, strict=True):
        y = np.clip((w[..., None] * y[c]).sum(1) + b[:, None], 0, cap)
    return y


def numbers(rng: np.random.Generator, dtype: type, *shape: int) -> np.ndarray:
    return rng.integers(-2, 3, shape).astype(dtype)  # exact


PLANS = {
    "held": Plan({"i": 8}, {"n": 32}, lanes="i", warps=1),
    "chunks": Plan({"i": 16}, {"n": 4}, {"total": "memory"}, lanes="i", warps=2),  # type: ignore[dict-item]
    "copies": Plan({"i": 4}, {"n": 16}, copies=("features",), lanes="i", warps=1),
    "one": Plan({"i": 2}, {"n": 32}, lanes="i", warps=1),
    "wide": Plan({"i": 64}, {"n": 32}, lanes="i", warps=4),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("connections", [0, 1, 3, 4, 6, 9])
@pytest.mark.parametrize("plan", ["held", "one", "wide"])
def test_sums_of_any_length_are_right(plan, connections):
    seed = fresh_seed()
    rng = np.random.default_rng(seed)
    neurons, images = 21, int(rng.integers(1, 40))
    x, weight = numbers(rng, np.float32, neurons, images), numbers(rng, np.float32, neurons, connections)
    column, out = rng.integers(0, neurons, (neurons, connections)), np.full((neurons, images), np.nan, np.float32)
    with on_a_gpu(NVIDIA, seed % 1000):
        vk.kernel(plan=PLANS[plan])(two_sums)(x, column, weight, out)
    np.testing.assert_array_equal(out, two_sums_of(x, column, weight, out))


@pytest.mark.sample(4)
@pytest.mark.parametrize("plan", ["held", "chunks", "copies"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("text", [sparse_layers, equal_weight_layers])
def test_layers_are_right(text, dtype, plan):
    seed = fresh_seed()
    rng = np.random.default_rng(seed)
    layers, neurons, inputs, images = 3, 16, 7, int(rng.integers(1, 40))
    y, column = np.abs(numbers(rng, dtype, neurons, images)), rng.integers(0, neurons, (layers, neurons, inputs))
    shape = (layers, neurons, inputs) if text is sparse_layers else (layers, neurons)
    weight, bias = numbers(rng, dtype, *shape), numbers(rng, dtype, layers, neurons)
    out, peak = np.full((neurons, images), np.nan, dtype), np.full(images, np.nan, np.float32)
    with on_a_gpu(NVIDIA, seed % 1000):
        vk.kernel(plan=PLANS[plan])(text.function)(y, column, weight, bias, 32.0, out, peak.astype(dtype))
    wanted = layers_of(
        *(each.astype(np.float64) if each.dtype == dtype else each for each in (y, column, weight, bias)), 32
    )
    np.testing.assert_array_equal(out, wanted.astype(dtype))


def interleaved(text: vk.Kernel, plan: Plan, strides: Mapping[str, tuple[int, ...]]) -> list[int]:
    """How many sums are joined at each place of the mapped IR."""
    dtypes = tuple(
        (p.name, "int32" if p.name == "column" else "float32") for p in text.parameters if p.kind == "tensor"
    )
    others = tuple((p.name, "f64") for p in text.parameters if p.kind == "scalar")
    module = text.build(Signature(dtypes, others, ()))
    facts = Facts(sizes={"N": 32, "G": 8, "P": 4}, strides=strides, bounds={"K": 64, "Q": 64})  # short sums
    mapped = run_passes(gpu_pipeline(plan, facts), module)
    assert kernel_in(module) is not None
    return [len(op.tiles) for op in mapped.walk() if isinstance(op, InterleaveOp)]


WIDE = {"column": (-1, -1, 1), "weight": (-1, -1, 1)}


def test_a_thread_takes_as_many_lanes_as_it_has_elements_up_to_16_bytes():
    assert interleaved(sparse_layers, Plan({"i": 8}, {"n": 32}, lanes="i", warps=1), WIDE) == [4]
    assert interleaved(sparse_layers, Plan({"i": 2}, {"n": 32}, lanes="i", warps=1), WIDE) == [2]
    assert interleaved(sparse_layers, Plan({"i": 8}, {"n": 8}, lanes="i", warps=1), WIDE) == [2]
    assert interleaved(block_layers, Plan({"i": 8}, {"g": 8, "p": 4}, lanes="i", warps=1), {}) == [4]


def test_loops_along_other_lanes_and_of_few_elements_stay():
    assert interleaved(sparse_layers, Plan({"i": 8}, {"n": 32}, lanes="n", warps=1), WIDE) == []
    assert interleaved(sparse_layers, Plan({"i": 1}, {"n": 32}, lanes="i", warps=1), {}) == []
