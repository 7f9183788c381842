"""Sparse-DNN inference: layers of any weights or of blocks with common inputs, several per launch with features on
chip, and dropping columns."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

import vkernels.language as vk

from .samples import Arrays, ArraySampler, Constants, SampleInputs, Sizes, entry, indices, numbers, random_indices


@vk.kernel
def spdnn(
    y: Float[vk.Tensor, "N I"],
    column: Int[vk.Tensor, "L N K"],
    weight: Float[vk.Tensor, "L N K"],
    bias: vk.Scalar,
    out: Float[vk.Tensor, "N I"],
    peak: Float[vk.Tensor, "I"],
):
    i = vk.tile("I")
    n = vk.whole("N")
    features = vk.scratch((n, i), vk.float32)  # virtual scratchpad: 64 KiB or 64 MiB
    features[n, i] = y[n, i]
    for l in vk.range("L"):
        total = vk.zeros((n, i), vk.float32)
        for k in vk.range("K"):
            total += weight[l, n, k] * features[column[l, n, k], i]  # gather rows
        vk.phase()  # all have read before any is rewritten
        features[n, i] = vk.clamp(total + bias, 0, 32)
    last = features[n, i]
    out[n, i] = last
    peak[i] = vk.max(last, axis=n)


@vk.kernel
def take_columns(y: Float[vk.Tensor, "N P"], column: Int[vk.Tensor, "I"], out: Float[vk.Tensor, "N I"]):
    n = vk.tile("N")
    i = vk.whole("I")
    out[n, i] = y[n, column[i]]


@vk.kernel
def sparse_layers(
    y: Float[vk.Tensor, "N I"],
    column: Int[vk.Tensor, "L N K"],
    weight: Float[vk.Tensor, "L N K"],
    bias: Float[vk.Tensor, "L N"],
    cap: vk.Scalar,
    out: Float[vk.Tensor, "N I"],
    peak: Float[vk.Tensor, "I"],
):
    i = vk.tile("I")
    n = vk.whole("N")
    features = vk.scratch((n, i), out.dtype)  # may be of 16 bits; sums are not
    features[n, i] = y[n, i]
    for l in vk.range("L"):
        total = vk.zeros((n, i), vk.float32)
        for k in vk.range("K"):
            total += weight[l, n, k] * features[column[l, n, k], i]
        vk.phase()
        features[n, i] = vk.clamp(total + bias[l, n], 0, cap)
    last = features[n, i]
    out[n, i] = last
    peak[i] = vk.max(last, axis=n)


@vk.kernel
def equal_weight_layers(
    y: Float[vk.Tensor, "N I"],
    column: Int[vk.Tensor, "L N K"],
    weight: Float[vk.Tensor, "L N"],
    bias: Float[vk.Tensor, "L N"],
    cap: vk.Scalar,
    out: Float[vk.Tensor, "N I"],
    peak: Float[vk.Tensor, "I"],
):
    i = vk.tile("I")
    n = vk.whole("N")
    features = vk.scratch((n, i), out.dtype)  # may be of 16 bits; sums are not
    features[n, i] = y[n, i]
    for l in vk.range("L"):
        total = vk.zeros((n, i), vk.float32)
        for k in vk.range("K"):
            total += features[column[l, n, k], i]  # one weight for all of them: it can wait
        vk.phase()
        features[n, i] = vk.clamp(weight[l, n] * total + bias[l, n], 0, cap)
    last = features[n, i]
    out[n, i] = last
    peak[i] = vk.max(last, axis=n)


@vk.kernel
def sparse_layer(
    y: Float[vk.Tensor, "M I"],
    column: Int[vk.Tensor, "N K"],
    weight: Float[vk.Tensor, "N K"],
    bias: Float[vk.Tensor, "N"],
    cap: vk.Scalar,
    out: Float[vk.Tensor, "N I"],
    peak: Float[vk.Tensor, "I"],
):
    i = vk.tile("I")
    n = vk.whole("N")
    total = vk.zeros((n, i), vk.float32)
    for k in vk.range("K"):
        total += weight[n, k] * y[column[n, k], i]
    last = vk.clamp(total + bias[n], 0, cap)
    out[n, i] = last
    peak[i] = vk.max(last, axis=n)


@vk.kernel
def block_layers(
    y: Float[vk.Tensor, "G P I"],
    column: Int[vk.Tensor, "L G Q"],
    weight: Float[vk.Tensor, "L G P Q"],
    bias: Float[vk.Tensor, "L G P"],
    cap: vk.Scalar,
    out: Float[vk.Tensor, "G P I"],
    peak: Float[vk.Tensor, "I"],
):
    i = vk.tile("I")
    g = vk.whole("G")
    p = vk.whole("P")
    features = vk.scratch((g, p, i), out.dtype)  # may be of 16 bits; sums are not
    features[g, p, i] = y[g, p, i]
    for l in vk.range("L"):
        total = vk.zeros((g, p, i), vk.float32)
        for q in vk.range("Q"):  # P outputs share what is gathered
            source = column[l, g, q]
            total += weight[l, g, p, q] * features[source // vk.size("P"), source % vk.size("P"), i]
        vk.phase()
        features[g, p, i] = vk.clamp(total + bias[l, g, p], 0, cap)
    last = features[g, p, i]
    out[g, p, i] = last
    peak[i] = vk.max(vk.max(last, axis=p), axis=g)


@vk.kernel
def block_layer(
    y: Float[vk.Tensor, "M I"],
    column: Int[vk.Tensor, "G Q"],
    weight: Float[vk.Tensor, "G P Q"],
    bias: Float[vk.Tensor, "G P"],
    cap: vk.Scalar,
    out: Float[vk.Tensor, "G P I"],
):
    i = vk.tile("I")
    g = vk.tile("G")
    p = vk.tile("P")
    total = vk.zeros((g, p, i), vk.float32)
    for q in vk.range("Q"):
        total += weight[g, p, q] * y[column[g, q], i]
    out[g, p, i] = vk.clamp(total + bias[g, p], 0, cap)


@vk.kernel
def distance_to_state(y: Float[vk.Tensor, "N I"], state: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "I"]):
    i = vk.tile("I")
    n = vk.whole("N")
    out[i] = vk.max(vk.abs(y[n, i] - state[n]), axis=n)


def _layers(inputs: str, *shape: str, weight_rank: int | None = None) -> ArraySampler:
    """Images of zeros and ones, random connections, and weights and biases that keep features between 0 and the cap."""

    def arrays(sizes: Sizes, constants: Constants, random: np.random.Generator) -> Arrays:
        connections = tuple(sizes[name] for name in shape)
        return {
            "y": random.integers(0, 2, (sizes[inputs], sizes["I"])).astype(np.float64),
            "column": random_indices(sizes[inputs], connections, random),
            "weight": np.full(connections[:weight_rank], 2 / max(1, sizes["K"])),
            "bias": np.full(connections[:-1], -0.3),
        }

    return arrays


def _block_layers(several: bool) -> ArraySampler:
    def arrays(sizes: Sizes, constants: Constants, random: np.random.Generator) -> Arrays:
        before = (sizes["L"],) if several else ()
        blocks, inputs = (*before, sizes["G"]), sizes["G"] * sizes["P"] if several else sizes["M"]
        shape = (sizes["G"], sizes["P"], sizes["I"]) if several else (inputs, sizes["I"])
        return {
            "y": random.integers(0, 2, shape).astype(np.float64),
            "column": random_indices(inputs, (*blocks, sizes["Q"]), random),
            "weight": np.full((*blocks, sizes["P"], sizes["Q"]), 2 / max(1, sizes["Q"])),
            "bias": np.full((*blocks, sizes["P"]), -0.3),
        }

    return arrays


_UP_TO_FLOAT32 = ("float32", "float16", "bfloat16")
_CAP = numbers(cap=32.0)
_NETWORK, _CPU_NETWORK = {"L": 120, "N": 1024, "K": 32, "I": 60000}, {"L": 8, "N": 1024, "K": 32, "I": 1024}


CATALOGUE = (
    entry(
        "spdnn",
        spdnn,
        _NETWORK,
        _CPU_NETWORK,
        "float32",
        dtypes=_UP_TO_FLOAT32,
        samples=SampleInputs(numbers=numbers(bias=-0.3), arrays=_layers("N", "L", "N", "K")),
    ),
    entry(
        "spdnn",
        sparse_layers,
        _NETWORK,
        _CPU_NETWORK,
        "float32",
        dtypes=_UP_TO_FLOAT32,
        samples=SampleInputs(numbers=_CAP, arrays=_layers("N", "L", "N", "K")),
    ),
    entry(
        "spdnn",
        equal_weight_layers,
        _NETWORK,
        _CPU_NETWORK,
        "float32",
        dtypes=_UP_TO_FLOAT32,
        samples=SampleInputs(numbers=_CAP, arrays=_layers("N", "L", "N", "K", weight_rank=2)),
    ),
    entry(
        "spdnn",
        sparse_layer,
        {"M": 1024, "N": 64, "K": 32, "I": 60000},
        {"M": 1024, "N": 256, "K": 32, "I": 2048},
        "float32",
        dtypes=_UP_TO_FLOAT32,
        samples=SampleInputs(numbers=_CAP, arrays=_layers("M", "N", "K")),
    ),
    entry(
        "spdnn",
        block_layers,
        {"L": 120, "G": 64, "P": 16, "Q": 32, "I": 60000},
        {"L": 8, "G": 64, "P": 16, "Q": 32, "I": 1024},
        "float32",
        dtypes=_UP_TO_FLOAT32,
        samples=SampleInputs(numbers=_CAP, arrays=_block_layers(several=True)),
    ),
    entry(
        "spdnn",
        block_layer,
        {"M": 1024, "G": 16, "P": 16, "Q": 32, "I": 60000},
        {"M": 1024, "G": 16, "P": 16, "Q": 32, "I": 2048},
        "float32",
        dtypes=_UP_TO_FLOAT32,
        samples=SampleInputs(numbers=_CAP, arrays=_block_layers(several=False)),
    ),
    entry("spdnn", distance_to_state, {"N": 1024, "I": 1800}, {"N": 1024, "I": 1800}, "float32"),
    entry(
        "spdnn",
        take_columns,
        {"N": 1024, "P": 60000, "I": 30000},
        {"N": 1024, "P": 4096, "I": 2048},
        "float32",
        samples=SampleInputs(arrays=indices("column", "P", "I")),
    ),
)
