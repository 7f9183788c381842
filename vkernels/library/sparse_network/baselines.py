"""The same inference on torch's and SciPy's own sparse matrices: what ours is measured against."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .network import CEILING, Floats, Indices, Network

if TYPE_CHECKING:
    import torch
    from scipy.sparse import csr_array

Survivors: TypeAlias = NDArray[np.int64]
Run: TypeAlias = Callable[[], Survivors]
Parts: TypeAlias = tuple[Floats, Indices, Indices]

BATCH = 1024
BATCH_LAYERS = 4


def prepare_baselines(network: Network, features: Floats, threads: int) -> dict[str, Run]:
    """Each baseline ready to run, its matrices built; `features`: neurons × images. A run gives the survivors' ids.

    `torch_csr` takes all images at once and drops dead ones after every layer; `torch_csr_batched` takes
    1024 images at a time and drops them after every fourth. `scipy_csr` takes 1024 at a time too, drops after
    every layer, and knows no threads.
    """
    parts = [_csr_parts(network, layer) for layer in range(network.layers)]
    in_torch = [_torch_matrix(part, network.neurons) for part in parts]
    in_scipy = [_scipy_matrix(part, network.neurons) for part in parts]
    return {
        "torch_csr": partial(_torch_csr, in_torch, network.bias, features, threads),
        "torch_csr_batched": partial(_torch_csr_batched, in_torch, network.bias, features, threads),
        "scipy_csr": partial(_scipy_csr, in_scipy, network.bias, features),
    }


def _csr_parts(network: Network, layer: int) -> Parts:
    """A layer's weights, their inputs, and where each output's begin: padding left out."""
    layers = network.read(layer, layer + 1)
    weight, column = layers.weight[0], layers.column[0]
    real = weight != 0
    ends = np.concatenate([[0], real.sum(axis=1).cumsum()]).astype(np.int32)
    return weight[real], column[real], ends


def _torch_matrix(parts: Parts, neurons: int) -> torch.Tensor:
    import torch

    weight, column, ends = map(torch.from_numpy, parts)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        warnings.filterwarnings("ignore", message="Sparse invariant checks")
        return torch.sparse_csr_tensor(ends, column, weight, size=(neurons, neurons))


@contextmanager
def _torch_threads(threads: int) -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _torch_csr(matrices: list[torch.Tensor], bias: float, features: Floats, threads: int) -> Survivors:
    import torch

    with _torch_threads(threads):
        values, ids = torch.from_numpy(features), torch.arange(features.shape[1])
        for matrix in matrices:
            values, ids = _torch_drop((matrix @ values).add_(bias).clamp_(0, CEILING), ids)
        return _numbers(ids)


def _torch_csr_batched(matrices: list[torch.Tensor], bias: float, features: Floats, threads: int) -> Survivors:
    import torch

    with _torch_threads(threads):
        survivors = [torch.zeros(0, dtype=torch.int64)]
        for start in range(0, features.shape[1], BATCH):
            values = torch.from_numpy(features[:, start : start + BATCH])
            ids = torch.arange(start, start + values.shape[1])
            for count, matrix in enumerate(matrices, 1):
                values = (matrix @ values).add_(bias).clamp_(0, CEILING)
                if count % BATCH_LAYERS == 0 or count == len(matrices):
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


def _scipy_matrix(parts: Parts, neurons: int) -> csr_array[Any]:
    from scipy.sparse import csr_array

    return csr_array(parts, shape=(neurons, neurons))


def _scipy_csr(matrices: list[csr_array[Any]], bias: float, features: Floats) -> Survivors:
    survivors = [np.zeros(0, np.int64)]
    for start in range(0, features.shape[1], BATCH):
        values: NDArray[Any] = features[:, start : start + BATCH]
        ids = np.arange(start, start + values.shape[1])
        for matrix in matrices:
            values = matrix @ values
            values += np.float32(bias)
            np.clip(values, 0, CEILING, out=values)
            alive = values.any(axis=0)
            if not alive.all():
                values, ids = values[:, alive], ids[alive]
        survivors.append(ids)
    return np.concatenate(survivors)
