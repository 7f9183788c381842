"""The layers of a sparse network, in ELL form, read a group at a time, so that a network need not fit in memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
Indices: TypeAlias = NDArray[Any]
"""Integers of 16 or 32 bits."""

CAP = 32.0
"""The challenge's upper bound on features."""

READ_BYTES = 1 << 28
"""Default limit, in bytes, for layers that are read at once."""

MAX_HELD_BYTES = 6 << 30
"""Default limit, in bytes, for holding a network's layers in memory during inference."""


@dataclass(frozen=True)
class Layers:
    """Consecutive layers of equal sizes: `weight[l, n, k]` connects input `column[l, n, k]` to output n.

    Both have the shape layers × outputs × most inputs of one output; outputs with fewer inputs are padded with weights
    of 0. If all weights of each output are equal, they may be stored once, with a last stride of 0. If outputs come in
    blocks with common inputs, `column` is layers × blocks × inputs of a block, and `weight` is layers × blocks ×
    outputs of a block × inputs of a block. `bias[l, n]` is added to each output. `inputs`: the number of inputs; if it
    differs from the number of outputs, there is one layer. `nonzeros[l]`: connections of each layer without padding.
    """

    column: Indices
    weight: Floats
    bias: Floats
    nonzeros: NDArray[np.int64]
    inputs: int

    @property
    def outputs(self) -> int:
        return int(self.bias.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of indices and weights."""
        return self.column.nbytes + self.weight.nbytes

    def part(self, first: int, last: int) -> Layers:
        """A view of some layers, `last` exclusive."""
        chosen = slice(first, last)
        return Layers(self.column[chosen], self.weight[chosen], self.bias[chosen], self.nonzeros[chosen], self.inputs)

    def narrow(self) -> Layers:
        """The same layers with indices of 16 bits if the number of inputs allows it."""
        dtype = np.int16 if self.inputs <= np.iinfo(np.int16).max else np.int32
        return Layers(self.column.astype(dtype, copy=False), self.weight, self.bias, self.nonzeros, self.inputs)


@dataclass(frozen=True)
class NetworkLayers:
    """A network's layers of features, each clamp(weights · features + bias, 0, cap) of the one before.

    `sizes`: the number of inputs, then the number of outputs of each layer. `read(first, last)` returns the layers from
    `first` to `last` - 1, counted from 0; callers ask only for layers of equal sizes and between two `cuts`.
    `settled_from`: the first layer from which on no bias is positive, so that images without features stay so.
    `held`: the layers are in memory, so reading costs nothing. `most_held`: layers of more bytes than this are not held
    for inference but read again for every run, a part at a time.
    """

    sizes: tuple[int, ...]
    read: Callable[[int, int], Layers]
    cap: float = CAP
    cuts: tuple[int, ...] = ()
    settled_from: int = 0
    held: bool = False
    most_held: int = MAX_HELD_BYTES

    @property
    def layers(self) -> int:
        return len(self.sizes) - 1

    @property
    def inputs(self) -> int:
        return self.sizes[0]

    @property
    def outputs(self) -> int:
        return self.sizes[-1]

    @cached_property
    def cache(self) -> dict[tuple[str, str], Any]:
        """What preparation and inference keep with the network for later runs, by purpose and name."""
        return {}

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """The ends of runs of layers that one launch can execute: of equal sizes, and between cuts."""
        last = [
            layer
            for layer in range(1, self.layers)
            if not self.sizes[layer - 1] == self.sizes[layer] == self.sizes[layer + 1]
        ]
        return tuple(sorted({*last, *self.cuts, self.layers} - {0}))

    def end_after(self, layer: int) -> int:
        """The end of the run that contains a layer."""
        return self.ends[bisect_right(self.ends, layer)]

    def first_layers(self, count: int) -> Self:
        """The network of the first layers only."""
        cuts = tuple(cut for cut in self.cuts if cut < count)
        return replace(self, sizes=self.sizes[: count + 1], cuts=cuts, settled_from=min(count, self.settled_from))

    def in_memory(self) -> Self:
        """The same network with all layers in memory."""
        return replace(self, read=reading([self.read(first, last) for first, last in self.each_run()]), held=True)

    def each_layer(self, most_bytes: int = READ_BYTES) -> Iterator[Layers]:
        """One layer after another; as many are read at once as `most_bytes` allow."""
        for first, last in self.each_run(most_bytes):
            layers = self.read(first, last)
            for index in range(last - first):
                yield layers.part(index, index + 1)

    def each_run(self, most_bytes: int = 1 << 62) -> list[tuple[int, int]]:
        """Groups of layers that can be read at once: first layer and last, exclusive."""
        found = []
        first = 0
        while first < self.layers:
            end = self.end_after(first)
            if end - first > 1 and most_bytes < 1 << 62:
                end = min(end, first + max(1, most_bytes // max(1, self.read(first, first + 1).nbytes)))
            found.append((first, end))
            first = end
        return found


def joined(parts: Sequence[Layers]) -> Layers:
    """Concatenate groups of layers of equal sizes and blocks; narrower ones are padded."""
    most = max(part.column.shape[2] for part in parts)

    def padded(array: NDArray[Any]) -> NDArray[Any]:
        return np.pad(array, ((0, 0),) * (array.ndim - 1) + ((0, most - array.shape[-1]),))

    return Layers(
        np.concatenate([padded(part.column) for part in parts]),
        np.concatenate([padded(part.weight) for part in parts]),
        np.concatenate([part.bias for part in parts]),
        np.concatenate([part.nonzeros for part in parts]),
        parts[0].inputs,
    )


def reading(runs: Sequence[Layers]) -> Callable[[int, int], Layers]:
    """The `read` function of a network whose runs of layers are in memory."""
    ends = np.cumsum([len(run.nonzeros) for run in runs]).tolist()

    def read(first: int, last: int) -> Layers:
        number = bisect_right(ends, first)
        start = ends[number] - len(runs[number].nonzeros)
        return runs[number].part(first - start, last - start)

    return read
