"""Make networks from SciPy's and torch's sparse matrices, dense matrices, and CSR and ELL arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vkernels.ir.errors import ArgumentError

from .network_layers import Floats, Indices, Layers, NetworkLayers, joined, reading

Csr: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64], Floats]
"""Starts of each output's connections, their inputs, their weights."""

ALIKE = 1.5
"""Consecutive layers are stored and run together if their widest rows differ by at most this factor."""

LAUNCH = 4096
"""Connections of a layer that take about as long as a launch at a few thousand images: padding up to this size pays."""

EARLY = 6
"""Layers before this one run on many images, most of which die later, so padding does not pay there."""


def build(layers: Sequence[Any], bias: float | Sequence[Any], cap: float, inputs: int | None) -> NetworkLayers:
    """See `SparseNetwork.of`."""
    if not cap > 0:
        raise ArgumentError(f"cap is {cap}, expected a positive number")
    single: list[Layers] = []
    biases = _biases(bias, len(layers))
    for number, layer in enumerate(layers):
        where = f"layer {number}"
        csr, inputs = _as_csr(layer, inputs, where)
        single.append(from_csr(csr, _bias(biases[number], len(csr[0]) - 1, where), inputs, where))
        inputs = single[-1].outputs
    if not single:
        raise ArgumentError("layers is empty, expected at least one layer")
    return of_layers(single, cap)


def of_layers(single: Sequence[Layers], cap: float) -> NetworkLayers:
    """A network of single layers in order; similar neighbours are joined."""
    groups: list[list[Layers]] = []
    for number, layer in enumerate(single):
        if groups and _go_together(groups[-1], layer, number):
            groups[-1].append(layer)
        else:
            groups.append([layer])
    ends = np.cumsum([len(group) for group in groups]).tolist()
    positive = [number for number, layer in enumerate(single) if (layer.bias > 0).any()]
    sizes = (single[0].inputs, *(layer.outputs for layer in single))
    read = reading([joined(group) for group in groups])
    return NetworkLayers(sizes, read, cap, tuple(ends), positive[-1] + 1 if positive else 0, held=True)


def from_csr(csr: Csr, bias: Floats, inputs: int, where: str) -> Layers:
    """One checked layer. Raises `ArgumentError`; `where` begins the message."""
    start, column, weight = csr
    counts = np.diff(start)
    if start.ndim != 1 or start.size == 0 or start[0] != 0 or (counts < 0).any() or start[-1] != column.size:
        raise ArgumentError(f"{where}: start does not say where rows of {column.size} elements begin")
    if column.shape != weight.shape:
        raise ArgumentError(f"{where}: column has shape {column.shape} and weight {weight.shape}, expected the same")
    if (wrong := np.flatnonzero((column < 0) | (column >= inputs))).size:
        raise ArgumentError(f"{where}: index {column[wrong[0]]} is out of range, expected 0 to {inputs - 1}")
    if (wrong := np.flatnonzero(~np.isfinite(weight))).size:
        output = np.searchsorted(start, wrong[0], side="right") - 1
        raise ArgumentError(
            f"{where}: the weight from input {column[wrong[0]]} to output {output} is {weight[wrong[0]]}, "
            "expected finite numbers of float32"
        )
    columns, weights = to_ell(csr)
    return Layers(columns[None], weights[None], bias[None], np.array([np.count_nonzero(weight)]), inputs)


def to_ell(csr: Csr) -> tuple[Indices, Floats]:
    """Rows as outputs × most inputs of one output, padded with weights of 0."""
    start, column, weight = csr
    counts = np.diff(start)
    output = np.repeat(np.arange(counts.size), counts)
    slot = np.arange(column.size) - np.repeat(start[:-1], counts)
    shape = (counts.size, max(1, int(counts.max(initial=0))))
    columns, weights = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
    columns[output, slot], weights[output, slot] = column, weight
    return columns, weights


def as_csr(layer: Layers) -> Csr:
    """The first layer's weights in CSR form, without zeros."""
    weight, column = layer.weight[0], layer.column[0]
    real = weight != 0
    start = np.concatenate([[0], real.sum(axis=1).cumsum()]).astype(np.int64)
    return start, column[real].astype(np.int64), weight[real]


def _go_together(group: list[Layers], layer: Layers, number: int) -> bool:
    inner = group[-1].inputs == group[-1].outputs == layer.inputs == layer.outputs
    inner &= group[-1].weight.shape[2:-1] == layer.weight.shape[2:-1]  # of one form, as blocks or not
    widths = [each.column.shape[2] for each in (*group, layer)]
    small = number - len(group) >= EARLY and max(widths) * layer.outputs <= LAUNCH
    return inner and (small or max(widths) <= ALIKE * min(widths))


def _as_csr(layer: Any, inputs: int | None, where: str) -> tuple[Csr, int]:
    if isinstance(layer, tuple):
        if len(layer) not in (2, 3) or inputs is None:
            raise ArgumentError(f"{where}: expected (start, column, weight) or (column, weight), with `inputs` said")
        arrays = [np.asarray(part) for part in layer]
        if any(array.dtype.kind not in "iu" for array in arrays[:-1]):
            raise ArgumentError(f"{where}: indices are of {arrays[-2].dtype}, expected integers")
        if len(arrays) == 3:
            return (arrays[0].astype(np.int64), arrays[1].astype(np.int64), _floats(arrays[2], where)), inputs
        return _from_ell(arrays[0], _floats(arrays[1], where), where), inputs
    rows = as_rows(layer, where)
    if inputs is not None and rows.shape[1] != inputs:
        raise ArgumentError(f"{where}: the matrix has {rows.shape[1]} columns, expected {inputs}: one an input")
    start, column = rows.indptr.astype(np.int64), rows.indices.astype(np.int64)
    return (start, column, _floats(rows.data, where)), rows.shape[1]


def _from_ell(column: NDArray[Any], weight: Floats, where: str) -> Csr:
    if column.ndim != 2 or column.shape != weight.shape:
        raise ArgumentError(
            f"{where}: column has shape {column.shape} and weight {weight.shape}, expected the same two dimensions"
        )
    real = weight != 0  # NaN is not 0
    start = np.concatenate([[0], real.sum(axis=1).cumsum()]).astype(np.int64)
    return start, column[real].astype(np.int64), weight[real]


def as_rows(layer: Any, where: str) -> Any:
    """A matrix of any kind as a SciPy CSR matrix without duplicate elements."""
    from scipy.sparse import csr_array, issparse

    if not issparse(layer) and hasattr(layer, "is_sparse"):
        import torch

        layer = layer.detach().cpu()
        if layer.layout is not torch.strided:
            coo = layer.to_sparse_coo().coalesce()
            entries = (coo.values().to(torch.float64).numpy(), tuple(coo.indices().numpy()))
            layer = csr_array(entries, shape=tuple(coo.shape)) if coo.ndim == 2 else np.empty((0,) * coo.ndim)
        else:
            layer = layer.to(torch.float64).numpy()
    if not issparse(layer):
        layer = np.asarray(layer)
        if layer.ndim != 2 or layer.dtype.kind not in "fiub":
            raise ArgumentError(f"{where}: {layer.dtype} of {layer.ndim} dimensions, expected a matrix of numbers")
    rows = csr_array(layer, copy=True)
    rows.sum_duplicates()
    return rows


def _floats(array: Any, where: str) -> Floats:
    array = np.asarray(array)
    if array.dtype.kind not in "fiub":
        raise ArgumentError(f"{where}: weights are of {array.dtype}, expected numbers")
    with np.errstate(over="ignore"):
        floats: Floats = array.astype(np.float32)
    return floats


def _biases(bias: float | Sequence[Any], layers: int) -> Sequence[Any]:
    if isinstance(bias, int | float):
        return [bias] * layers
    if len(bias) != layers:
        raise ArgumentError(f"bias has {len(bias)} entries, expected one for each of {layers} layers")
    return bias


def _bias(bias: Any, outputs: int, where: str) -> Floats:
    values = _floats(bias.detach().cpu() if hasattr(bias, "detach") else bias, where)
    if values.ndim > 1 or (values.ndim == 1 and values.size != outputs):
        raise ArgumentError(f"{where}: bias has shape {values.shape}, expected a number or one for each of {outputs}")
    if not np.isfinite(values).all():
        wrong = values[~np.isfinite(values)].flat[0]
        raise ArgumentError(f"{where}: the bias {wrong if not math.isnan(wrong) else 'nan'} is not finite")
    return np.broadcast_to(values, (outputs,))
