"""The float64 reference: which images survive, and how many are alive at each layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .network import Indices, Layers, SparseNetwork

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
    """A layer's weights without repetition: row `copy[n]` of `rows`, and such an entry of `bias`, is output n's.

    `may_drop`: images without features will not have any again.
    """

    rows: csr_array[Any]
    bias: NDArray[np.float64]
    copy: NDArray[np.intp]
    cap: float
    may_drop: bool


def run_reference(
    network: SparseNetwork,
    features: NDArray[Any],
    threads: int = 1,
    progress: Callable[[int, int], None] = lambda layers, live: None,
) -> Truth:
    """Run the network in float64, dead images dropped after every layer.

    `features`: inputs × images, any dtype. Outputs with equal inputs are computed once and copied, which
    changes no result. `progress` is told, after each layer, how many were done (all over again for every
    `PIECE_BYTES` of features), and how many images were alive before it.
    """
    images, size = features.shape[1], max(BATCH, PIECE_BYTES // (8 * max(1, *network.sizes)))
    starts = range(0, max(1, images), size)
    with ThreadPoolExecutor(threads) as pool:
        pieces = [_run_piece(network, features[:, start : start + size], pool, progress) for start in starts]
    survivors = np.concatenate([start + piece.survivors for start, piece in zip(starts, pieces, strict=True)])
    return Truth(survivors, np.sum([piece.live for piece in pieces], axis=0), pieces[0].nonzeros)


def _run_piece(
    network: SparseNetwork, features: NDArray[Any], pool: ThreadPoolExecutor, progress: Callable[[int, int], None]
) -> Truth:
    """Batches of images on the pool, layer by layer."""
    starts = range(0, max(1, features.shape[1]), BATCH)
    states = [_start(features, i, network.settled_from == 0) for i in starts]
    live, nonzeros = [], []
    for layer, (distinct, count) in enumerate(_distinct_layers(network)):
        live.append(sum(ids.size for _, ids in states))
        nonzeros.append(count)
        states = list(pool.map(partial(_advance, distinct), states))
        progress(layer + 1, live[-1])
    survivors = np.concatenate([_alive(*state)[1] for state in states]).astype(np.int64)
    return Truth(survivors, np.array(live, np.int64), np.array(nonzeros, np.int64))


def _start(features: NDArray[Any], first: int, may_drop: bool) -> State:
    """The images of one batch, those that are all 0 dropped if they may."""
    batch = features[:, first : first + BATCH].astype(np.float64)
    ids = np.arange(first, first + batch.shape[1])
    return _alive(batch, ids) if may_drop else (batch, ids)


def _advance(layer: _Distinct, state: State) -> State:
    """One layer, and what is still alive after it."""
    features, ids = state
    values = layer.rows @ features
    values += layer.bias[:, None]
    np.clip(values, 0, layer.cap, out=values)
    if layer.may_drop:
        values, ids = _alive(values, ids)
    return values[layer.copy], ids


def _alive(features: NDArray[np.float64], ids: NDArray[np.int64]) -> State:
    """The images that have a feature which is not 0."""
    alive = features.any(axis=0)
    return (features, ids) if alive.all() else (features[:, alive], ids[alive])


def _distinct_layers(network: SparseNetwork) -> Iterator[tuple[_Distinct, int]]:
    """Each layer's distinct rows, with the layer's connections."""
    for first, last in network.each_run(LAYER_BYTES):
        layers = network.read(first, last)
        for index in range(last - first):
            may_drop = first + index + 1 >= network.settled_from
            yield _distinct(layers, index, network.cap, may_drop), int(layers.nonzeros[index])


def _distinct(layers: Layers, index: int, cap: float, may_drop: bool) -> _Distinct:
    from scipy.sparse import csr_array

    column, weight, bias = layers.column[index].astype(np.int32), layers.weight[index], layers.bias[index]
    parts = [column, weight.view(np.int32), bias.astype(np.float32)[:, None].view(np.int32)]
    whole = np.ascontiguousarray(np.concatenate(parts, axis=1))
    keys = whole.view(np.dtype((np.void, whole.itemsize * whole.shape[1]))).ravel()
    _, first, copy = np.unique(keys, return_index=True, return_inverse=True)
    width = column.shape[1]
    ends: Indices = np.arange(0, (len(first) + 1) * width, width, dtype=np.int32)
    data = (weight[first].ravel().astype(np.float64), column[first].ravel(), ends)
    rows = csr_array(data, shape=(len(first), layers.inputs))
    return _Distinct(rows, bias[first].astype(np.float64), copy.ravel(), cap, may_drop)
