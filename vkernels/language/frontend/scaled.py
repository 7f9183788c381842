"""Operands of `vk.dot` times their scales: the block-scaled formats mxfp8, mxfp4 and nvfp4."""

from __future__ import annotations

from typing import Any

from vkernels.ir.dialect import DecodeOp
from vkernels.ir.errors import AxisError, TypeMismatchError

from ..dtypes import float32, uint8
from ..operation import Mistake
from ..values import Tile
from .access import Accesses
from .describe import describe
from .emitter import listed


class ScaledOperands(Accesses):
    """The part of the builder that decodes and scales the operands of dots."""

    def scaled_pairs(self, operands: tuple[Any, Any], scales: tuple[Any, Any]) -> list[tuple[Tile, Tile]]:
        """Pairs of operands times their scales in float32, whose dots add up: one; of bytes, one of each half.

        Raises the author's mistakes: dtypes that have no such product, a scale with an axis that its operand lacks.
        """
        left, right = (self._scaled(*pair) for pair in zip(operands, scales, strict=True))
        if len(left) != len(right):
            floats = operands[1 if len(left) == 2 else 0]
            raise Mistake(
                TypeMismatchError,
                f"the other operand is bytes of two fp4, this one {describe(self.tile(floats))}",
                "Both operands of a dot are fp4, two in a byte along the contracted axis, or neither is.",
                floats,
            )
        return list(zip(left, right, strict=True))

    def _scaled(self, operand: Any, scale: Any) -> tuple[Tile, ...]:
        tile = self.tile(operand)
        if tile.dtype is uint8 and scale is None:
            raise Mistake(TypeMismatchError, "bytes of two fp4 have no scale", "Give both scales.", operand)
        if tile.dtype is not uint8 and not (tile.dtype.is_float and tile.dtype.bits <= 32):
            raise Mistake(
                TypeMismatchError,
                f"expected floats of at most 32 bits, or bytes of two fp4, found {describe(tile)}",
                "Scaled operands are f8, or uint8 with two E2M1 each, the first in the lower half.",
                operand,
            )
        halves = self._numbers(tile)
        if scale is None:
            return halves
        factor = self._factor(tile, scale)
        return tuple(self.binary("*", half, factor) for half in halves)

    def _numbers(self, tile: Tile) -> tuple[Tile, ...]:
        if tile.dtype is uint8:
            return self._decoded(tile, "e2m1_low"), self._decoded(tile, "e2m1_high")
        return (Tile(tile.ssa, float32, tile.axes),)

    def _factor(self, tile: Tile, scale: Any) -> Tile:
        """A scale as float32: uint8 are the exponents of powers of two (E8M0), floats are numbers."""
        factor = self.tile(scale)
        if factor.dtype is not uint8 and not (factor.dtype.is_float and (factor.dtype.bits <= 32 or factor.weak)):
            raise Mistake(
                TypeMismatchError,
                f"expected scales of floats, or of uint8 as exponents, found {describe(factor)}",
                "Scales are E8M0 as uint8, as torch.float8_e8m0fnu arrives, or floats such as float8_e4m3fn.",
                scale,
            )
        if extra := [axis.name for axis in factor.axes if axis not in tile.axes]:
            along = listed(tile.names) if tile.axes else "no axis"
            raise Mistake(
                AxisError,
                f"the scale has {listed(extra)}, its operand only {along}",
                "Index scales by the operand's axes, such as `scale[i, k // 32]` for `a[i, k]`.",
                scale,
            )
        return self._decoded(factor, "e8m0") if factor.dtype is uint8 else self.convert(factor, float32)

    def _decoded(self, tile: Tile, format: str) -> Tile:
        return Tile(self.result(DecodeOp(tile.ssa, format)), float32, tile.axes)
