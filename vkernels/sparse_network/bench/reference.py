"""The float64 reference: surviving images, and live images at each layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from vkernels.ir.system_resources import ThreadPool

from ..merge import distinct_rows
from ..network_layers import Indices, Layers, NetworkLayers

State: TypeAlias = tuple[NDArray[np.float64], NDArray[np.int64]]
"""Features, neurons × live images, and the images' ids."""

BATCH = 2048
"""Images computed at once, at most."""

BATCH_BYTES = 64 << 20
"""Approximate bytes of features of the images computed at once."""

DEFAULT_MEMORY = 4 << 30
"""Approximate memory of a reference: half for features, a quarter for layers that are kept for later images, an eighth
for layers that are read at once."""


@dataclass(frozen=True)
class ReferenceResult:
    """`survivors`: ids, from 0, of the images with a nonzero feature after the last layer.
    `live[l]`: images with a nonzero feature before layer l.
    `nonzeros[l]`: connections of layer l.
    """

    survivors: NDArray[np.int64]
    live: NDArray[np.int64]
    nonzeros: NDArray[np.int64]

    @property
    def real_edges(self) -> int:
        """Multiply-adds for the live images of each layer."""
        return int(self.live @ self.nonzeros)

    @staticmethod
    def joined(parts: Sequence[ReferenceResult], starts: Sequence[int]) -> ReferenceResult:
        """Join the results of consecutive images; `starts`: the first id of each part."""
        survivors = np.concatenate([start + part.survivors for start, part in zip(starts, parts, strict=True)])
        return ReferenceResult(survivors, np.sum([part.live for part in parts], axis=0), parts[0].nonzeros)


@dataclass(frozen=True)
class _Distinct:
    """A layer's distinct rows: output n has row `copy[n]` of `rows` and of `bias`.

    `may_drop`: images without features stay so.
    """

    rows: csr_array[Any]
    bias: NDArray[np.float64]
    copy: NDArray[np.intp]
    cap: float
    may_drop: bool

    @property
    def nbytes(self) -> int:
        rows = self.rows
        return int(rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes + self.copy.nbytes + self.bias.nbytes)


class ReferenceNetwork:
    """A network that runs in float64 on parts of the images, within about `memory` bytes."""

    def __init__(self, network: NetworkLayers, memory: int = DEFAULT_MEMORY):
        self.network, self.memory = network, memory
        self._kept: list[tuple[_Distinct, int]] = []

    def run(
        self,
        features: NDArray[Any],
        threads: int = 1,
        progress: Callable[[int, int], None] = lambda layers, live: None,
    ) -> ReferenceResult:
        """See `run_reference`."""
        widest = 8 * max(1, *self.network.sizes)
        batch = min(BATCH, max(64, BATCH_BYTES // widest))
        starts = range(0, max(1, features.shape[1]), max(batch, self.memory // 2 // widest))
        with ThreadPool(threads) as pool:
            parts = [self._run_piece(features[:, i : i + starts.step], batch, pool, progress) for i in starts]
        return ReferenceResult.joined(parts, starts)

    def _run_piece(
        self, features: NDArray[Any], batch: int, pool: ThreadPool, progress: Callable[[int, int], None]
    ) -> ReferenceResult:
        starts = range(0, max(1, features.shape[1]), batch)
        may_drop = self.network.settled_from == 0
        states = [_start(features[:, i : i + batch], i, may_drop) for i in starts]
        live, nonzeros = [], []
        for layer, (distinct, count) in enumerate(self._layers()):
            live.append(sum(ids.size for _, ids in states))
            nonzeros.append(count)
            states = list(pool.map(partial(_advance, distinct), states))
            progress(layer + 1, live[-1])
        survivors = np.concatenate([_alive(*state)[1] for state in states]).astype(np.int64)
        return ReferenceResult(survivors, np.array(live, np.int64), np.array(nonzeros, np.int64))

    def _layers(self) -> Iterator[tuple[_Distinct, int]]:
        """Each layer and its number of connections; the first layers are kept while there is memory."""
        yield from self._kept
        taken = sum(layer.nbytes for layer, _ in self._kept)
        rest = _distinct_layers(self.network, len(self._kept), self.memory // 8)
        for number, found in enumerate(rest, len(self._kept)):
            taken += found[0].nbytes
            if taken <= self.memory // 4 and number == len(self._kept):
                self._kept.append(found)
            yield found


def run_reference(
    network: NetworkLayers,
    features: NDArray[Any],
    threads: int = 1,
    progress: Callable[[int, int], None] = lambda layers, live: None,
) -> ReferenceResult:
    """Run the network in float64, dead images dropped after every layer.

    `features`: inputs × images, any dtype. Outputs with equal inputs are computed once and copied, which changes no
    result. `progress` receives, after each layer, the number of layers done (from 0 again for every `DEFAULT_MEMORY`
    / 2 of features), and the number of images that were alive before it.
    """
    return ReferenceNetwork(network).run(features, threads, progress)


def _start(features: NDArray[Any], first: int, may_drop: bool) -> State:
    """The images of one batch, numbered from `first` on; images of zeros are dropped if `may_drop`."""
    batch = features.astype(np.float64)
    ids = np.arange(first, first + batch.shape[1])
    return _alive(batch, ids) if may_drop else (batch, ids)


def _advance(layer: _Distinct, state: State) -> State:
    features, ids = state
    values = layer.rows @ features
    values += layer.bias[:, None]
    np.clip(values, 0, layer.cap, out=values)
    if layer.may_drop:
        values, ids = _alive(values, ids)
    return values[layer.copy], ids


def _alive(features: NDArray[np.float64], ids: NDArray[np.int64]) -> State:
    alive = features.any(axis=0)
    return (features, ids) if alive.all() else (features[:, alive], ids[alive])


def _distinct_layers(network: NetworkLayers, begin: int, most_bytes: int) -> Iterator[tuple[_Distinct, int]]:
    """Each layer's distinct rows and number of connections, from the layer `begin` on."""
    for start, last in network.each_run(most_bytes):
        if last <= begin:
            continue
        first = max(start, begin)
        layers = network.read(first, last)
        for index in range(last - first):
            may_drop = first + index + 1 >= network.settled_from
            yield _distinct(layers, index, network.cap, may_drop), int(layers.nonzeros[index])


def _distinct(layers: Layers, index: int, cap: float, may_drop: bool) -> _Distinct:
    column, weight = layers.column[index].astype(np.int32), layers.weight[index]
    bias = np.ascontiguousarray(layers.bias[index], np.float32)
    first, copy = distinct_rows(column, weight, bias)
    width = column.shape[1]
    ends: Indices = np.arange(0, (len(first) + 1) * width, width, dtype=np.int32)
    data = (weight[first].ravel().astype(np.float64), column[first].ravel(), ends)
    rows = csr_array(data, shape=(len(first), layers.inputs))
    return _Distinct(rows, bias[first].astype(np.float64), copy, cap, may_drop)
