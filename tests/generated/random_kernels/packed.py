"""Loads of 4-bit integers, two of which are in a byte."""

from __future__ import annotations

from typing import Any

import numpy as np

from vkernels.language.dtypes import int8, uint8
from vkernels.language.values import Axis, PackedTensor, SubscriptReference, Tensor

from .authored import authored
from .memory import laid_out, random_axes
from .values import Kernel, Value


def packed(kernel: Kernel, depth: int) -> Value:
    """A load from a new tensor, at the positions of axes, or beside and beyond these along its last dimension."""
    choose = kernel.random
    axes = random_axes(kernel)
    extents: list[int] = [kernel.axes[axis].extent for axis in axes]
    values: str | int = kernel.axes[axes[-1]].size
    if choose.random() < 0.4:
        values = choose.randint(0, extents[-1] + 2)
    count = kernel.sizes[values] if isinstance(values, str) else values
    held = (count + 1) // 2
    dimensions: list[str | int] = [kernel.axes[axis].size for axis in axes[:-1]]
    last = choose.choice([held, kernel.size(held)])
    array = kernel.numbers.integers(0, 256, (*extents[:-1], held), np.uint8).view(np.int8)
    with authored(kernel) as author:
        ssa = kernel.tensor("i8", [*dimensions, last], laid_out(kernel, array), "q")
        storage = Tensor(ssa.name_hint or "q", ssa, uint8, (*dimensions, last))
        tensor = PackedTensor(storage.name, ssa, choose.choice([int8, uint8]), (*dimensions, values), storage)
        *others, along = map(author.axis, axes)
        tile = author.builder.load(SubscriptReference(tensor, (*others, _index(kernel, along))))
        return Value(tile.ssa, tile.names, "i8")


def _index(kernel: Kernel, axis: Axis) -> Any:
    """The axis, or a multiple of it and a number."""
    if kernel.random.random() < 0.5:
        return axis
    return kernel.random.choice([1, 1, 2, 3, -1]) * axis + kernel.random.randint(-3, 3)
