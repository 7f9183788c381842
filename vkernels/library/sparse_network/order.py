"""Outputs put in an order in which neighbours gather the same inputs, and weights that are equal in a row stored once.

Nothing is merged and nothing left out: every connection is gathered, multiplied and added as before. What changes is
where features lie in memory, so that what one output has gathered is still in the first-level cache for the next.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from .merge import ODD
from .network import Floats, Indices, Layers, SparseNetwork

FIRST = 8
"""So many of an output's inputs, the lowest, decide on its place among those that are not equal."""

Places = NDArray[np.int64]
"""For each feature as it was numbered, where it lies now."""


def put_in_order(network: SparseNetwork) -> SparseNetwork:
    """The network in memory, each layer's outputs in the order of their lowest inputs, with narrow indices.

    Inputs of the first layer and outputs of the last stay where they are. An output's inputs are ascending. Weights of
    a run of layers of which each output has equal ones take the room of one an output: their last stride is 0.
    """
    places: Places = np.arange(network.inputs)
    runs = network.each_run()
    found = []
    for first, last in runs:
        ordered, places = _order(network.read(first, last), places, last == network.layers)
        found.append(ordered)

    starts = [first for first, _ in runs]

    def read(first: int, last: int) -> Layers:
        number = int(np.searchsorted(starts, first, side="right")) - 1
        return found[number].part(first - starts[number], last - starts[number])

    return replace(network, read=read, held=True)


def _order(layers: Layers, places: Places, ends: bool) -> tuple[Layers, Places]:
    """Layers whose inputs lie at `places`, and where their outputs lie; those of the last one stay, if the network
    `ends` there."""
    dtype = np.int16 if layers.inputs <= np.iinfo(np.int16).max else np.int32
    places = places if places.size else np.zeros(1, np.int64)  # no inputs: there is padding only
    count, outputs, width = layers.column.shape
    equal = bool(width) and bool((layers.weight == layers.weight[:, :, :1]).all())
    column = np.empty(layers.column.shape, dtype)
    weight = np.empty((count, outputs, 1 if equal else width), np.float32)
    bias = np.empty(layers.bias.shape, np.float32)
    for index in range(len(column)):
        columns, weights = in_ascending_order(places[layers.column[index]], layers.weight[index])
        order = by_first_inputs(columns) if index < len(column) - 1 or not ends else np.arange(len(columns))
        column[index], weight[index] = columns[order], weights[order, : weight.shape[2]]
        bias[index] = layers.bias[index][order]
        places = np.argsort(order)
    return Layers(column, np.broadcast_to(weight, column.shape), bias, layers.nonzeros, layers.inputs), places


def in_ascending_order(column: Indices, weight: Floats) -> tuple[Indices, Floats]:
    """Each output's inputs in ascending order, with their weights."""
    both = column.astype(np.uint64) << np.uint64(32) | weight.view(np.uint32)
    both.sort(axis=1)
    return (both >> np.uint64(32)).astype(np.int64), (both & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.float32)


def by_first_inputs(column: Indices) -> NDArray[np.int64]:
    """Outputs in the order of their lowest inputs, then of the next, …; of those alike so far, equals together."""
    odd = np.arange(1, 2 * column.shape[1], 2, dtype=np.uint64) * np.uint64(ODD)
    rest = (column.astype(np.uint64) * odd).sum(axis=1)
    return np.lexsort((rest, *column[:, :FIRST].T[::-1]))
