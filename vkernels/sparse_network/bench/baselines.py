"""Baselines: the same inference with torch's and SciPy's sparse matrices."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ..from_matrices import as_csr
from ..network_layers import Floats, Indices, NetworkLayers

Survivors: TypeAlias = NDArray[np.int64]
Run: TypeAlias = Callable[[], Survivors]
Step: TypeAlias = Callable[[torch.Tensor], torch.Tensor]
Parts: TypeAlias = tuple[Floats, Indices, Indices]


BATCH = 1024
BATCH_LAYERS = 4


def prepare_baselines(network: NetworkLayers, features: Floats, threads: int) -> dict[str, Run]:
    """Prepare each baseline; `features`: inputs × images. A run returns the survivors' ids.

    `torch_csr` runs all images at once and drops dead ones after every layer; `torch_csr_batched` runs 1024 images at a
    time and drops after every fourth layer; `scipy_csr` runs 1024 at a time on one thread and drops after every layer.
    No bias may be positive.
    """
    parts = [_csr_parts(network, layer) for layer in range(network.layers)]
    shapes = list(zip(network.sizes[1:], network.sizes[:-1], strict=True))
    biases = [_bias_of(network, layer) for layer in range(network.layers)]
    in_torch = [_torch_matrix(part, shape) for part, shape in zip(parts, shapes, strict=True)]
    in_scipy = [csr_array(part, shape=shape) for part, shape in zip(parts, shapes, strict=True)]
    for_torch = [bias if isinstance(bias, float) else torch.from_numpy(bias) for bias in biases]
    steps = [partial(_torch_step, *both, network.cap) for both in zip(in_torch, for_torch, strict=True)]
    return {
        "torch_csr": partial(_torch_csr, steps, features, threads),
        "torch_csr_batched": partial(_torch_batched, steps, features, threads, BATCH, BATCH_LAYERS),
        "scipy_csr": partial(_scipy_csr, in_scipy, biases, network.cap, features),
    }


def prepare_dense(network: NetworkLayers, features: Floats, threads: int, batch: int, drop_every: int) -> Run:
    """Prepare a baseline with dense matrices in torch, one `addmm` per layer.

    It is compared with networks merged by `merge_equal`. `batch`: images at a time; dead ones are dropped after every
    `drop_every` layers.
    """
    steps = []
    for layer in range(network.layers):
        weight, column, ends = _csr_parts(network, layer)
        dense = np.zeros((network.sizes[layer + 1], network.sizes[layer]), np.float32)
        np.add.at(dense, (np.repeat(np.arange(len(ends) - 1), np.diff(ends)), column), weight)
        bias = torch.from_numpy(np.array(network.read(layer, layer + 1).bias[0]))[:, None]
        steps.append(partial(_dense_step, torch.from_numpy(dense), bias, network.cap))
    return partial(_torch_batched, steps, features, threads, batch, drop_every)


def _dense_step(weight: torch.Tensor, bias: torch.Tensor, cap: float, values: torch.Tensor) -> torch.Tensor:
    return torch.addmm(bias, weight, values).clamp_(0, cap)


def _csr_parts(network: NetworkLayers, layer: int) -> Parts:
    start, column, weight = as_csr(network.read(layer, layer + 1))
    return weight, column.astype(np.int32), start.astype(np.int32)


def _bias_of(network: NetworkLayers, layer: int) -> Any:
    bias = network.read(layer, layer + 1).bias[0]
    return float(bias[0]) if bias.size and (bias == bias[0]).all() else np.array(bias)[:, None]


def _torch_step(matrix: torch.Tensor, bias: Any, cap: float, values: torch.Tensor) -> torch.Tensor:
    return (matrix @ values).add_(bias).clamp_(0, cap)


def _torch_matrix(parts: Parts, shape: tuple[int, int]) -> torch.Tensor:
    weight, column, ends = map(torch.from_numpy, parts)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        warnings.filterwarnings("ignore", message="Sparse invariant checks")
        return torch.sparse_csr_tensor(ends, column, weight, size=shape)


@contextmanager
def _torch_threads(threads: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _torch_csr(steps: Sequence[Step], features: Floats, threads: int) -> Survivors:
    with _torch_threads(threads):
        values, ids = torch.from_numpy(features), torch.arange(features.shape[1])
        for step in steps:
            values, ids = _torch_drop(step(values), ids)
        return _numbers(ids)


def _torch_batched(steps: Sequence[Step], features: Floats, threads: int, batch: int, drop_every: int) -> Survivors:
    with _torch_threads(threads):
        survivors = [torch.zeros(0, dtype=torch.int64)]
        for start in range(0, features.shape[1], batch):
            values = torch.from_numpy(features[:, start : start + batch])
            ids = torch.arange(start, start + values.shape[1])
            for count, step in enumerate(steps, 1):
                values = step(values)
                if count % drop_every == 0 or count == len(steps):
                    values, ids = _torch_drop(values, ids)
                    if not len(ids):
                        break
            survivors.append(ids)
        return _numbers(torch.cat(survivors))


def _torch_drop(values: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    alive = values.amax(dim=0) > 0
    if alive.all():
        return values, ids
    kept = alive.nonzero()[:, 0]
    return values.index_select(1, kept), ids[kept]


def _numbers(ids: torch.Tensor) -> Survivors:
    numbers: Survivors = ids.numpy()
    return numbers


def _scipy_csr(matrices: list[csr_array[Any]], biases: list[Any], cap: float, features: Floats) -> Survivors:
    survivors = [np.zeros(0, np.int64)]
    for start in range(0, features.shape[1], BATCH):
        values: NDArray[Any] = features[:, start : start + BATCH]
        ids = np.arange(start, start + values.shape[1])
        for matrix, bias in zip(matrices, biases, strict=True):
            values = matrix @ values
            values += np.float32(bias) if isinstance(bias, float) else bias
            np.clip(values, 0, cap, out=values)
            alive = values.any(axis=0)
            if not alive.all():
                values, ids = values[:, alive], ids[alive]
        survivors.append(ids)
    return np.concatenate(survivors)
