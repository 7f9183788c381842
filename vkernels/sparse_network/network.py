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
        `(start, column, weight)` of CSR form or `(column, weight)` of ELL form; the first layer's `inputs` must be
        said for the last two. `bias`: one number, or for each layer a number or an array of one for each output.
        Raises `ArgumentError` for weights or biases that are not finite, indices out of range, and sizes that do not
        go together; it names the layer.
        """
        return _network(build(layers, bias, cap, inputs))

    @staticmethod
    def load(path: Path | str, streamed: bool = False) -> SparseNetwork:
        """The network that `save` wrote. Raises `FileError` where it is missing, damaged or something else.

        `streamed`: layers are read when they are asked for, in any order but fastest in theirs, and checked then, so
        that the network may be larger than memory; the file stays open, and must stay as it is.
        """
        return _network(stream(Path(path)) if streamed else load(Path(path)))

    def save(self, path: Path | str) -> None:
        """Write the network to a .npz, in CSR form, some layers at a time. Raises `FileError` where that cannot be."""
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

        `kind`: "general" (any weights), "structured" (equal outputs are merged where there are any, outputs that gather
        the same inputs run as blocks where that is less work), "saturating" (images are done once they have provably
        reached a fixed point), or "auto", which is structured where merging leaves no more than half of the
        connections, else saturating where fixed points are proved from the middle of the layers or before, else
        structured where blocks pay, else general. `devices`: "cpu", which is all threads that calls may use, slices of
        it, "cpu:cores=1", or GPUs, "cuda:0" as torch names them, "nvidia:0", "amd:0"; with several, each has its part
        of the images, by measured speed, and all the weights.
        `storage`: what features are held as between layers, "float32", "float16" or "bfloat16"; sums are float32 in any
        case, features that come back too. `check`: run in float32 as well, and say in the record whether the same
        images survived. What is found out about the weights is kept for the next call. Raises `ArgumentError` for
        images of another shape, `OptionError` for unknown kinds, devices and storage, and for float16 where the cap
        exceeds it, `SetupError` for a GPU that is not here.
        """
        return run(self, images, devices, kind, storage, check)


def _network(layers: NetworkLayers) -> SparseNetwork:
    return SparseNetwork(**{field.name: getattr(layers, field.name) for field in fields(layers)})
