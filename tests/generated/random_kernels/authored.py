"""Operations of the language in a kernel in the making: the front end builds what it would build for an author."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from vkernels.language import dtypes
from vkernels.language.dtypes import DType
from vkernels.language.frontend.complex_numbers import ComplexBuilder
from vkernels.language.operation import building
from vkernels.language.values import Axis, Tensor, Tile

from .values import Kernel, Value

_DTYPES = {
    "f64": "float64", "f32": "float32", "i1": "bool_", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
}  # fmt: skip


@contextmanager
def authored(kernel: Kernel) -> Iterator[Author]:
    """Add what operations build to the current block."""
    top = kernel.op.body.block
    builder = ComplexBuilder(top, list(kernel.sizes), frozenset())
    builder.labels = kernel.labels
    with ExitStack() as open_blocks:
        open_blocks.enter_context(building(builder))
        if kernel.block is not top:
            open_blocks.enter_context(builder.inside(kernel.block))
        yield Author(kernel, builder)
    for block in (top, kernel.block):
        for op in block.walk():
            for result in op.results:
                if result.name_hint is None:
                    result.name_hint = f"t{kernel.count}"
                    kernel.count += 1


class Author:
    """Values of a kernel in the making as the language has them, and back."""

    def __init__(self, kernel: Kernel, builder: ComplexBuilder):
        self.kernel, self.builder = kernel, builder
        self._axes: dict[str, Axis] = {}

    def axis(self, name: str) -> Axis:
        if name not in self._axes:
            known = self.kernel.axes[name]
            size = self.builder.size(known.size)
            self._axes[name] = Axis(name, "tile" if known.is_tile else "whole", known.size, size)
        return self._axes[name]

    def tile(self, value: Value, unsigned: bool = False) -> Tile:
        axes = tuple(self.axis(name) for name in value.axes)
        return Tile(value.ssa, dtype_of(value.element, unsigned), axes)

    def tensor(
        self, element: str, dimensions: Sequence[str | int], array: np.ndarray[Any, Any], unsigned: bool = False
    ) -> Tensor:
        """A new output tensor, whose elements are compared exactly unless a tolerance is set."""
        ssa = self.kernel.tensor(element, dimensions, array, "out")
        name = list(self.kernel.arguments)[-1]
        self.kernel.tolerances[name] = 0
        return Tensor(name, ssa, dtype_of(element, unsigned), tuple(dimensions))


def dtype_of(element: str, unsigned: bool = False) -> DType:
    name = _DTYPES[element]
    found: DType = getattr(dtypes, f"u{name}" if unsigned and name.startswith("int") else name)
    return found
