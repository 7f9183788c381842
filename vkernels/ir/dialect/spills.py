"""Tiles that wait in memory of the program's own."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    result_def,
)
from xdsl.utils.exceptions import VerifyException

from .types import SpilledType


@irdl_op_definition
class SpillOp(IRDLOperation):
    """Write a tile to memory of the program's own, so that no register holds it until its `vk.reload`.

    A lowering keeps both: what seems to be a copy to no purpose leaves its registers to the loop in between.
    """

    name = "vk.spill"

    tile = operand_def(TensorType)
    spilled = result_def(SpilledType)

    assembly_format = "$tile attr-dict `:` type($tile) `->` type($spilled)"

    def __init__(self, tile: SSAValue):
        super().__init__(operands=[tile], result_types=[SpilledType(tile.type)])

    def verify_(self) -> None:
        _verify_spilled(self.spilled.type, self.tile.type)


@irdl_op_definition
class ReloadOp(IRDLOperation):
    """A tile read back from where `vk.spill` wrote it."""

    name = "vk.reload"

    spilled = operand_def(SpilledType)
    tile = result_def(TensorType)

    assembly_format = "$spilled attr-dict `:` type($spilled) `->` type($tile)"

    def __init__(self, spilled: SSAValue[SpilledType]):
        super().__init__(operands=[spilled], result_types=[spilled.type.tile])

    def verify_(self) -> None:
        _verify_spilled(self.spilled.type, self.tile.type)


def _verify_spilled(spilled: Attribute, tile: Attribute) -> None:
    if not isinstance(spilled, SpilledType) or spilled.tile != tile:
        raise VerifyException(f"{tile} does not lie in {spilled}")
