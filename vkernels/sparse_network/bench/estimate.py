"""Estimate a network's time and memory from a few images and its first layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from ..images import ImageSource
from ..infer import GROUP_BYTES
from ..merge import merge_equal
from ..network import SparseNetwork
from ..prepare import bytes_of, prepare
from .measure import TimedReads
from .reference import DEFAULT_MEMORY, ReferenceNetwork, ReferenceResult

FEW, SOME = 64, 256
"""Images of the two trials, which separate the cost of an image from that of a launch."""

DEPTH = 24
"""Layers of a trial: most images that die are dead by then."""

FEATURES = 5
"""Arrays of all images' float32 features that exist at once, at most: inputs, batches before and after some layers,
joined live images, survivors."""


@dataclass(frozen=True)
class NetworkCost:
    """Seconds: `once`, then for each pass over all images."""

    once: float
    a_pass: float


@dataclass(frozen=True)
class RuntimeEstimate:
    """Estimated seconds: `checking` (making images, the float64 reference), and each class."""

    checking: float
    kinds: dict[str, NetworkCost]


def bytes_of_weights(network: SparseNetwork) -> int:
    """Bytes of weights in memory during inference: all of them, or the groups that are read at once."""
    whole = bytes_of(network)
    return whole if whole <= network.most_held else min(whole, 3 * GROUP_BYTES)


def bytes_to_check(memory: int) -> int:
    """The float64 reference's share of memory."""
    return min(DEFAULT_MEMORY, memory // 4)


def images_within(network: SparseNetwork, memory: int) -> int:
    """The most images at a time whose features fit with the weights into `memory` bytes; 0 if none fit."""
    left = memory - bytes_of_weights(network) - bytes_to_check(memory)
    return max(0, left // (4 * FEATURES * max(network.sizes)))


def estimate_runtime(
    network: SparseNetwork, source: ImageSource, kinds: Sequence[str], devices: Sequence[str], threads: int, pieces: int
) -> RuntimeEstimate:
    """Run the first layers on a few images, and extrapolate."""
    depth = min(DEPTH, network.layers)
    reads = TimedReads(network.first_layers(depth))
    some = source.spread(SOME)
    ReferenceNetwork(network.first_layers(1)).run(some.part(0, 1), threads)  # imports are not timed
    start = perf_counter()
    features = some.part(0, some.images)
    making = (perf_counter() - start) / max(1, some.images) * source.images
    reference = ReferenceNetwork(reads.network)
    start = perf_counter()
    truth = reference.run(features, threads)
    analysing = perf_counter() - start
    scale = _Scale(depth, network.layers, some.images, source.images, pieces, truth)
    check = _pass(lambda images: reference.run(features[:, :images], threads), some.images)
    repeated = bytes_of(network) > network.most_held
    found = {kind: _cost(reads, kind, features, devices, scale, repeated) for kind in kinds}
    reading = analysing * network.layers / depth * (pieces if repeated else 1)
    return RuntimeEstimate(making + reading + scale.of(*check), found)


@dataclass(frozen=True)
class _Scale:
    """Extrapolation from a trial: layers and images of both, pieces of the images, and the trial's live images."""

    depth: int
    layers: int
    tried: int
    images: int
    pieces: int
    truth: ReferenceResult

    def of(self, fixed: float, an_image: float) -> float:
        """Seconds of the whole, from a trial's fixed seconds and seconds per image."""
        live = self.truth.live.astype(np.float64)
        edges = 1 + (self.layers - self.depth) * float(live[-1]) / max(1.0, float(live.sum()))
        return fixed * self.pieces * self.layers / self.depth + an_image * self.images * edges


def _cost(
    reads: TimedReads, kind: str, features: Any, devices: Sequence[str], scale: _Scale, repeated: bool
) -> NetworkCost:
    """The cost of one class; `repeated`: weights are read again for each piece in each pass."""
    deeper = scale.layers / scale.depth
    _, analysing, reading = reads.during(lambda: prepare(reads.network, kind))

    def run(images: int) -> None:
        reads.network.infer(features[:, :images], devices=devices, kind=kind)

    start = perf_counter()
    run(scale.tried)
    first = perf_counter() - start
    fixed, an_image = _pass(run, scale.tried)
    compiling = max(0.0, first - fixed - an_image * scale.tried)
    again = repeated and kind != "structured"  # merged weights are held
    a_pass = scale.of(fixed, an_image) + (reading * deeper * scale.pieces if again else 0)
    return NetworkCost(analysing * deeper + reading * deeper + compiling, a_pass)


def _pass(run: Callable[[int], object], images: int) -> tuple[float, float]:
    """Fixed seconds of a run, and seconds per image."""
    few = min(FEW, images)
    run(few)
    times = []
    for count in (few, images):
        start = perf_counter()
        run(count)
        times.append(perf_counter() - start)
    if images == few:
        return 0.0, times[1] / max(1, images)
    an_image = max(0.0, (times[1] - times[0]) / (images - few))
    return max(0.0, times[0] - an_image * few), an_image


def bytes_of_merged(network: SparseNetwork) -> int:
    """Estimated bytes of merged weights, if all layers are like the first."""
    depth = min(DEPTH, network.layers)
    few = merge_equal(network.first_layers(depth))
    return bytes_of(few.network) * network.layers // depth
