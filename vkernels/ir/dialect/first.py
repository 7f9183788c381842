"""Which program computes what several would compute alike."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import i1, i64
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, result_def, var_operand_def


@irdl_op_definition
class FirstOp(IRDLOperation):
    """Whether a program is the first that its thread runs of those that differ in these coordinates alone, the fastest
    of its launch: then its scratchpads do not yet hold what all of these compute alike. True where each program has
    scratchpads of its own."""

    name = "vk.first"

    coordinates = var_operand_def(i64)
    result = result_def(i1)

    assembly_format = "$coordinates attr-dict"

    def __init__(self, coordinates: Sequence[SSAValue]):
        super().__init__(operands=[coordinates], result_types=[i1])
