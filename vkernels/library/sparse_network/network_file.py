"""Networks in .npz files: all layers' connections one after another, in CSR form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vkernels.ir.errors import ArgumentError, FileError

from .archives import read_arrays
from .building import as_csr, build
from .network import SparseNetwork


def save(network: SparseNetwork, path: Path) -> None:
    """As `SparseNetwork.save` says. `start` holds outputs + 1 numbers for each layer, counted within it."""
    starts: list[NDArray[Any]] = []
    columns: list[NDArray[Any]] = []
    weights: list[NDArray[Any]] = []
    biases: list[NDArray[Any]] = []
    for first, last in network.each_run(1 << 28):
        layers = network.read(first, last)
        for index in range(last - first):
            start, column, weight = as_csr(layers, index)
            starts.append(start)
            columns.append(column.astype(np.int32))
            weights.append(weight)
            biases.append(layers.bias[index])
    arrays = {"start": starts, "column": columns, "weight": weights, "bias": biases}
    whole = {name: np.concatenate(parts) for name, parts in arrays.items()}
    whole |= {"sizes": np.array(network.sizes), "cap": np.array([network.cap])}
    try:
        with path.open("wb") as file:
            np.savez_compressed(file, **whole)  # type: ignore[arg-type]  # its stubs take all keywords for flags
    except OSError as error:
        raise FileError(f"{path}: {error.strerror or error}") from error


def load(path: Path) -> SparseNetwork:
    """As `SparseNetwork.load` says."""
    found = read_arrays(
        path, sizes=(np.int64, 1), cap=(np.float64, 1), start=(np.int64, 1), column=(np.int32, 1),
        weight=(np.float32, 1), bias=(np.float32, 1),
    )  # fmt: skip
    sizes, start, column, weight, bias = (found[name] for name in ("sizes", "start", "column", "weight", "bias"))
    outputs = sizes[1:]
    if sizes.size < 2 or (sizes < 0).any() or found["cap"].size != 1:
        raise FileError(f"{path}: `sizes` and `cap` describe no network")
    if outputs.sum() != bias.size or outputs.sum() + outputs.size != start.size or column.size != weight.size:
        raise FileError(f"{path}: the arrays' lengths do not go with `sizes`")
    layers, biases, at, taken = [], [], 0, 0
    for number, count in enumerate(outputs.tolist()):
        begin = start[at + number : at + number + count + 1]
        last = taken + max(0, int(begin[-1]))
        layers.append((begin, column[taken:last], weight[taken:last]))
        biases.append(bias[at : at + count])
        at, taken = at + count, last
    if taken != column.size:
        raise FileError(f"{path}: the layers have {taken} connections, the file {column.size}")
    try:
        return build(layers, biases, float(found["cap"][0]), int(sizes[0]))
    except ArgumentError as error:
        raise FileError(f"{path}: {error}") from error
