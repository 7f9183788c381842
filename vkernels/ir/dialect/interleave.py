"""Tiles joined element by element along their last axis."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, prop_def, result_def, var_operand_def
from xdsl.utils.exceptions import VerifyException

from .attributes import axes_of, element_of, sizes_of, tile_type
from .compute import PureOp


@irdl_op_definition
class InterleaveOp(PureOp):
    """Tiles of one type joined along `axis`, their last: position p of n tiles comes from position p / n of tile p % n.

    The number of tiles is a power of two. Mapped kernels for GPUs only.
    """

    name = "vk.interleave"

    tiles = var_operand_def(TensorType)
    axis = prop_def(StringAttr)
    result = result_def(TensorType)

    assembly_format = "$tiles `along` custom<Name>($axis) attr-dict `:` type($tiles) `->` type($result)"

    def __init__(self, tiles: Sequence[SSAValue]):
        sizes = sizes_of(tiles[0])
        *_, axis = sizes
        sizes[axis] *= len(tiles)
        result = tile_type(element_of(tiles[0]), sizes, sizes.values())
        super().__init__(operands=[tiles], properties={"axis": StringAttr(axis)}, result_types=[result])

    def verify_(self) -> None:
        count = len(self.tiles)
        if count < 2 or count & (count - 1):
            raise VerifyException(f"{count} tiles are interleaved, expected a power of two")
        first = self.tiles[0].type
        if any(tile.type != first for tile in self.tiles):
            raise VerifyException("tiles of several types are interleaved")
        if axes_of(first)[-1:] != (self.axis.data,):
            raise VerifyException(f"axis {self.axis.data} is not the last of {first}")
        expected = InterleaveOp(self.tiles).result.type
        if self.result.type != expected:
            raise VerifyException(f"the result is {self.result.type}, expected {expected}")
