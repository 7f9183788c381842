"""Operations of plain Triton kernels that `lower_to_ttir` does not emit; they are interpreted only."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, prop_def, result_def, var_operand_def

from .types import PureTtOp, TtOp


@irdl_op_definition
class SplitOp(TtOp):
    """The two halves of a tensor whose last dimension has size 2."""

    name = "tt.split"
    src = operand_def()
    lhs = result_def()
    rhs = result_def()


@irdl_op_definition
class CatOp(PureTtOp):
    """Two tensors behind each other. Triton may reorder elements of the result; here it does not."""

    name = "tt.cat"
    lhs = operand_def()
    rhs = operand_def()


@irdl_op_definition
class GatherOp(PureTtOp):
    """Elements of `src` at these indices along dimension `axis`."""

    name = "tt.gather"
    src = operand_def()
    indices = operand_def()
    axis = prop_def(IntegerAttr)


@irdl_op_definition
class HistogramOp(PureTtOp):
    """How many elements are 0, 1, …, as many as the result has; of those that the mask does not leave out."""

    name = "tt.histogram"
    src = operand_def()
    mask = opt_operand_def()


@irdl_op_definition
class ExternOp(PureTtOp):
    """A function of a device library, of each element."""

    name = "tt.extern_elementwise"
    arguments = var_operand_def()
    symbol = prop_def(StringAttr)
