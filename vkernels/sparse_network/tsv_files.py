"""The challenge's tab-separated text files, which count from 1."""

from __future__ import annotations

import re
from io import BytesIO
from math import isfinite
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vkernels.ir.errors import FileError

from .from_matrices import to_ell
from .generate import BIASES, check_size, even_bias
from .network import SparseNetwork
from .network_layers import Floats, Layers, joined

NUMBER = rb"[ ]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[ ]*"


def layer_file(neurons: int, layer: int) -> str:
    """The name of a layer's file; layers are counted from 0, files from 1."""
    return f"n{neurons}-l{layer + 1}.tsv"


def read_network(folder: Path, neurons: int, layers: int) -> SparseNetwork:
    """The network in a folder of `nN-l1.tsv`, `nN-l2.tsv`, …: lines of input, output and weight.

    Files are read with their layers. Raises `FileError` for missing files and malformed lines.
    """
    check_size(neurons, layers)
    if not folder.is_dir():
        raise FileError(f"{folder}: no such folder")
    for layer in range(layers):
        if not (folder / layer_file(neurons, layer)).is_file():
            raise FileError(_missing(folder, neurons, layers, layer))

    def read(first: int, last: int) -> Layers:
        bias = BIASES[neurons]
        return joined([read_layer(folder / layer_file(neurons, layer), neurons, bias) for layer in range(first, last)])

    return SparseNetwork((neurons,) * (layers + 1), read)


def _missing(folder: Path, neurons: int, layers: int, layer: int) -> str:
    names = (re.fullmatch(r"n(\d+)-l\d+\.tsv", path.name) for path in folder.iterdir())
    sizes = sorted({int(match[1]) for match in names if match})
    message = f"{folder}: {layer_file(neurons, layer)} is missing"
    if sizes and neurons not in sizes:
        return f"{message}; the folder has layers of {' and '.join(map(str, sizes))} neurons"
    return f"{message}; a network of {layers} layers has {layers} such files"


def read_layer(path: Path, neurons: int, bias: float = 0.0) -> Layers:
    """One layer, from lines of input, output (both from 1 to `neurons`) and weight, in any order."""
    table = _read_table(path, 3)
    for position, name in enumerate(("input", "output")):
        _check_range(path, table[:, position], neurons, name)
    if (large := np.flatnonzero(np.abs(table[:, 2]) > np.finfo(np.float32).max)).size:
        raise FileError(f"{path}:{large[0] + 1}: weight {table[large[0], 2]:g} is too large for a float32")
    source, target = table[:, 0].astype(np.int64) - 1, table[:, 1].astype(np.int64) - 1
    order = np.lexsort((source, target))
    source, target, weight = source[order], target[order], table[order, 2]
    again = np.flatnonzero((np.diff(source) == 0) & (np.diff(target) == 0))
    if again.size:
        raise FileError(
            f"{path}:{order[again + 1].min() + 1}: this input and output are joined on an earlier line already"
        )
    start = np.searchsorted(target, np.arange(neurons + 1))
    columns, weights = to_ell((start, source, weight.astype(np.float32)))
    return Layers(columns[None], weights[None], even_bias(1, neurons, bias), np.array([len(target)]), neurons)


def read_image_table(path: Path, neurons: int) -> Floats:
    """The inputs in a `sparse-images-N.tsv`, lines of image, pixel and value: neurons × images.

    The number of images is the largest image number.
    """
    table = _read_table(path, 3)
    if not len(table):
        raise FileError(f"{path}: there is no image in it")
    _check_range(path, table[:, 0], 1 << 31, "image")
    _check_range(path, table[:, 1], neurons, "pixel")
    image, pixel = table[:, 0].astype(np.int64), table[:, 1].astype(np.int64)
    try:
        inputs = np.zeros((neurons, int(image.max())), np.float32)
    except MemoryError as error:
        raise FileError(f"{path}: image number {image.max()} asks for more memory than there is") from error
    inputs[pixel - 1, image - 1] = table[:, 2]
    return inputs


def _read_table(path: Path, columns: int) -> NDArray[np.float64]:
    """Lines of tab-separated numbers: lines × columns, row r from line r + 1."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from error
    if not data:
        return np.empty((0, columns))
    if data.isspace():
        raise FileError(_malformed(path, data, columns))
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    try:
        table = np.loadtxt(BytesIO(data), delimiter="\t", comments=None, ndmin=2, encoding="latin1")
    except ValueError as error:
        raise FileError(_malformed(path, data, columns)) from error
    if table.shape != (lines, columns) or not np.isfinite(table).all():
        raise FileError(_malformed(path, data, columns))
    return table


def _malformed(path: Path, data: bytes, columns: int) -> str:
    """A message about the first malformed line."""
    pattern = re.compile(rb"\t".join([NUMBER] * columns))
    form = "a number" if columns == 1 else f"{columns} numbers with tabs between them"
    for number, line in enumerate(data.splitlines(), 1):
        if not pattern.fullmatch(line) or not all(map(isfinite, map(float, line.split(b"\t")))):
            return f"{path}:{number}: expected {form}, found {line[:60].decode('utf-8', 'replace')!r}"
    return f"{path}: expected lines of {form}"


def _check_range(path: Path, values: NDArray[np.float64], most: int, name: str) -> None:
    wrong = np.flatnonzero((values < 1) | (values > most) | (values % 1 != 0))
    if wrong.size:
        row = int(wrong[0])
        raise FileError(f"{path}:{row + 1}: {name} {values[row]:.12g} is not a whole number from 1 to {most}")
