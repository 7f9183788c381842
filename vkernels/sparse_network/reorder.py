"""Reorder outputs so that neighbours gather the same inputs, and store equal weights of an output once.

Nothing is merged or omitted: every connection is gathered, multiplied and added as before. Only the order of features
in memory changes, so that inputs of one output are still in the first-level cache for the next.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from .merge import HASH_MULTIPLIER
from .network_layers import Floats, Indices, Layers, NetworkLayers, reading

INPUTS_IN_KEY = 8
"""Outputs are sorted by at most this many of their lowest inputs; the key's other bits, at least `HASH_BITS` of 64, are
a hash that separates different outputs."""

HASH_BITS = 24

MIN_IMAGES_TO_REORDER = 256
"""Number of live images from which on reordering a layer pays."""

Places = NDArray[np.int32]
"""The new place of each feature."""


def reorder_outputs(network: NetworkLayers) -> NetworkLayers:
    """The network in memory, each layer's outputs in the order of their lowest inputs, with narrow indices.

    Inputs of the first layer and outputs of the last keep their order. An output's inputs are ascending. If all weights
    of each output in a run of layers are equal, they are stored once per output: their last stride is 0.
    """
    places = identity_places(network.inputs)
    found = []
    for first, last in network.each_run():
        ordered, places = reorder_layers(network.read(first, last), places, last == network.layers)
        found.append(ordered)
    return replace(network, read=reading(found), held=True)


def identity_places(features: int) -> Places:
    """Unchanged places. There is at least one, for padding."""
    return np.arange(max(1, features), dtype=np.int32)


def reorder_layers(layers: Layers, places: Places, ends: bool) -> tuple[Layers, Places]:
    """Layers for inputs at `places`, and the places of their outputs; outputs of the network's last layer keep their
    order (`ends`)."""
    dtype = np.int16 if layers.inputs <= np.iinfo(np.int16).max else np.int32
    count, outputs, width = layers.column.shape
    equal = bool(width) and is_equal(layers.weight)
    column = np.empty(layers.column.shape, dtype)
    weight = np.empty((count, outputs, 1 if equal else width), np.float32)
    bias = np.empty(layers.bias.shape, np.float32)
    for index in range(count):
        columns: Indices = places.take(layers.column[index])
        weights = layers.weight[index][:, :1]
        if equal:
            columns.sort(axis=1)
        else:
            columns, weights = in_ascending_order(columns, layers.weight[index])
        places = identity_places(outputs)
        if index == count - 1 and ends:
            column[index], weight[index], bias[index] = columns, weights, layers.bias[index]
            continue
        order = by_first_inputs(columns)
        column[index], weight[index] = columns[order], weights[order]
        bias[index] = layers.bias[index][order]
        places[order] = np.arange(outputs, dtype=np.int32)
    return Layers(column, np.broadcast_to(weight, column.shape), bias, layers.nonzeros, layers.inputs), places


def is_equal(weight: Floats) -> bool:
    """Whether the weights of each output are equal."""
    return weight.strides[2] == 0 or bool((weight == weight[:, :, :1]).all())


def in_ascending_order(column: Indices, weight: Floats) -> tuple[Indices, Floats]:
    """Each output's inputs in ascending order, with their weights."""
    both = column.astype(np.uint64) << np.uint64(32) | weight.view(np.uint32)
    both.sort(axis=1)
    return (both >> np.uint64(32)).astype(np.int64), (both & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.float32)


def by_first_inputs(column: Indices) -> NDArray[np.int64]:
    """Outputs sorted by their lowest inputs, then the next, …; among outputs with equal keys, equal ones are
    adjacent."""
    outputs, width = column.shape
    bits = max(1, int(column.max(initial=0)).bit_length())
    keys = np.zeros(outputs, np.uint64)
    first = min(INPUTS_IN_KEY, width, max(1, (64 - HASH_BITS) // bits))
    for place in range(first):
        keys = keys << np.uint64(bits) | column[:, place].astype(np.uint64)
    factors = np.multiply.accumulate(np.full(width, HASH_MULTIPLIER & 0xFFFFFFFF, np.uint32), dtype=np.uint32)
    mixed = np.einsum("nk,k->n", column.astype(np.uint32, copy=False), factors)
    room = max(0, 64 - first * bits)
    spread = mixed.astype(np.uint64) * np.uint64(HASH_MULTIPLIER)
    keys = spread if not first else keys << np.uint64(room) | spread >> np.uint64(64 - room)
    return np.argsort(keys, kind="stable")


@dataclass
class OrderedReader:
    """Reads a network from the first layer to the last. `seconds`: time of reordering.

    A layer that is read again has the order of its first reading.
    """

    network: NetworkLayers
    seconds: float = 0.0
    _places: dict[int, Places] = field(default_factory=dict)
    _ordered: dict[tuple[int, int], bool] = field(default_factory=dict)

    def read(self, first: int, last: int, images: int) -> Layers:
        """Layers from `first` to `last`, exclusive, for a number of live images; earlier layers must have been read."""
        layers = self.network.read(first, last)
        if self.network.held or layers.weight.ndim != 3:  # in order, or in blocks
            return layers
        start = perf_counter()
        layers = self._moved(layers, first, last, images)
        self.seconds += perf_counter() - start
        return layers

    def numbered(self, values: Floats, layer: int) -> Floats:
        """Values of a layer's inputs, in the order of features before it."""
        places = self._places.get(layer)
        if places is None:
            return values
        moved = values.copy()
        moved[places] = values
        return moved

    def _moved(self, layers: Layers, first: int, last: int, images: int) -> Layers:
        places = self._places.get(first)
        if self._ordered.setdefault((first, last), images >= MIN_IMAGES_TO_REORDER):
            before = identity_places(layers.inputs) if places is None else places
            layers, self._places[last] = reorder_layers(layers, before, last == self.network.layers)
        elif places is not None:
            column = layers.column.copy()
            column[0] = places.take(column[0])
            layers = replace(layers, column=column)
        return layers
