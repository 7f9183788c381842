"""How long a network will take, and how much memory, found out on a few images and its first layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from ..images import ImageSource
from ..merge import merge_equal
from ..network import SparseNetwork
from ..prepare import bytes_of, prepare
from .measure import TimedReads
from .reference import DEFAULT_MEMORY, ReferenceNetwork, ReferenceResult

FEW, SOME = 64, 256
"""Images of the two trials, from which what an image costs is told apart from what a launch costs."""

DEPTH = 24
"""Layers of a trial: by then most images that will die have died."""

FEATURES = 5
"""Arrays of all images' features in float32, beside one another at most: the inputs, batches before and after some
layers, what is alive put together, what survives."""


@dataclass(frozen=True)
class NetworkCost:
    """Seconds: `once`, then for each pass over all images."""

    once: float
    a_pass: float


@dataclass(frozen=True)
class RuntimeEstimate:
    """Seconds that a network will take: `checking` (making images, the float64 reference), and each class."""

    checking: float
    kinds: dict[str, NetworkCost]


def bytes_of_weights(network: SparseNetwork) -> int:
    """What the weights take for inference: all of them, or the groups that are read at once."""
    from ..infer import GROUP_BYTES

    whole = bytes_of(network)
    return whole if whole <= network.most_held else min(whole, 3 * GROUP_BYTES)


def bytes_to_check(memory: int) -> int:
    """What the float64 reference may take of all memory."""
    return min(DEFAULT_MEMORY, memory // 4)


def images_within(network: SparseNetwork, memory: int) -> int:
    """The most images at a time whose features fit beside the weights in so many bytes; 0 where none do."""
    left = memory - bytes_of_weights(network) - bytes_to_check(memory)
    return max(0, left // (4 * FEATURES * max(network.sizes)))


def estimate_runtime(
    network: SparseNetwork, source: ImageSource, kinds: Sequence[str], devices: Sequence[str], threads: int, pieces: int
) -> RuntimeEstimate:
    """Try the first layers on a few images, and draw the conclusion for all."""
    depth = min(DEPTH, network.layers)
    reads = TimedReads(network.first_layers(depth))
    some = source.spread(SOME)
    ReferenceNetwork(network.first_layers(1)).run(
        some.part(0, 1), threads
    )  # what is imported for that takes no part in it
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
    """From a trial to the whole: layers and images of both, parts that the images come in, who was alive."""

    depth: int
    layers: int
    tried: int
    images: int
    pieces: int
    truth: ReferenceResult

    def of(self, fixed: float, an_image: float) -> float:
        """Seconds of all, from what a trial took for itself and for each image."""
        live = self.truth.live.astype(np.float64)
        edges = 1 + (self.layers - self.depth) * float(live[-1]) / max(1.0, float(live.sum()))
        return fixed * self.pieces * self.layers / self.depth + an_image * self.images * edges


def _cost(
    reads: TimedReads, kind: str, features: Any, devices: Sequence[str], scale: _Scale, repeated: bool
) -> NetworkCost:
    """One class; `repeated`: weights are read again for each piece in each pass."""
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
    """Seconds that a run takes whatever comes, and for each image."""
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
    """What merging will leave of the weights, if all layers are like the first."""
    depth = min(DEPTH, network.layers)
    few = merge_equal(network.first_layers(depth))
    return bytes_of(few.network) * network.layers // depth
