"""Small random networks, the project's borrowed data, and inference written plainly in NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vkernels.sparse_network.generate import even_bias
from vkernels.sparse_network.network import SparseNetwork
from vkernels.sparse_network.network_layers import Layers

SHARED = Path(__file__).parents[3] / "shared" / "data" / "spdnn"


def shared_file(name):
    """A file of the data that the project does not carry; the test skips where it is absent."""
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    return path


def random_network(neurons, layers, inputs, bias, seed):
    """A network with random connections, some neurons with fewer inputs than others."""
    random = np.random.default_rng(seed)
    column = np.argsort(random.random((layers, neurons, neurons)), axis=2)[:, :, :inputs].astype(np.int32)
    weight = random.uniform(0.05, 1, column.shape).astype(np.float32)
    weight[random.random(column.shape) < 0.2] = 0
    column[weight == 0] = 0
    nonzeros = np.count_nonzero(weight, axis=(1, 2))
    everything = Layers(column, weight, even_bias(layers, neurons, bias), nonzeros, neurons)
    return SparseNetwork((neurons,) * (layers + 1), everything.part)


def random_inputs(neurons, images, seed):
    """Images of 0 and 1, some of them empty."""
    random = np.random.default_rng(seed)
    return (random.random((neurons, images)) < random.random(images) ** 2).astype(np.float32)


def numpy_layers(y, column, weight, bias, cap, out, peak):
    """What `run_layers` must do."""
    values = y
    for inputs, weights, added in zip(column, weight, bias, strict=True):
        total = sum(weights[:, k, None] * values[inputs[:, k]] for k in range(inputs.shape[1]))
        values = np.clip(total + added[:, None], 0, cap)
    out[:] = values
    peak[:] = values.max(axis=0)


def plain_live(network, inputs):
    """Ids of the images alive before each layer and after the last, in float64 on dense matrices."""
    layers, values = network.read(0, network.layers), inputs.astype(np.float64)
    alive = [np.flatnonzero(values.any(axis=0))]
    for column, weight, bias in zip(layers.column, layers.weight, layers.bias, strict=True):
        dense = np.zeros((network.inputs, network.inputs))
        np.add.at(dense, (np.arange(network.inputs)[:, None], column), weight)
        values = np.clip(dense @ values + bias[:, None].astype(np.float64), 0, network.cap)
        alive.append(np.flatnonzero(values.any(axis=0)))
    return alive
