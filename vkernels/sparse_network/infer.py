"""Inference in groups of layers, one launch per group; dead and finished images are dropped between groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from vkernels.ir.errors import OptionError
from vkernels.library.spdnn import distance_to_state, take_columns
from vkernels.runtime.threads import using_threads

from .fixed_points import FixedPoints
from .network_layers import Floats, Indices, Layers, NetworkLayers
from .reorder import OrderedReader
from .run_layers import DTYPES, FLOAT32, as_floats, for_kernels, run_layers
from .shared_plans import kernel_for

BATCH_BYTES = 16 << 20
"""Default size of a batch's features: they stay in the last-level cache from group to group, on few pages."""

MIN_IMAGES_A_BATCH = 192
"""Minimum of images of a batch, so that most vector lanes are used while images die."""

FEW = 6
"""Batches are joined once at most one in this many images is alive."""

DROP_COST = 0.7
"""Cost of ending a group (a launch, storing and loading features), in layers."""

COPY_COST = 25
"""Cost of copying a feature, in connections."""

ROOM = 1.25
"""Room for the live images of all batches, as a multiple of what the first batch leaves one to expect."""

FIRST_LAYERS = 4
"""Layers of the first group, while the rate at which images die is unknown."""

LINE = 64
"""Bytes of a cache line."""

MAX_LAYERS_A_LAUNCH = 64
"""Layers of one group, at most."""

GROUP_BYTES = 256 << 20
"""Limit, in bytes, for layers that are read for one group of a network that is not held in memory."""

MAX_UNSETTLED_LAYERS = 8
"""Layers of one group, at most, if finished images are looked for after each group."""


class LayerKernel(Protocol):
    """The signature of `run_layers`: writes the layers' output for `y` into `out`, and each column's maximum into
    `peak`."""

    def __call__(
        self, y: Floats, column: Indices, weight: Floats, bias: Floats, cap: float, out: Floats, peak: Floats
    ) -> object: ...


@dataclass(frozen=True)
class LayerGroup:
    """One launch: number of layers, number of images, first layer."""

    layers: int
    images: int
    first: int


@dataclass(frozen=True)
class InferenceResult:
    """`survivors`: ascending ids, from 0, of the images with a nonzero feature after the last layer.
    `features`: the survivors' features, outputs × survivors.
    `seconds`: time of launches, of dropping images, and of reordering layers that are not held in memory, without
    reading and generating layers. `executed_edges`: multiply-adds that ran, without unused vector lanes.
    `groups`: the launches, in order. `transfer`: seconds of copies to another device and back.
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

    `groups`: layers of each launch, the last number repeated; by default chosen by the rate at which images die.
    `batch`: images processed at once, until few are alive. `threads`: by default those of `set_threads`. `progress`
    receives, after each launch, the layers done, weighted by the batch's share of all images, and the number of live
    images of the batch. `fixed`: states in which images are finished. `storage`: dtype of features between layers. A
    network that is not held in memory is read once, with all images in one batch. Raises `OptionError` for empty groups
    or batches.
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
    features = as_floats(features)
    if fixed is not None or not 0 < network.layers >= network.settled_from:  # else the last drop left the living only
        features, ids = finished(features, ids, work.settled, fixed, network.layers)
    return InferenceResult(ids, features, work.seconds + work.turn.seconds, work.edges, tuple(work.groups))


def finished(
    features: Floats,
    ids: NDArray[np.int64],
    settled: Sequence[NDArray[np.int64]],
    fixed: FixedPoints | None,
    layers: int,
) -> tuple[Floats, NDArray[np.int64]]:
    """The survivors of images that ran to the end and of `settled` ones, in the order of their ids."""
    if fixed is not None and settled:
        features, ids = _with_settled(features, ids, np.concatenate(settled), fixed.state(layers))
    alive = features.any(axis=0)
    return (features, ids) if alive.all() else (features[:, alive], ids[alive])


def _with_settled(
    features: Floats, ids: NDArray[np.int64], settled: NDArray[np.int64], state: Floats
) -> tuple[Floats, NDArray[np.int64]]:
    everyone = np.concatenate([ids, settled])
    order = np.argsort(everyone)
    result = np.empty((state.size, everyone.size), np.float32)
    place = np.argsort(order)
    result[:, place[: ids.size]] = features
    result[:, place[ids.size :]] = state[:, None]
    return result, everyone[order]


@dataclass
class _Work:
    """Arguments and state of one inference; `settled`: ids of finished images; `layer_bytes`: size of the last
    layer."""

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
        """Layers that may be read at once, if they are as large as the last."""
        return MAX_LAYERS_A_LAUNCH if self.network.held else max(1, GROUP_BYTES // max(1, self.layer_bytes))


def _stage(work: _Work, features: Floats, ids: NDArray[np.int64], done: int) -> tuple[Floats, NDArray[np.int64], int]:
    """Run all batches through the same layers: to the last, or until few images of the first batch are alive.

    Returns the live images' features, their ids, and the layers done.
    """
    network, images = work.network, ids.size
    starts = range(0, max(1, images), work.batch)
    largest = max(network.sizes[done + 1 :])
    memory = [aligned(largest * row_stride(min(images, work.batch), work.dtype), work.dtype) for _ in range(2)]
    lengths: list[int] = []
    joined: _Joined | None = None
    for first in starts:
        chosen = slice(first, first + work.batch)
        run = _Batch(work, features[:, chosen], ids[chosen], memory, images)
        if first == 0:
            while done + sum(lengths) < network.layers and (len(starts) == 1 or not run.has_few):
                lengths.append(run.next_length(done + sum(lengths)))
                run.advance(done + sum(lengths[:-1]), lengths[-1])
        else:
            for number, length in enumerate(lengths):
                run.leaves = joined if number == len(lengths) - 1 else None
                run.advance(done + sum(lengths[:number]), length)
        if len(starts) == 1:
            return run.features, run.ids, done + sum(lengths)
        if joined is None:
            joined = _Joined(network.sizes[done + sum(lengths)], round(ROOM * run.ids.size * len(starts)), work.dtype)
        joined.add(run)
    assert joined is not None, "there is a batch"
    return joined.features, np.concatenate(joined.ids), done + sum(lengths)


class _Joined:
    """The live images of batches, side by side. There is room for `images` at first."""

    def __init__(self, outputs: int, images: int, dtype: Any):
        self.ids: list[NDArray[np.int64]] = []
        self._images = 0
        self._memory = _lines(None, outputs, max(1, images), dtype)

    @property
    def features(self) -> NDArray[Any]:
        """The features of all images so far."""
        return self._memory[:, : self._images]

    def take(self, images: int) -> NDArray[Any]:
        """Memory for the features of the next images."""
        end, outputs = self._images + images, self._memory.shape[0]
        if end > self._memory.shape[1]:
            before = self.features
            self._memory = _lines(None, outputs, 2 * end, before.dtype)
            self.features[:] = before
        return self._memory[:, self._images : end]

    def add(self, run: _Batch) -> None:
        """Add a batch, whose features may be in the memory of `take` already."""
        memory = self.take(run.ids.size)
        if not np.may_share_memory(memory, run.features):
            memory[:] = run.features
        self.ids.append(run.ids)
        self._images += run.ids.size


class _Batch:
    """A batch: the `features` and `ids` of images that may be alive.

    `leaves`: where features go with the next drop, the batch's last: other batches use `memory`.
    """

    def __init__(self, work: _Work, features: Floats, ids: NDArray[np.int64], memory: list[NDArray[Any]], among: int):
        self.work, self.features, self.ids = work, features, ids
        self.images: int = ids.size
        self.among = among
        self.share = self.images / among if among else 1.0
        self.alive = self.images
        self.pace: list[LayerGroup] = []
        self.leaves: _Joined | None = None
        self._spare, self._used = memory

    @property
    def has_few(self) -> bool:
        """Whether batches should be joined because few images are alive."""
        return FEW * self.alive <= self.images

    def next_length(self, done: int) -> int:
        """The number of layers of the next group."""
        network = self.work.network
        length = group_length(self.work.lengths, self.pace, self.alive, self.work.most_layers)
        return min(length, network.end_after(done) - done, self.work.most_read)

    def advance(self, first: int, length: int) -> None:
        """Run `length` layers from the layer `first` on, and drop dead and finished images."""
        work, images, last = self.work, self.ids.size, first + length
        if images:
            layers = work.turn.read(first, last, images)
            work.layer_bytes = layers.nbytes // length
            start = perf_counter()
            out, peak = self._take_spare(layers.outputs, images), np.empty(images, np.float32)
            work.kernel(self.features, layers.column, layers.weight, layers.bias, work.network.cap, out, peak)
            self.features = out
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
            if self.leaves is not None and self.work.fixed is None:  # else there may be a second drop
                out = self.leaves.take(live.size)
            else:
                out = self._take_spare(self.features.shape[0], live.size)
            if out.size:
                kernel_for(self.features, take_columns)(for_kernels(self.features), live, for_kernels(out))
            self.features, self.ids = out, self.ids[live]

    def _take_spare(self, outputs: int, images: int) -> Floats:
        """Memory for the features of some images, apart from that of `self.features`."""
        self._spare, self._used = self._used, self._spare
        return _lines(self._used, outputs, images, self._used.dtype)


def _lines(memory: NDArray[Any] | None, outputs: int, images: int, dtype: Any) -> Floats:
    stride = row_stride(images, dtype)
    memory = aligned(outputs * stride, dtype) if memory is None else memory
    return memory[: outputs * stride].reshape(outputs, stride)[:, :images]


def row_stride(images: int, dtype: Any = np.float32) -> int:
    """The row stride for a number of images: an odd number of cache lines, so that rows use different cache sets."""
    line: int = LINE // np.dtype(dtype).itemsize
    return (-(-images // line) | 1) * line


def aligned(elements: int, dtype: Any = np.float32) -> NDArray[Any]:
    """Memory aligned to a cache line."""
    line: int = LINE // np.dtype(dtype).itemsize
    room = np.empty(elements + line, dtype)
    start = -room.ctypes.data // room.itemsize % line
    return room[start : start + elements]


def group_length(
    lengths: Sequence[int] | None, groups: Sequence[LayerGroup], live: int, most: int = MAX_LAYERS_A_LAUNCH
) -> int:
    """The number of layers of the next group by the rate at which images die, or as given by `lengths`."""
    if lengths is not None:
        return lengths[min(len(groups), len(lengths) - 1)]
    if not groups:
        return FIRST_LAYERS
    last = groups[-1]
    rate = (1 - live / last.images) / last.layers
    # A group of g layers wastes about rate · g² / 2 layers on the dead, and saves 1 / g ends of a group.
    best = most if rate == 0 else round((2 * DROP_COST / rate) ** 0.5)
    return max(1, min(best, 2 * last.layers, most))
