"""Inference with the `spdnn` kernel: groups of layers a launch, dead images dropped between groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vkernels.ir.errors import OptionError

from .network import Floats, Indices, Network

BATCH_BYTES = 1 << 30
"""Features that are worked on at once, unless the caller says how many images."""

DROP_COST = 0.7
"""What it costs to end a group (its launch, and storing and loading the features), in layers."""

FIRST_LAYERS = 2
"""Layers of the first group, before the rate at which images die is known."""

MOST_LAYERS = 64
"""Layers of one group, at most."""


class Kernel(Protocol):
    """The library's `spdnn`, or its like: `out` is what the layers make of the columns `live` of `y`."""

    def __call__(
        self, y: Floats, live: Indices, column: Indices, weight: Floats, bias: float, out: Floats, peak: Floats
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
    progress: Callable[[int, int], None] = lambda layers, live: None,
    kernel: Kernel | None = None,
) -> Result:
    """Run the network on the images of `features`: neurons × images of float32.

    `groups`: layers of each launch, the last number repeated as long as there are layers; by default each
    group is as long as pays at the rate at which images die. `batch`: images worked on at once. `threads`:
    as `set_threads` said, by default. `progress` is told, after each launch, how many layers were done on
    one more batch and how many images of it are alive. Raises `OptionError` for groups or batches of nothing.
    """
    if batch is not None and batch < 1:
        raise OptionError(f"batch: expected at least one image, got {batch}")
    if groups is not None and (not groups or min(groups) < 1):
        raise OptionError(f"groups: expected at least one layer each, got {list(groups)}")
    size = batch or max(1, BATCH_BYTES // (4 * network.neurons))
    starts = range(0, max(1, features.shape[1]), size)
    with _using(threads):
        run = kernel or _spdnn()
        parts = [_infer_batch(run, network, features[:, i : i + size], groups, progress) for i in starts]
    return Result(
        np.concatenate([start + part.survivors for start, part in zip(starts, parts, strict=True)]),
        np.concatenate([part.features for part in parts], axis=1),
        sum(part.seconds for part in parts),
        sum(part.executed_edges for part in parts),
        tuple(group for part in parts for group in part.groups),
    )


def _infer_batch(
    kernel: Kernel,
    network: Network,
    features: Floats,
    lengths: Sequence[int] | None,
    progress: Callable[[int, int], None],
) -> Result:
    """All layers on some images. `live`: the columns of `features` that are alive; `ids`: each column's image."""
    ids = np.arange(features.shape[1], dtype=np.int64)
    live = ids.astype(np.int32)
    spare, used = np.empty(0, np.float32), np.empty(0, np.float32)
    groups: list[Group] = []
    done, seconds, edges = 0, 0.0, 0
    while done < network.layers and live.size:
        length = min(_length(lengths, groups, live.size), network.layers - done)
        layers = network.read(done, done + length)
        start = perf_counter()
        if spare.size < network.neurons * live.size:
            spare = np.empty(network.neurons * live.size, np.float32)
        out = spare[: network.neurons * live.size].reshape(network.neurons, live.size)
        peak = np.empty(live.size, np.float32)
        kernel(features, live, layers.column, layers.weight, network.bias, out, peak)
        groups.append(Group(length, live.size))
        edges += live.size * int(layers.nonzeros.sum())
        features, spare, used = out, used, spare
        ids, live = ids[live], np.flatnonzero(peak > 0).astype(np.int32)
        seconds += perf_counter() - start
        done += length
        progress(length, live.size)
    if done < network.layers:
        progress(network.layers - done, 0)
    return Result(ids[live], features[:, live], seconds, edges, tuple(groups))


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
