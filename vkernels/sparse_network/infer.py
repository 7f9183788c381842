"""Inference: groups of layers a launch, with images that are dead or done dropped between groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from vkernels.ir.errors import OptionError
from vkernels.library.spdnn import distance_to_state, take_columns
from vkernels.runtime.threads import get_threads, set_threads

from .fixed_points import FixedPoints
from .network_layers import Floats, Indices, Layers, NetworkLayers
from .reorder import OrderedReader
from .run_layers import DTYPES, FLOAT32, as_floats, for_kernels, run_layers
from .shared_plans import kernel_for

BATCH_BYTES = 16 << 20
"""Features that are worked on at once unless the caller says otherwise: they stay in a last-level cache from group to
group, and few enough pages are touched."""

MIN_IMAGES_A_BATCH = 192
"""Images of a batch, at least: with fewer alive, most lanes of the next group's vectors would be empty."""

FEW = 6
"""Batches are joined once so small a part of their images, one in `FEW`, is alive."""

DROP_COST = 0.7
"""What it costs to end a group (its launch, and storing and loading the features), in layers."""

COPY_COST = 25
"""What it costs to copy a feature, in connections."""

FIRST_LAYERS = 4
"""Layers of the first group, before the rate at which images die is known."""

LINE = 64
"""Bytes of a cache line."""

MAX_LAYERS_A_LAUNCH = 64
"""Layers of one group, at most."""

GROUP_BYTES = 256 << 20
"""Layers that are read for one group, at most, of a network that is not held."""

MAX_UNSETTLED_LAYERS = 8
"""The same where images may be done before the last layer, which is looked for after each group."""


class LayerKernel(Protocol):
    """`run_layers` or its like: `out` is what the layers make of `y`, `peak` each column's largest feature."""

    def __call__(
        self, y: Floats, column: Indices, weight: Floats, bias: Floats, cap: float, out: Floats, peak: Floats
    ) -> object: ...


@dataclass(frozen=True)
class LayerGroup:
    """One launch: how many layers ran, on how many images, from which layer on."""

    layers: int
    images: int
    first: int


@dataclass(frozen=True)
class InferenceResult:
    """`survivors`: ids, from 0 and ascending, of the images with a feature that is not 0 after the last layer.
    `features`: those images' features, outputs × survivors.
    `seconds`: spent in launches, in dropping, and in putting layers in order that are not held; reading and generating
    layers is left out.
    `executed_edges`: multiply-adds that ran, a vector's unused lanes left out.
    `groups`: the launches, in order. `transfer`: seconds of bringing weights and features to another device and back.
    """

    survivors: NDArray[np.int64]
    features: Floats
    seconds: float
    executed_edges: int
    groups: tuple[LayerGroup, ...]
    transfer: float = 0.0


def infer(
    network: NetworkLayers,
    features: Floats,
    *,
    threads: int | None = None,
    groups: Sequence[int] | None = None,
    batch: int | None = None,
    progress: Callable[[float, int], None] = lambda layers, live: None,
    kernel: LayerKernel | None = None,
    fixed: FixedPoints | None = None,
    storage: str = FLOAT32,
) -> InferenceResult:
    """Run the network on the images of `features`: inputs × images of float32.

    `groups`: layers of each launch, the last number repeated as long as there are layers; by default each
    group is as long as pays at the rate at which images die. `batch`: images worked on at once, until few are
    alive. `threads`: as `set_threads` said, by default. `progress` is told, after each launch, how many layers were
    done, as a share of all images, and how many images of the batch are alive. `fixed`: states in which images are
    done. `storage`: what features are held as between layers. A network that is not held is read once: all images are
    then one batch. Raises `OptionError` for groups or batches of nothing.
    """
    if batch is not None and batch < 1:
        raise OptionError(f"batch: expected at least one image, got {batch}")
    if groups is not None and (not groups or min(groups) < 1):
        raise OptionError(f"groups: expected at least one layer each, got {list(groups)}")
    if batch is None:
        batch = BATCH_BYTES // (4 * max(1, *network.sizes[1:])) if network.held else features.shape[1]
        batch = max(MIN_IMAGES_A_BATCH, batch)
    with using_threads(threads):
        work = _Work(
            kernel or run_layers, network, OrderedReader(network), groups, batch, progress, fixed, DTYPES[storage]
        )
        ids, done = np.arange(features.shape[1], dtype=np.int64), 0
        while done < network.layers:
            features, ids, done = _stage(work, features, ids, done)
    features, ids = finished(as_floats(features), ids, work.settled, fixed, network.layers)
    return InferenceResult(ids, features, work.seconds + work.turn.seconds, work.edges, tuple(work.groups))


def finished(
    features: Floats,
    ids: NDArray[np.int64],
    settled: Sequence[NDArray[np.int64]],
    fixed: FixedPoints | None,
    layers: int,
) -> tuple[Floats, NDArray[np.int64]]:
    """Survivors among images that ran to the end and, in order with them, those that were `settled` before."""
    if fixed is not None and settled:
        features, ids = _with_settled(features, ids, np.concatenate(settled), fixed.state(layers))
    alive = features.any(axis=0)
    return (features, ids) if alive.all() else (features[:, alive], ids[alive])


def _with_settled(
    features: Floats, ids: NDArray[np.int64], settled: NDArray[np.int64], state: Floats
) -> tuple[Floats, NDArray[np.int64]]:
    """Images that ran to the end and those that were done before, in the order of their ids."""
    everyone = np.concatenate([ids, settled])
    order = np.argsort(everyone)
    result = np.empty((state.size, everyone.size), np.float32)
    place = np.argsort(order)
    result[:, place[: ids.size]] = features
    result[:, place[ids.size :]] = state[:, None]
    return result, everyone[order]


@dataclass
class _Work:
    """What one inference is given, and what it has done so far; `settled`: ids of images that are done;
    `layer_bytes`: of a layer that was read last."""

    kernel: LayerKernel
    network: NetworkLayers
    turn: OrderedReader
    lengths: Sequence[int] | None
    batch: int
    progress: Callable[[float, int], None]
    fixed: FixedPoints | None
    dtype: Any = np.float32
    groups: list[LayerGroup] = field(default_factory=list)
    settled: list[NDArray[np.int64]] = field(default_factory=list)
    seconds: float = 0.0
    edges: int = 0
    layer_bytes: int = 0

    @property
    def most_layers(self) -> int:
        return MAX_LAYERS_A_LAUNCH if self.fixed is None else MAX_UNSETTLED_LAYERS

    @property
    def most_read(self) -> int:
        """Layers that may be read at once, if they are like the last."""
        return MAX_LAYERS_A_LAUNCH if self.network.held else max(1, GROUP_BYTES // max(1, self.layer_bytes))


def _stage(work: _Work, features: Floats, ids: NDArray[np.int64], done: int) -> tuple[Floats, NDArray[np.int64], int]:
    """Run batch after batch, all through as many layers: to the last, or until few of the first batch are alive.

    Returns the live images' features side by side, these images' ids, and the layers done.
    """
    network, images = work.network, ids.size
    starts = range(0, max(1, images), work.batch)
    largest = max(network.sizes[done + 1 :])
    memory = [aligned(largest * row_stride(min(images, work.batch), work.dtype), work.dtype) for _ in range(2)]
    lengths: list[int] = []
    parts: list[_Batch] = []
    for first in starts:
        chosen = slice(first, first + work.batch)
        run = _Batch(work, features[:, chosen], ids[chosen], memory, images)
        if first == 0:
            while done + sum(lengths) < network.layers and (len(starts) == 1 or not run.has_few):
                lengths.append(run.next_length(done + sum(lengths)))
                run.advance(done + sum(lengths[:-1]), lengths[-1])
        else:
            for number, length in enumerate(lengths):
                run.leaves = number == len(lengths) - 1
                run.advance(done + sum(lengths[:number]), length)
        if len(starts) > 1 and not run.has_left:
            run.features = run.features.copy()
        parts.append(run)
    done += sum(lengths)
    if len(parts) == 1:
        return parts[0].features, parts[0].ids, done
    ids = np.concatenate([run.ids for run in parts])
    together = _lines(None, network.sizes[done], ids.size, work.dtype)
    np.concatenate([run.features for run in parts], axis=1, out=together)
    return together, ids, done


class _Batch:
    """Some images on their way: the `features` of those that may be alive, and which images, `ids`, these are.

    `leaves`: what is dropped next is the last, so that what is kept must not lie in `memory`, which other batches use;
    `has_left`: it does not.
    """

    def __init__(self, work: _Work, features: Floats, ids: NDArray[np.int64], memory: list[NDArray[Any]], among: int):
        self.work, self.features, self.ids = work, features, ids
        self.images: int = ids.size
        self.among = among
        self.share = self.images / among if among else 1.0
        self.alive = self.images
        self.pace: list[LayerGroup] = []
        self.leaves = self.has_left = False
        self._spare, self._used = memory

    @property
    def has_few(self) -> bool:
        """Whether so few are alive that batches should be joined."""
        return FEW * self.alive <= self.images

    def next_length(self, done: int) -> int:
        """Layers of the next group, which one launch can take."""
        network = self.work.network
        length = group_length(self.work.lengths, self.pace, self.alive, self.work.most_layers)
        return min(length, network.end_after(done) - done, self.work.most_read)

    def advance(self, first: int, length: int) -> None:
        """One group: `length` layers from the layer `first` on, and drop who died or is done."""
        work, images, last = self.work, self.ids.size, first + length
        if images:
            layers = work.turn.read(first, last, images)
            work.layer_bytes = layers.nbytes // length
            start = perf_counter()
            self.features, peak = self._launch(layers)
            self.pace.append(LayerGroup(length, self.alive, first))
            if last >= work.network.settled_from:
                self._drop(peak != 0, layers, last)
            if work.fixed is not None and last >= work.fixed.first and self.ids.size:
                self._settle(work.turn.numbered(work.fixed.state(last), last))
            work.seconds += perf_counter() - start
            work.edges += images * int(layers.nonzeros.sum())
            work.groups.append(LayerGroup(length, images, first))
        else:
            self.features = np.empty((work.network.sizes[last], 0), work.dtype)
        work.progress(length * self.share, self.ids.size)

    def _launch(self, layers: Layers) -> tuple[Floats, NDArray[np.float32]]:
        out, peak = self._take_spare(layers.outputs, self.ids.size), np.empty(self.ids.size, np.float32)
        self.has_left = False
        self.work.kernel(self.features, layers.column, layers.weight, layers.bias, self.work.network.cap, out, peak)
        return out, peak

    def _drop(self, living: NDArray[np.bool_], layers: Layers, last: int) -> None:
        network = self.work.network
        self.alive = int(np.count_nonzero(living))
        if self.work.lengths is None and self.work.fixed is None and self.alive and last < network.layers:
            if network.held and last == network.end_after(last - 1):
                layers = network.read(last, last + 1)
            carried = 2 * self.next_length(last) * layers.column.shape[2] * (living.size - self.alive)
            if carried < COPY_COST * self.alive and FEW * self.alive > self.images:
                return
        self._keep(living)

    def _settle(self, state: Floats) -> None:
        away = np.empty(self.ids.size, np.float32)
        kernel_for(self.features, distance_to_state)(for_kernels(self.features), state, away)
        self.work.settled.append(self.ids[away == 0])
        self._keep(away != 0)
        self.alive = self.ids.size

    def _keep(self, chosen: NDArray[np.bool_]) -> None:
        live = np.flatnonzero(chosen).astype(np.int32)
        if live.size < self.ids.size:
            self.has_left = self.leaves or (self.images < self.among and self.has_few)
            take = partial(_lines, None, dtype=self.work.dtype) if self.has_left else self._take_spare
            out = take(self.features.shape[0], live.size)
            if out.size:
                kernel_for(self.features, take_columns)(for_kernels(self.features), live, for_kernels(out))
            self.features, self.ids = out, self.ids[live]

    def _take_spare(self, outputs: int, images: int) -> Floats:
        """Memory for the features of so many images, not where `self.features` may be."""
        self._spare, self._used = self._used, self._spare
        return _lines(self._used, outputs, images, self._used.dtype)


def _lines(memory: NDArray[Any] | None, outputs: int, images: int, dtype: Any) -> Floats:
    """Rows that begin where cache lines do, in this memory or in some of their own."""
    stride = row_stride(images, dtype)
    memory = aligned(outputs * stride, dtype) if memory is None else memory
    return memory[: outputs * stride].reshape(outputs, stride)[:, :images]


def row_stride(images: int, dtype: Any = np.float32) -> int:
    """Elements from row to row of so many images: whole cache lines, an odd number of them, so that rows do not contend
    for the same place in a cache."""
    line: int = LINE // np.dtype(dtype).itemsize
    return (-(-images // line) | 1) * line


def aligned(elements: int, dtype: Any = np.float32) -> NDArray[Any]:
    """Memory that begins where a cache line does."""
    line: int = LINE // np.dtype(dtype).itemsize
    room = np.empty(elements + line, dtype)
    start = -room.ctypes.data // room.itemsize % line
    return room[start : start + elements]


def group_length(
    lengths: Sequence[int] | None, groups: Sequence[LayerGroup], live: int, most: int = MAX_LAYERS_A_LAUNCH
) -> int:
    """Layers of the next group."""
    if lengths is not None:
        return lengths[min(len(groups), len(lengths) - 1)]
    if not groups:
        return FIRST_LAYERS
    last = groups[-1]
    rate = (1 - live / last.images) / last.layers
    # A group of g layers wastes about rate · g² / 2 layers on the dead, and saves 1 / g ends of a group.
    best = most if rate == 0 else round((2 * DROP_COST / rate) ** 0.5)
    return max(1, min(best, 2 * last.layers, most))


@contextmanager
def using_threads(threads: int | None) -> Iterator[None]:
    """Let calls use so many threads meanwhile; None: as many as they do."""
    before = get_threads()
    if threads is None or threads == before:  # said again, it would make kernels forget how they were called
        yield
        return
    set_threads(threads)
    try:
        yield
    finally:
        set_threads(before)
