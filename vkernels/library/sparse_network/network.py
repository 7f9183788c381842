"""A sparse network: layers in ELL form, read a group at a time, so that a network need not fit in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vkernels.ir.errors import OptionError

Floats: TypeAlias = NDArray[np.float32]
Indices: TypeAlias = NDArray[np.int32]

BIASES = {1024: -0.30, 4096: -0.35, 16384: -0.40, 65536: -0.45}
"""Neurons → the bias that the challenge adds at each of them."""

CEILING = 32.0
"""No feature is larger than this after a layer."""

MOST_LAYERS = 1920


@dataclass(frozen=True)
class Layers:
    """Consecutive layers: `column[l, n, k]` is the input that `weight[l, n, k]` joins to output n.

    Both have the shape layers × neurons × most inputs of one neuron; outputs with fewer inputs are padded
    with weights of 0. `nonzeros[l]`: the connections of each layer, padding left out.
    """

    column: Indices
    weight: Floats
    nonzeros: NDArray[np.int64]


@dataclass(frozen=True)
class Network:
    """`layers` layers of `neurons` neurons: clamp(weights · features + bias, 0, 32) each.

    `read(first, last)` gives the layers from `first` up to `last`, counted from 0, `last` exclusive.
    Raises `OptionError` for a positive bias: the challenge adds it only where a sum is not 0, and an image without
    features stays without.
    """

    neurons: int
    layers: int
    bias: float
    read: Callable[[int, int], Layers]

    def __post_init__(self) -> None:
        if not self.bias <= 0:
            raise OptionError(f"the bias is {self.bias}, expected one that is not positive")

    def in_memory(self) -> Network:
        """The same network with all its layers read, once."""
        everything = self.read(0, self.layers)

        def part(first: int, last: int) -> Layers:
            chosen = slice(first, last)
            return Layers(everything.column[chosen], everything.weight[chosen], everything.nonzeros[chosen])

        return Network(self.neurons, self.layers, self.bias, part)


def check_size(neurons: int, layers: int) -> None:
    """`OptionError` unless the challenge has networks of so many neurons and layers."""
    if neurons not in BIASES:
        sizes = ", ".join(map(str, BIASES))
        raise OptionError(f"no network has {neurons} neurons: the challenge's have {sizes}")
    if not 1 <= layers <= MOST_LAYERS:
        raise OptionError(f"{layers} layers: a network has from 1 to {MOST_LAYERS}")


def joined(parts: list[Layers]) -> Layers:
    """Groups of layers as one; narrower ones are padded."""
    most = max(part.column.shape[2] for part in parts)

    def padded(array: NDArray[np.generic]) -> NDArray[np.generic]:
        return np.pad(array, ((0, 0), (0, 0), (0, most - array.shape[2])))

    column = np.concatenate([padded(part.column) for part in parts])
    weight = np.concatenate([padded(part.weight) for part in parts])
    return Layers(column, weight, np.concatenate([part.nonzeros for part in parts]))
