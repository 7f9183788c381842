"""Atomic updates whose result is used."""

from __future__ import annotations

from typing import Any

from vkernels.ir.dialect import FetchOp
from vkernels.ir.errors import TypeMismatchError

from ..operation import Mistake
from ..values import Scratch, SubscriptReference, Tile
from .access import combination, lacking
from .scans import OwnScans


class Fetches(OwnScans):
    """The part of the builder that updates memory and says what was there before."""

    def fetch(
        self, reference: SubscriptReference, value: Any, kind: str, expected: Any = None, mask: Any = None
    ) -> Tile:
        """Update the place of each element of `value`, `expected` and `mask`; what the updates found, 0 where `mask` is
        false.

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
        reference = self.joined_place(reference, lacking(self.access(reference), *operands, mask))
        access = self.access(reference)
        tiles = [self.stored_tile(memory, access, each).ssa for each in operands]
        op = FetchOp(
            tiles[0], memory.ssa, access.indices, combination(kind, memory.dtype),
            expected=None if expected is None else tiles[1], guarded=access.guarded,
            mask=None if mask is None else self.mask(mask, access),
        )  # fmt: skip
        return Tile(self.result(op), memory.dtype, access.axes)
