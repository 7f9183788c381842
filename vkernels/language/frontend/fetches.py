"""Atomic updates whose result is used."""

from __future__ import annotations

from typing import Any

from vkernels.ir.dialect import FetchOp
from vkernels.ir.errors import TypeMismatchError

from ..dtypes import int64
from ..operation import Mistake
from ..values import Scratch, SubscriptReference, Tile
from .access import axes_of_value, combination
from .scans import OwnScans


class Fetches(OwnScans):
    """The part of the builder that updates memory and says what was there before."""

    def fetch(self, reference: SubscriptReference, value: Any, kind: str, expected: Any = None) -> Tile:
        """Update the place of each element of `value`, and of `expected` if given; what the updates found.

        Axes that the place lacks join it: each of their positions updates the same element. Only one store may use the
        result, see `FetchOp`.
        """
        memory = reference.memory
        is_wide = memory.dtype.is_int or (memory.dtype.is_float and memory.dtype.bits >= 32)
        if isinstance(memory, Scratch) or not is_wide:
            what = "scratchpad" if isinstance(memory, Scratch) else memory.dtype.name
            raise Mistake(
                TypeMismatchError,
                f"expected a tensor of integers, float32 or float64, found {what}",
                "An atomic that gives a result updates such a tensor.",
            )
        operands = [value] if expected is None else [value, expected]
        access = self.access(reference)
        extra = [axis for each in operands for axis in axes_of_value(each) if axis not in access.axes]
        if extra and reference.index:
            nothing = self.broadcast(self.convert(0, int64), tuple(dict.fromkeys(extra)))
            first = self.binary("+", reference.index[0], nothing)
            reference = SubscriptReference(memory, (first, *reference.index[1:]))
            access = self.access(reference)
        tiles = [self.stored_tile(memory, access, each).ssa for each in operands]
        op = FetchOp(
            tiles[0], memory.ssa, access.indices, combination(kind, memory.dtype),
            expected=None if expected is None else tiles[1], guarded=access.guarded,
        )  # fmt: skip
        return Tile(self.result(op), memory.dtype, access.axes)
