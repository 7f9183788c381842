"""Inference with the `spdnn` kernel: groups of layers a launch, dead images dropped between groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vkernels.ir.errors import OptionError

from .network import Floats, Indices, Layers, Network

BATCH = 4096
"""Images that are worked on at once unless the caller says otherwise: at 1024 neurons their features, 16 MiB, stay
in a last-level cache from group to group, and few enough pages are touched."""

FEW = 8
"""Batches are joined once so small a part of their images, one in `FEW`, is alive."""

DROP_COST = 0.7
"""What it costs to end a group (its launch, and storing and loading the features), in layers."""

FIRST_LAYERS = 2
"""Layers of the first group, before the rate at which images die is known."""

MOST_LAYERS = 64
"""Layers of one group, at most."""


class Kernel(Protocol):
    """The library's `spdnn` or its like: `out` is what the layers make of `y`, `peak` each column's largest feature."""

    def __call__(
        self, y: Floats, column: Indices, weight: Floats, bias: float, out: Floats, peak: Floats
    ) -> object: ...


@dataclass(frozen=True)
class Group:
    """One launch: how many layers ran, on how many live images."""

    layers: int
    images: int


@dataclass(frozen=True)
class Result:
    """`survivors`: ids, from 0, of the images with a feature that is not 0 after the last layer.
    `features`: those images' features, neurons × survivors.
    `seconds`: spent in launches and in dropping; reading and generating layers is left out.
    `executed_edges`: multiply-adds that ran, a vector's unused lanes left out.
    `groups`: the launches, in order.
    """

    survivors: NDArray[np.int64]
    features: Floats
    seconds: float
    executed_edges: int
    groups: tuple[Group, ...]


def infer(
    network: Network,
    features: Floats,
    *,
    threads: int | None = None,
    groups: Sequence[int] | None = None,
    batch: int | None = None,
    progress: Callable[[float, int], None] = lambda layers, live: None,
    kernel: Kernel | None = None,
) -> Result:
    """Run the network on the images of `features`: neurons × images of float32.

    `groups`: layers of each launch, the last number repeated as long as there are layers; by default each
    group is as long as pays at the rate at which images die. `batch`: images worked on at once, until few are
    alive. `threads`: as `set_threads` said, by default. `progress` is told, after each launch, how many layers were
    done, as a share of all images, and how many images of the batch are alive. Raises `OptionError` for groups or
    batches of nothing.
    """
    if batch is not None and batch < 1:
        raise OptionError(f"batch: expected at least one image, got {batch}")
    if groups is not None and (not groups or min(groups) < 1):
        raise OptionError(f"groups: expected at least one layer each, got {list(groups)}")
    with _using(threads):
        work = _Work(kernel or _spdnn(), network, groups, batch or BATCH, progress)
        ids, done = np.arange(features.shape[1], dtype=np.int64), 0
        while done < network.layers:
            features, kept, done = _stage(work, features, done)
            ids = ids[kept]
    return Result(ids, features, work.seconds, work.edges, tuple(work.groups))


@dataclass
class _Work:
    """What one inference is given, and what it has done so far."""

    kernel: Kernel
    network: Network
    lengths: Sequence[int] | None
    batch: int
    progress: Callable[[float, int], None]
    groups: list[Group] = field(default_factory=list)
    seconds: float = 0.0
    edges: int = 0


def _stage(work: _Work, features: Floats, done: int) -> tuple[Floats, NDArray[np.int64], int]:
    """Run batch after batch, all through as many layers: to the last, or until few of the first batch are alive.

    Returns the live images' features side by side, which columns of `features` they were, and the layers done.
    """
    images = features.shape[1]
    starts = range(0, max(1, images), work.batch)
    memory = [np.empty(work.network.neurons * min(images, work.batch), np.float32) for _ in range(2)]
    lengths: list[int] = []
    parts: list[Floats] = []
    kept: list[NDArray[np.int64]] = []
    for first in starts:
        columns = features[:, first : first + work.batch]
        run = _Batch(work, columns, columns.shape[1] / images if images else 1.0, memory)
        if first == 0:
            while done + sum(lengths) < work.network.layers and (len(starts) == 1 or not run.has_few):
                lengths.append(min(run.next_length(), work.network.layers - done - sum(lengths)))
                run.advance(done + sum(lengths[:-1]), lengths[-1])
        else:
            for number, length in enumerate(lengths):
                run.advance(done + sum(lengths[:number]), length)
        parts.append(run.features.copy() if len(starts) > 1 else run.features)
        kept.append(first + run.ids)
    return np.concatenate(parts, axis=1), np.concatenate(kept), done + sum(lengths)


class _Batch:
    """Some images on their way: the `features` of those that may be alive, and which images, `ids`, these are."""

    def __init__(self, work: _Work, features: Floats, share: float, memory: list[NDArray[np.float32]]):
        self.work, self.features, self.share = work, features, share
        self.images: int = features.shape[1]
        self.ids = np.arange(self.images, dtype=np.int64)
        self.groups: list[Group] = []
        self._spare, self._used = memory

    @property
    def has_few(self) -> bool:
        """Whether so few are alive that batches should be joined."""
        return FEW * self.ids.size <= self.images

    def next_length(self) -> int:
        return _length(self.work.lengths, self.groups, self.ids.size)

    def advance(self, first: int, length: int) -> None:
        """One group: `length` layers from the layer `first` on, and drop who died."""
        work, images = self.work, self.ids.size
        if images:
            layers = work.network.read(first, first + length)
            start = perf_counter()
            self.features, peak = self._launch(layers)
            self._drop(np.flatnonzero(peak > 0).astype(np.int32))
            work.seconds += perf_counter() - start
            work.edges += images * int(layers.nonzeros.sum())
            self.groups.append(Group(length, images))
            work.groups.append(self.groups[-1])
        work.progress(length * self.share, self.ids.size)

    def _launch(self, layers: Layers) -> tuple[Floats, NDArray[np.float32]]:
        out, peak = self._take_spare(self.ids.size), np.empty(self.ids.size, np.float32)
        self.work.kernel(self.features, layers.column, layers.weight, self.work.network.bias, out, peak)
        return out, peak

    def _drop(self, live: Indices) -> None:
        if live.size < self.ids.size:
            from vkernels.library.sparse import take_columns

            out = self._take_spare(live.size)
            take_columns(self.features, live, out)
            self.features, self.ids = out, self.ids[live]

    def _take_spare(self, images: int) -> Floats:
        """Memory for the features of so many images, not where `self.features` may be."""
        self._spare, self._used = self._used, self._spare
        neurons = self.work.network.neurons
        return self._used[: neurons * images].reshape(neurons, images)


def _length(lengths: Sequence[int] | None, groups: Sequence[Group], live: int) -> int:
    """Layers of the next group."""
    if lengths is not None:
        return lengths[min(len(groups), len(lengths) - 1)]
    if not groups:
        return FIRST_LAYERS
    last = groups[-1]
    rate = (1 - live / last.images) / last.layers
    # A group of g layers wastes about rate · g² / 2 layers on the dead, and saves 1 / g ends of a group.
    best = MOST_LAYERS if rate == 0 else round((2 * DROP_COST / rate) ** 0.5)
    return max(1, min(best, 2 * last.layers, MOST_LAYERS))


def _spdnn() -> Kernel:
    from vkernels.library.sparse import spdnn

    kernel: Kernel = spdnn
    return kernel


@contextmanager
def _using(threads: int | None) -> Iterator[None]:
    from vkernels.runtime.threads import get_threads, set_threads

    before = get_threads()
    set_threads(before if threads is None else threads)
    try:
        yield
    finally:
        set_threads(before)
