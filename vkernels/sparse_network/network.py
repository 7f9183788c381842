"""Sparse networks: made from matrices or files, saved, and run on images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from .from_matrices import build
from .network_file import load, save, stream
from .network_layers import CAP, NetworkLayers
from .run import Inference, run


@dataclass(frozen=True)
class SparseNetwork(NetworkLayers):
    """A network that runs on images: layers of features, each clamp(weights · features + bias, 0, cap) of the one
    before. The fields are those of `NetworkLayers`."""

    @staticmethod
    def of(
        layers: Sequence[Any], bias: float | Sequence[Any] = 0.0, cap: float = CAP, inputs: int | None = None
    ) -> SparseNetwork:
        """The network of these layers' weights, outputs × inputs each, as float32.

        Each layer: a sparse matrix or array of SciPy, a sparse tensor of torch, a dense array or tensor, or arrays
        `(start, column, weight)` of CSR form or `(column, weight)` of ELL form; `inputs` is required if the first layer
        has one of the last two forms. `bias`: one number, or for each layer a number or an array, one for each output.
        Raises `ArgumentError`, naming the layer, for weights or biases that are not finite, indices out of range, and
        sizes that do not match.
        """
        return _network(build(layers, bias, cap, inputs))

    @staticmethod
    def load(path: Path | str, streamed: bool = False) -> SparseNetwork:
        """Load a network that `save` wrote. Raises `FileError` for missing, damaged and other files.

        `streamed`: layers are read and checked on demand, fastest in order, so that the network may be larger than
        memory; the file stays open, and must not change.
        """
        return _network(stream(Path(path)) if streamed else load(Path(path)))

    def save(self, path: Path | str) -> None:
        """Write the network to a .npz file in CSR form, a part at a time. Raises `FileError` if that fails."""
        save(self, Path(path))

    def infer(
        self,
        images: Any,
        devices: Sequence[str] = ("cpu",),
        kind: str = "auto",
        storage: str = "float32",
        check: bool = False,
    ) -> Inference:
        """Run the network on images: inputs × images of numbers, in NumPy or torch; each image is a column.

        `kind`: "general" (any weights), "structured" (equal outputs are merged, and outputs with common inputs run as
        blocks if that is less work), "saturating" (images are finished once they have provably reached a fixed point),
        or "auto": structured if merging leaves at most half of the connections, else saturating if fixed points are
        proved from the middle of the layers or before, else structured if blocks pay, else general. `devices`: "cpu"
        (all threads that calls may use), slices of it, "cpu:cores=1", or GPUs, "cuda:0" as torch names them,
        "nvidia:0", "amd:0"; each of several devices has all weights and a part of the images, by measured speed.
        `storage`: dtype of features between layers, "float32", "float16" or "bfloat16"; sums and returned features are
        always float32. `check`: run in float32 as well, and record whether the same images survived. Findings about the
        weights are kept for the next call. Raises `ArgumentError` for images of another shape, `OptionError` for
        unknown kinds, devices and storage, and for a cap that float16 cannot hold, `SetupError` for an absent GPU.
        """
        return run(self, images, devices, kind, storage, check)


def _network(layers: NetworkLayers) -> SparseNetwork:
    return SparseNetwork(**{field.name: getattr(layers, field.name) for field in fields(layers)})
