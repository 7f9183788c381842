"""Operands of `vk.dot` times their scales: the block-scaled formats mxfp8, mxfp4 and nvfp4."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import f32

from vkernels.ir.dialect import arith
from vkernels.ir.errors import AxisError, TypeMismatchError

from ..dtypes import DType, float32, int32, uint8, uint32
from ..operation import Mistake
from ..values import Tile
from .access import Accesses
from .describe import describe
from .emitter import listed
from .types import type_of

_E2M1_DOUBLED = 0xC8643210
"""Twice the magnitudes of the eight E2M1 (0, 0.5, 1, 1.5, 2, 3, 4, 6), four bits each, that of code 0 in the lowest."""


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
        halves = self._halves(tile) if tile.dtype is uint8 else (Tile(tile.ssa, float32, tile.axes),)
        if scale is None:
            return halves
        factor = self._factor(tile, scale)
        return tuple(self.binary("*", half, factor) for half in halves)

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
        return self._power_of_two(factor) if factor.dtype is uint8 else self.convert(factor, float32)

    def _power_of_two(self, tile: Tile) -> Tile:
        """E8M0: 2 to the power of the number - 127; NaN for 255. 2^-127 is below the exponents of normal f32."""
        exponent = self.convert(tile, int32)
        bits = self.extreme("max", self.binary("<<", exponent, 23), 1 << 22)
        return self.where(self.compare("==", exponent, 255), float("nan"), self._as_float(bits))

    def _halves(self, tile: Tile) -> tuple[Tile, Tile]:
        """Both E2M1 of each byte as float32: a sign, and an index into the magnitudes."""
        wide = self.convert(tile, uint32)
        low = self._e2m1(self.binary("<<", wide, 2), self.binary("<<", wide, 28))
        return low, self._e2m1(self.binary(">>", wide, 2), self.binary("<<", wide, 24))

    def _e2m1(self, place: Tile, sign: Tile) -> Tile:
        """`place`: 4 times the code, below bits that do not matter; `sign`: the sign, likewise in the top bit."""
        table = self.binary(">>", _E2M1_DOUBLED, self.binary("&", place, 28))
        doubled = self.convert(self._same_bits(self.binary("&", table, 15), int32), float32)
        size = self._bits_of(self.binary("*", doubled, 0.5))
        return self._as_float(self.binary("|", size, self.binary("&", sign, 1 << 31)))

    def _as_float(self, tile: Tile) -> Tile:
        return Tile(self.result(arith.BitcastOp(tile.ssa, type_of(f32, tile.axes))), float32, tile.axes)

    def _bits_of(self, tile: Tile) -> Tile:
        return self._same_bits(self.bits(tile), uint32)

    @staticmethod
    def _same_bits(tile: Tile, dtype: DType) -> Tile:
        """32 bits as another integer dtype of as many: the IR's integers are without signs."""
        return Tile(tile.ssa, dtype, tile.axes)
