"""The challenge's networks, generated: RadiX-Net topologies, all weights 1/16, 32 inputs and outputs a neuron."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from vkernels.ir.errors import OptionError

from .network import SparseNetwork
from .network_layers import Floats, Indices, Layers

BIASES = {1024: -0.30, 4096: -0.35, 16384: -0.40, 65536: -0.45}
"""Number of neurons → the bias that the challenge adds at each of them."""

MAX_LAYERS = 1920

COPIES = 16
"""Number of neurons with equal inputs: neuron j has the inputs of neuron j modulo neurons / 16."""

WEIGHT = 1 / 16


def radix_network(neurons: int, layers: int, seed: int = 0) -> SparseNetwork:
    """The challenge's network of a size (`OptionError` if it has none), generated when it is read.

    Layers come in blocks of log2(neurons / 16). The first block is the same for every seed; the inputs of
    every later block are relabelled by a random permutation of the block's own.
    """
    check_size(neurons, layers)

    def read(first: int, last: int) -> Layers:
        column = np.stack([radix_layer(neurons, layer, seed) for layer in range(first, last)])
        weight = np.broadcast_to(np.float32(WEIGHT), column.shape)  # strides of 0
        bias = even_bias(last - first, neurons, BIASES[neurons])
        return Layers(column, weight, bias, np.full(last - first, column[0].size), neurons)

    return SparseNetwork((neurons,) * (layers + 1), read)


def radix_layer(neurons: int, layer: int, seed: int = 0) -> Indices:
    """The inputs of every neuron of one layer, ascending: neurons × 32."""
    distinct = neurons // COPIES
    block, digit = divmod(layer, distinct.bit_length() - 1)
    output = np.arange(distinct, dtype=np.int32)
    near = np.stack([output, (output + 2**digit) % distinct], axis=1)
    inputs = near[:, :, None] + distinct * np.arange(COPIES, dtype=np.int32)
    if block > 0:
        inputs = _permutation(neurons, block, seed)[inputs]
    column = np.sort(inputs.reshape(distinct, 2 * COPIES), axis=1)
    return np.tile(column, (COPIES, 1))


@lru_cache(maxsize=4)
def _permutation(neurons: int, block: int, seed: int) -> Indices:
    """A permutation of the neurons, from raw random words, which are the same in all versions of NumPy."""
    words = np.random.PCG64((seed, neurons, block)).random_raw(neurons)
    return np.argsort(words, kind="stable").astype(np.int32)


def check_size(neurons: int, layers: int) -> None:
    """Raise `OptionError` unless the challenge has networks of this size."""
    if neurons not in BIASES:
        sizes = ", ".join(map(str, BIASES))
        raise OptionError(f"no network has {neurons} neurons: the challenge's have {sizes}")
    if not 1 <= layers <= MAX_LAYERS:
        raise OptionError(f"{layers} layers: a network has from 1 to {MAX_LAYERS}")


def even_bias(layers: int, neurons: int, bias: float) -> Floats:
    """One bias for all outputs of some layers (strides 0)."""
    return np.broadcast_to(np.float32(bias), (layers, neurons))
