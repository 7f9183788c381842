"""Save and load networks as .npz files: connections of all layers in CSR form, a part at a time."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray

from vkernels.ir.errors import ArgumentError, FileError
from vkernels.ir.write_file import replacing

from .from_matrices import Csr, as_csr, build, from_csr
from .network_layers import Layers, NetworkLayers, joined
from .npz_files import ArrayStream, read_arrays

RUN_BYTES = 1 << 28
"""Bytes of layers that are read at once to be written."""

ARRAYS: dict[str, DTypeLike] = {"start": np.int64, "column": np.int32, "weight": np.float32, "bias": np.float32}


def save(network: NetworkLayers, path: Path) -> None:
    """See `SparseNetwork.save`. `start` holds outputs + 1 numbers for each layer, counted within the layer."""
    outputs = sum(network.sizes[1:])
    connections = 0

    def rows() -> Iterator[Csr]:
        return (as_csr(layer) for layer in network.each_layer(RUN_BYTES))

    def starts() -> Iterator[NDArray[Any]]:
        nonlocal connections
        for start, column, _ in rows():
            connections += column.size
            yield start

    with replacing(path) as unfinished, zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
        _write(archive, "sizes", np.int64, len(network.sizes), iter([np.array(network.sizes)]))
        _write(archive, "cap", np.float64, 1, iter([np.array([network.cap])]))
        _write(archive, "start", np.int64, outputs + network.layers, starts())
        _write(archive, "column", np.int32, connections, (csr[1] for csr in rows()))
        _write(archive, "weight", np.float32, connections, (csr[2] for csr in rows()))
        _write(archive, "bias", np.float32, outputs, (layer.bias[0] for layer in network.each_layer(RUN_BYTES)))


def _write(archive: zipfile.ZipFile, name: str, dtype: DTypeLike, size: int, parts: Iterator[NDArray[Any]]) -> None:
    head = {"descr": npy.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": (size,)}
    with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
        npy.write_array_header_1_0(stream, head)
        for part in parts:
            stream.write(np.ascontiguousarray(part, dtype).tobytes())


def load(path: Path) -> NetworkLayers:
    """See `SparseNetwork.load`: all layers in memory."""
    found = read_arrays(path, **{name: (dtype, 1) for name, dtype in ARRAYS.items()})
    sizes, cap = _described(path)
    start, column, weight, bias = (found[name] for name in ARRAYS)
    _check_lengths(path, sizes, start.size, column.size, weight.size, bias.size)
    layers, biases, at, taken = [], [], 0, 0
    for number, count in enumerate(sizes[1:]):
        begin = start[at + number : at + number + count + 1]
        last = taken + max(0, int(begin[-1]))
        layers.append((begin, column[taken:last], weight[taken:last]))
        biases.append(bias[at : at + count])
        at, taken = at + count, last
    if taken != column.size:
        raise FileError(f"{path}: the layers have {taken} connections, the file {column.size}")
    try:
        return build(layers, biases, cap, sizes[0])
    except ArgumentError as error:
        raise FileError(f"{path}: {error}") from error


def stream(path: Path) -> NetworkLayers:
    """See `SparseNetwork.load`: layers are read on demand."""
    sizes, cap = _described(path)
    if not cap > 0:
        raise FileError(f"{path}: cap is {cap}, expected a positive number")
    source = _Source(path, sizes)
    return NetworkLayers(sizes, source.read, cap, settled_from=source.settled_from())


class _Source:
    """A file whose layers are read in order; `_begins[l]`: start of the connections of layer l, as far as known."""

    def __init__(self, path: Path, sizes: tuple[int, ...]):
        self._path, self._sizes, self._lock = path, sizes, Lock()
        self._arrays = {name: ArrayStream(path, name, dtype) for name, dtype in ARRAYS.items()}
        _check_lengths(path, sizes, *(stream.size for stream in self._arrays.values()))
        self._outputs = np.concatenate([[0], np.cumsum(sizes[1:])])
        self._begins = [0]

    def settled_from(self) -> int:
        """The first layer from which on no bias is positive. Raises `FileError` for biases that are not finite."""
        result = 0
        for layer in range(len(self._sizes) - 1):
            bias = self._bias(layer)
            if not np.isfinite(bias).all():
                raise FileError(f"{self._path}: layer {layer}: the bias {bias[~np.isfinite(bias)][0]} is not finite")
            result = layer + 1 if (bias > 0).any() else result
        return result

    def read(self, first: int, last: int) -> Layers:
        with self._lock:
            return joined([self._layer(layer) for layer in range(first, last)])

    def _layer(self, layer: int) -> Layers:
        while len(self._begins) <= layer:
            self._start(len(self._begins) - 1)
        start = self._start(layer)
        begin, count = self._begins[layer], max(0, int(start[-1]))
        column, weight = (self._arrays[name].read(begin, count) for name in ("column", "weight"))
        try:
            csr = (start, column.astype(np.int64), weight)
            return from_csr(csr, self._bias(layer), self._sizes[layer], f"layer {layer}")
        except ArgumentError as error:
            raise FileError(f"{self._path}: {error}") from error

    def _start(self, layer: int) -> NDArray[Any]:
        """Starts of a layer's rows, within the layer; also finds the start of the next layer's connections."""
        first = int(self._outputs[layer]) + layer
        start = self._arrays["start"].read(first, self._sizes[layer + 1] + 1)
        if len(self._begins) == layer + 1:
            end = self._begins[layer] + max(0, int(start[-1]))
            is_last, size = layer == len(self._sizes) - 2, self._arrays["column"].size
            if end > size or (is_last and end != size):
                raise FileError(f"{self._path}: the layers have {end} connections, the file {size}")
            self._begins.append(end)
        return start

    def _bias(self, layer: int) -> NDArray[Any]:
        return self._arrays["bias"].read(int(self._outputs[layer]), self._sizes[layer + 1])


def _described(path: Path) -> tuple[tuple[int, ...], float]:
    found = read_arrays(path, sizes=(np.int64, 1), cap=(np.float64, 1))
    sizes = found["sizes"]
    if sizes.size < 2 or (sizes < 0).any() or found["cap"].size != 1:
        raise FileError(f"{path}: `sizes` and `cap` describe no network")
    return tuple(sizes.tolist()), float(found["cap"][0])


def _check_lengths(path: Path, sizes: tuple[int, ...], start: int, column: int, weight: int, bias: int) -> None:
    outputs = sum(sizes[1:])
    if outputs != bias or outputs + len(sizes) - 1 != start or column != weight:
        raise FileError(f"{path}: the arrays' lengths do not go with `sizes`")
