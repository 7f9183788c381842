"""A sparse network: layers in ELL form, read a group at a time, so that a network need not fit in memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vkernels.ir.errors import OptionError

if TYPE_CHECKING:
    from .gpu_inference import Resident
    from .prepare import PreparedNetwork
    from .run import Inference

Floats: TypeAlias = NDArray[np.float32]
Indices: TypeAlias = NDArray[Any]
"""Integers of 16 or 32 bits."""

BIASES = {1024: -0.30, 4096: -0.35, 16384: -0.40, 65536: -0.45}
"""Neurons → the bias that the challenge adds at each of them."""

CAP = 32.0
"""No feature of the challenge is larger than this after a layer."""

MAX_LAYERS = 1920

MAX_HELD_BYTES = 6 << 30
"""Bytes of layers up to which a network is held in memory for inference, unless it says otherwise."""


@dataclass(frozen=True)
class Layers:
    """Consecutive layers of equal sizes: `column[l, n, k]` is the input that `weight[l, n, k]` joins to output n.

    Both have the shape layers × outputs × most inputs of one output; outputs with fewer inputs are padded with weights
    of 0. Weights that are equal for each output may be stored once, with a last stride of 0. Where outputs come in
    blocks that share their inputs, `column` is layers × blocks × inputs of a block and `weight` layers × blocks ×
    outputs of a block × these inputs. `bias[l, n]` is added to each output. `inputs`: how many there are; if not as
    many as outputs, there is one layer. `nonzeros[l]`: the connections of each layer, padding left out.
    """

    column: Indices
    weight: Floats
    bias: Floats
    nonzeros: NDArray[np.int64]
    inputs: int

    @property
    def outputs(self) -> int:
        return int(self.bias.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of indices and weights."""
        return self.column.nbytes + self.weight.nbytes

    def part(self, first: int, last: int) -> Layers:
        """Some of the layers, `last` exclusive; nothing is copied."""
        chosen = slice(first, last)
        return Layers(self.column[chosen], self.weight[chosen], self.bias[chosen], self.nonzeros[chosen], self.inputs)

    def narrow(self) -> Layers:
        """The same with indices of 16 bits, where those suffice."""
        dtype = np.int16 if self.inputs <= np.iinfo(np.int16).max else np.int32
        return Layers(self.column.astype(dtype, copy=False), self.weight, self.bias, self.nonzeros, self.inputs)


@dataclass(frozen=True)
class SparseNetwork:
    """Layers of features, each clamp(weights · features + bias, 0, cap) of the one before.

    `sizes`: how many features go in, then how many come out of each layer. `read(first, last)` gives the layers from
    `first` up to `last`, counted from 0, `last` exclusive; it is asked for layers of equal sizes and between two `cuts`
    only. `settled_from`: the first layer from which on no bias is positive, so that images without features stay so.
    `held`: reading costs nothing. `most_held`: layers that take more bytes than this are not held for inference but
    read again for every run, some at a time.
    """

    sizes: tuple[int, ...]
    read: Callable[[int, int], Layers]
    cap: float = CAP
    cuts: tuple[int, ...] = ()
    settled_from: int = 0
    held: bool = False
    most_held: int = MAX_HELD_BYTES

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
        from .from_matrices import build

        return build(layers, bias, cap, inputs)

    @staticmethod
    def load(path: Path | str, streamed: bool = False) -> SparseNetwork:
        """The network that `save` wrote. Raises `FileError` where it is missing, damaged or something else.

        `streamed`: layers are read when they are asked for, in any order but fastest in theirs, and checked then, so
        that the network may be larger than memory; the file stays open, and must stay as it is.
        """
        from .network_file import load, stream

        return stream(Path(path)) if streamed else load(Path(path))

    def save(self, path: Path | str) -> None:
        """Write the network to a .npz, in CSR form, some layers at a time. Raises `FileError` where that cannot be."""
        from .network_file import save

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
        from .run import run

        return run(self, images, devices, kind, storage, check)

    @property
    def layers(self) -> int:
        return len(self.sizes) - 1

    @property
    def inputs(self) -> int:
        return self.sizes[0]

    @property
    def outputs(self) -> int:
        return self.sizes[-1]

    @cached_property
    def prepared(self) -> dict[str, PreparedNetwork]:
        """What was found out and made ready, by class of execution."""
        return {}

    @cached_property
    def resident(self) -> dict[str, Resident]:
        """Layers that were brought to other devices, by torch's name of these."""
        return {}

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """Where runs of layers end that one launch can take: of as many inputs as outputs, and between cuts."""
        last = [
            layer
            for layer in range(1, self.layers)
            if not self.sizes[layer - 1] == self.sizes[layer] == self.sizes[layer + 1]
        ]
        return tuple(sorted({*last, *self.cuts, self.layers} - {0}))

    def end_after(self, layer: int) -> int:
        """The end of the run that a layer is in."""
        return self.ends[bisect_right(self.ends, layer)]

    def first_layers(self, count: int) -> SparseNetwork:
        """The network of the first layers alone."""
        cuts = tuple(cut for cut in self.cuts if cut < count)
        return replace(self, sizes=self.sizes[: count + 1], cuts=cuts, settled_from=min(count, self.settled_from))

    def in_memory(self) -> SparseNetwork:
        """The same network with all its layers read, once."""
        starts = (0, *self.ends[:-1]) if self.layers else ()
        runs = [self.read(first, last) for first, last in zip(starts, self.ends, strict=bool(starts))]

        def part(first: int, last: int) -> Layers:
            number = bisect_right(self.ends, first)
            return runs[number].part(first - starts[number], last - starts[number])

        return replace(self, read=part, held=True)

    def each_run(self, most_bytes: int = 1 << 62) -> list[tuple[int, int]]:
        """First and last layer, exclusive, of groups of layers that can be read at once."""
        found = []
        first = 0
        while first < self.layers:
            end = self.end_after(first)
            if end - first > 1 and most_bytes < 1 << 62:
                end = min(end, first + max(1, most_bytes // max(1, self.read(first, first + 1).nbytes)))
            found.append((first, end))
            first = end
        return found


def check_size(neurons: int, layers: int) -> None:
    """`OptionError` unless the challenge has networks of so many neurons and layers."""
    if neurons not in BIASES:
        sizes = ", ".join(map(str, BIASES))
        raise OptionError(f"no network has {neurons} neurons: the challenge's have {sizes}")
    if not 1 <= layers <= MAX_LAYERS:
        raise OptionError(f"{layers} layers: a network has from 1 to {MAX_LAYERS}")


def even_bias(layers: int, neurons: int, bias: float) -> Floats:
    """One bias for all outputs of some layers, in the room of one number."""
    return np.broadcast_to(np.float32(bias), (layers, neurons))


def joined(parts: Sequence[Layers]) -> Layers:
    """Groups of layers of equal sizes and blocks as one; narrower ones are padded."""
    most = max(part.column.shape[2] for part in parts)

    def padded(array: NDArray[Any]) -> NDArray[Any]:
        return np.pad(array, ((0, 0),) * (array.ndim - 1) + ((0, most - array.shape[-1]),))

    return Layers(
        np.concatenate([padded(part.column) for part in parts]),
        np.concatenate([padded(part.weight) for part in parts]),
        np.concatenate([part.bias for part in parts]),
        np.concatenate([part.nonzeros for part in parts]),
        parts[0].inputs,
    )
