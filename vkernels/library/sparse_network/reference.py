"""The float64 reference: which images survive, and how many are alive at each layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .network import CEILING, Indices, Layers, Network

if TYPE_CHECKING:
    from scipy.sparse import csr_array

State: TypeAlias = tuple[NDArray[np.float64], NDArray[np.int64]]
"""Features, neurons × live images, and the images' ids."""

BATCH = 2048
"""Images computed at once."""

PIECE_BYTES = 2 << 30
"""Features that are kept at once."""

LAYER_BYTES = 256 << 20
"""Roughly what the layers that are held at once may take."""


@dataclass(frozen=True)
class Truth:
    """`survivors`: ids, from 0, of the images with a feature that is not 0 after the last layer.
    `live[l]`: images with such a feature before layer l.
    `nonzeros[l]`: connections of layer l.
    """

    survivors: NDArray[np.int64]
    live: NDArray[np.int64]
    nonzeros: NDArray[np.int64]

    @property
    def real_edges(self) -> int:
        """Multiply-adds needed for the images that are alive at each layer."""
        return int(self.live @ self.nonzeros)


@dataclass(frozen=True)
class _Distinct:
    """A layer's weights without repetition: row `copy[n]` of `rows` is neuron n's."""

    rows: csr_array[Any]
    copy: NDArray[np.intp]


def run_reference(
    network: Network,
    features: NDArray[Any],
    threads: int = 1,
    progress: Callable[[int, int], None] = lambda layers, live: None,
) -> Truth:
    """Run the network in float64, dead images dropped after every layer.

    `features`: neurons × images, any dtype. Neurons with equal inputs are computed once and copied, which
    changes no result. `progress` is told, after each layer, how many were done (all over again for every
    `PIECE_BYTES` of features), and how many images were alive before it.
    """
    images, size = features.shape[1], max(BATCH, PIECE_BYTES // (8 * network.neurons))
    starts = range(0, max(1, images), size)
    with ThreadPoolExecutor(threads) as pool:
        pieces = [_run_piece(network, features[:, start : start + size], pool, progress) for start in starts]
    survivors = np.concatenate([start + piece.survivors for start, piece in zip(starts, pieces, strict=True)])
    return Truth(survivors, np.sum([piece.live for piece in pieces], axis=0), pieces[0].nonzeros)


def _run_piece(
    network: Network, features: NDArray[Any], pool: ThreadPoolExecutor, progress: Callable[[int, int], None]
) -> Truth:
    """Batches of images on the pool, layer by layer."""
    starts = range(0, max(1, features.shape[1]), BATCH)
    states = [_start(features, i) for i in starts]
    live, nonzeros = [], []
    for layer, (distinct, count) in enumerate(_distinct_layers(network)):
        live.append(sum(ids.size for _, ids in states))
        nonzeros.append(count)
        states = list(pool.map(partial(_advance, distinct, network.bias), states))
        progress(layer + 1, live[-1])
    survivors = np.concatenate([ids for _, ids in states]).astype(np.int64)
    return Truth(survivors, np.array(live, np.int64), np.array(nonzeros, np.int64))


def _start(features: NDArray[Any], first: int) -> State:
    """The images of one batch that are not all 0."""
    batch = features[:, first : first + BATCH].astype(np.float64)
    return _alive(batch, np.arange(first, first + batch.shape[1]))


def _advance(layer: _Distinct, bias: float, state: State) -> State:
    """One layer, and what is still alive after it."""
    features, ids = state
    values = layer.rows @ features
    values += bias
    np.clip(values, 0, CEILING, out=values)
    values, ids = _alive(values, ids)
    return values[layer.copy], ids


def _alive(features: NDArray[np.float64], ids: NDArray[np.int64]) -> State:
    alive = features.any(axis=0)
    return (features, ids) if alive.all() else (features[:, alive], ids[alive])


def _distinct_layers(network: Network) -> Iterator[tuple[_Distinct, int]]:
    """Each layer's distinct rows, with the layer's connections."""
    step = max(1, LAYER_BYTES // (network.neurons * 512))
    for first in range(0, network.layers, step):
        layers = network.read(first, min(first + step, network.layers))
        for index in range(len(layers.nonzeros)):
            yield _distinct(layers, index), int(layers.nonzeros[index])


def _distinct(layers: Layers, index: int) -> _Distinct:
    from scipy.sparse import csr_array

    column, weight = layers.column[index], layers.weight[index]
    whole = np.ascontiguousarray(np.concatenate([column, weight.view(np.int32)], axis=1))
    keys = whole.view(np.dtype((np.void, whole.itemsize * whole.shape[1]))).ravel()
    _, first, copy = np.unique(keys, return_index=True, return_inverse=True)
    neurons, inputs = column.shape
    ends: Indices = np.arange(0, (len(first) + 1) * inputs, inputs, dtype=np.int32)
    data = (weight[first].ravel().astype(np.float64), column[first].ravel(), ends)
    return _Distinct(csr_array(data, shape=(len(first), neurons)), copy.ravel())
