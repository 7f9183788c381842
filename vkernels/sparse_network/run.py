"""`SparseNetwork.infer`: choose a class of execution, divide images among devices, and record the work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vkernels.ir.errors import ArgumentError
from vkernels.ir.system_resources import ThreadPool
from vkernels.runtime import get_deterministic
from vkernels.runtime.threads import using_threads

from .devices import InferenceWorker, cut, parse_devices
from .infer import InferenceResult, LayerGroup, infer
from .network_layers import Floats, NetworkLayers
from .prepare import PreparedNetwork, prepare
from .run_layers import FLOAT32, check_storage, holds

PROBE = 8
"""One in this many images, spread evenly, is used to measure the speed of each worker."""


@dataclass(frozen=True)
class Share:
    """The work of one device: its images, seconds in kernels and seconds of transfers."""

    device: str
    images: int
    kernels: float
    transfer: float = 0.0


@dataclass(frozen=True)
class Record:
    """A record of one inference. Times are seconds, of the slowest device.

    `kind`: "general", "structured" or "saturating"; `findings`: structure found in the weights, in words.
    `preprocessing`: analysing and arranging weights; 0 if an earlier call did it. `transfer`: converting images and
    copying them to devices, and copying weights to a GPU the first time. `kernels`: launches and dropping images;
    includes compiling new kernels. `executed_edges`: multiply-adds that ran. `live[l]`: images that layer l ran on;
    `groups`: the launches. `storage`: the dtype of stored features; `same_as_float32`: whether the same images
    survived in float32, None if not checked.
    """

    kind: str
    findings: tuple[str, ...]
    preprocessing: float
    transfer: float
    kernels: float
    executed_edges: int
    live: tuple[int, ...]
    groups: tuple[LayerGroup, ...]
    shares: tuple[Share, ...]
    storage: str = FLOAT32
    same_as_float32: bool | None = None


@dataclass(frozen=True)
class Inference:
    """`survivors`: ascending ids, from 0, of the images with a nonzero feature after the last layer; `features`: their
    features, outputs × survivors; `record`: a record of the work."""

    survivors: NDArray[np.int64]
    features: Floats
    record: Record


def run(
    network: NetworkLayers, images: Any, devices: Sequence[str], kind: str, storage: str = FLOAT32, check: bool = False
) -> Inference:
    """See `SparseNetwork.infer`."""
    found = _run(network, images, devices, kind, storage)
    if not check:
        return found
    same = storage == FLOAT32 or np.array_equal(found.survivors, _run(network, images, devices, kind).survivors)
    return replace(found, record=replace(found.record, same_as_float32=same))


def _run(network: NetworkLayers, images: Any, devices: Sequence[str], kind: str, storage: str = FLOAT32) -> Inference:
    workers = parse_devices(devices)
    check_storage(storage, network.cap)
    start = perf_counter()
    features = _as_features(images, network.inputs)
    transfer = perf_counter() - start
    prepared, preprocessing = prepare(network, kind)
    if prepared.fixed is not None and not holds(storage, network.cap):  # the proof is for the exact cap
        prepared, preprocessing = prepare(network, "general")
    results, shares = _run_on(prepared, features, workers, storage)
    ids = np.concatenate([chosen[result.survivors] for chosen, result in results])
    order = np.argsort(ids)
    found = [result.features for _, result in results]
    merged = found[0] if len(found) == 1 else np.concatenate(found, axis=1)[:, order]
    if prepared.copies is not None:
        merged = merged[prepared.copies]
    groups = tuple(group for _, result in results for group in result.groups)
    transfer += max(share.transfer for share in shares)
    record = Record(
        prepared.kind, prepared.findings, preprocessing, transfer, max(share.kernels for share in shares),
        sum(result.executed_edges for _, result in results), _live(groups, network.layers), groups, shares, storage,
    )  # fmt: skip
    return Inference(ids[order], merged, record)


Part = tuple[NDArray[np.int64], InferenceResult]


def _run_on(
    prepared: PreparedNetwork, features: Floats, workers: Sequence[InferenceWorker], storage: str
) -> tuple[list[Part], tuple[Share, ...]]:
    everyone = np.arange(features.shape[1])
    if len(workers) == 1:
        (worker,) = workers
        result = _infer(prepared, features, worker, storage, worker.threads)
        return [(everyone, result)], (Share(worker.device, everyone.size, result.seconds, result.transfer),)
    parts: list[list[Part]] = [[] for _ in workers]

    def work(number: int, chosen: NDArray[np.int64], counts: bool = True) -> float:
        start = perf_counter()
        if chosen.size:
            result = _infer(prepared, np.ascontiguousarray(features[:, chosen]), workers[number], storage)
            parts[number] += [(chosen, result)] if counts else []
        return perf_counter() - start

    with using_threads(1), ThreadPool(len(workers)) as pool:
        probe, rest = everyone[::PROBE], np.delete(everyone, np.s_[::PROBE])
        first = cut(probe, [1.0] * len(workers))
        if any(worker.gpu is not None for worker in workers):  # compile kernels first
            list(pool.map(lambda number: work(number, first[number], counts=False), range(len(workers))))
        seconds = list(pool.map(work, range(len(workers)), first))
        speeds = [part.size / max(second, 1e-9) for part, second in zip(first, seconds, strict=True)]
        speeds = [1.0] * len(workers) if get_deterministic() else speeds  # plans follow from numbers of images
        list(pool.map(work, range(len(workers)), cut(rest, speeds)))
    every = [part for worker in parts for part in worker]
    shares = _shares(workers, parts)
    return every or [(everyone, _infer(prepared, features, workers[0], storage))], shares


def _infer(
    prepared: PreparedNetwork, features: Floats, worker: InferenceWorker, storage: str, threads: int | None = None
) -> InferenceResult:
    if worker.gpu is None:
        return infer(prepared.network, features, threads=threads, fixed=prepared.fixed, storage=storage)
    from .gpu_inference import infer_on  # imports torch

    return infer_on(worker.gpu, prepared.network, features, prepared.fixed, storage)


def _shares(workers: Sequence[InferenceWorker], parts: Sequence[Sequence[Part]]) -> tuple[Share, ...]:
    shares = []
    for device, number in dict.fromkeys((worker.device, worker.number) for worker in workers):
        own = [done for worker, done in zip(workers, parts, strict=True) if worker.number == number]
        images = sum(chosen.size for done in own for chosen, _ in done)
        kernels = max(sum(result.seconds for _, result in done) for done in own)
        transfer = max(sum(result.transfer for _, result in done) for done in own)
        shares.append(Share(device, images, kernels, transfer))
    return tuple(shares)


def _as_features(images: Any, inputs: int) -> Floats:
    array = images.detach().cpu().numpy() if hasattr(images, "detach") else np.asarray(images)
    if array.ndim != 2 or array.shape[0] != inputs or array.dtype.kind not in "fiub":
        raise ArgumentError(
            f"images: {array.dtype} of shape {array.shape}, expected numbers, {inputs} (inputs) × images"
        )
    return array.astype(np.float32, copy=False)


def _live(groups: Sequence[LayerGroup], layers: int) -> tuple[int, ...]:
    live = np.zeros(layers, np.int64)
    for group in groups:
        live[group.first : group.first + group.layers] += group.images
    return tuple(live.tolist())
