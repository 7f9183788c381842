"""Write the challenge's text files, and read its lists of images: for tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vkernels.ir.write_file import write_file
from vkernels.sparse_network.network_layers import Floats, Layers
from vkernels.sparse_network.tsv_files import _check_range, _read_table


def write_layer(path: Path, layers: Layers, index: int) -> None:
    """One layer as the challenge writes it: sorted by output, then input."""
    column, weight = layers.column[index], layers.weight[index]
    lines = []
    for output, (sources, values) in enumerate(zip(column.tolist(), weight.tolist(), strict=True)):
        pairs = sorted(pair for pair in zip(sources, values, strict=True) if pair[1] != 0)
        lines += [f"{source + 1}\t{output + 1}\t{value:e}\n" for source, value in pairs]
    write_file(path, "".join(lines))


def write_image_table(path: Path, inputs: Floats) -> None:
    """Inputs, neurons × images, as the challenge writes them: sorted by image, then pixel."""
    image, pixel = np.nonzero(inputs.T)
    values = inputs[pixel, image].tolist()
    rows = zip((image + 1).tolist(), (pixel + 1).tolist(), values, strict=True)
    write_file(path, "".join(f"{i}\t{p}\t{value:g}\n" for i, p, value in rows))


def read_categories(path: Path) -> NDArray[np.int64]:
    """The images, counted from 0, that a `neuronN-lL-categories.tsv` says survive; ascending."""
    table = _read_table(path, 1)
    _check_range(path, table[:, 0], 1 << 31, "image")
    return np.unique(table[:, 0].astype(np.int64) - 1)


def write_categories(path: Path, survivors: NDArray[np.int64]) -> None:
    """Images, counted from 0, as the challenge's list of those that survive."""
    write_file(path, "".join(f"{image + 1}\n" for image in survivors.tolist()))
