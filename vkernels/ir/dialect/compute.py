"""What tiles need beyond upstream arith and math: axes joined, reduced, scanned, contracted; and checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import StringAttr, TensorType, i1, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure

from .attributes import axes_of, element_of, sizes_of, tile_type


@irdl_op_definition
class BroadcastOp(IRDLOperation):
    """A scalar or tile repeated along the axes it lacks; axes are matched by name, so their order may change too."""

    name = "vk.broadcast"

    source = operand_def()
    result = result_def(TensorType)

    traits = traits_def(Pure())

    def __init__(self, source: SSAValue, result: Attribute):
        super().__init__(operands=[source], result_types=[result])


@irdl_op_definition
class PositionOp(IRDLOperation):
    """The positions along an axis, 0, 1, 2, …, as a tile of i64 with that axis alone."""

    name = "vk.position"

    axis = prop_def(StringAttr)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    def __init__(self, axis: str, size: int | None = None):
        result = tile_type(i64, [axis], None if size is None else [size])
        super().__init__(properties={"axis": StringAttr(axis)}, result_types=[result])


@irdl_op_definition
class BelowOp(IRDLOperation):
    """Which positions along an axis are below a count: a tile of i1 with that axis alone. The mask of a tail."""

    name = "vk.below"

    axis = prop_def(StringAttr)
    count = operand_def(i64)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    def __init__(self, axis: str, count: SSAValue, size: int | None = None):
        result = tile_type(i1, [axis], None if size is None else [size])
        super().__init__(operands=[count], properties={"axis": StringAttr(axis)}, result_types=[result])


class ReductionOp(IRDLOperation):
    """One value for all the elements along an axis; the result lacks that axis and keeps the others' order.

    The order of combining is free within a plan's choice: a pass may split the axis into chunks or programs.
    An axis without positions gives the neutral element.
    """

    tile = operand_def(TensorType)
    axis = prop_def(StringAttr)
    result = result_def()

    traits = traits_def(Pure())

    def __init__(self, tile: SSAValue, axis: str):
        sizes = {a: n for a, n in sizes_of(tile).items() if a != axis}
        result = tile_type(element_of(tile), sizes, sizes.values())
        super().__init__(operands=[tile], properties={"axis": StringAttr(axis)}, result_types=[result])


@irdl_op_definition
class SumOp(ReductionOp):
    """The sum of a tile along an axis. Neutral: 0."""

    name = "vk.sum"


@irdl_op_definition
class ProductOp(ReductionOp):
    """The product of a tile along an axis. Neutral: 1."""

    name = "vk.product"


@irdl_op_definition
class MaxOp(ReductionOp):
    """The largest element of a tile along an axis; NaN if any is NaN. Neutral: -inf, or the least (signed) integer."""

    name = "vk.max"


@irdl_op_definition
class MinOp(ReductionOp):
    """The smallest element of a tile along an axis; NaN if any is NaN. Neutral: inf, or the largest (signed) integer."""

    name = "vk.min"


@irdl_op_definition
class ScanOp(IRDLOperation):
    """Inclusive scan along an axis: each element combined with all before it. `kind` is sum, product, max or min."""

    name = "vk.scan"
    KINDS: ClassVar[tuple[str, ...]] = ("sum", "product", "max", "min")

    kind = prop_def(StringAttr)
    tile = operand_def(TensorType)
    axis = prop_def(StringAttr)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    def __init__(self, kind: str, tile: SSAValue, axis: str):
        super().__init__(
            operands=[tile],
            properties={"kind": StringAttr(kind), "axis": StringAttr(axis)},
            result_types=[tile.type],
        )


@irdl_op_definition
class DotOp(IRDLOperation):
    """Products of `left` and `right`, summed along an axis that both have, added to `sum`.

    The result's axes are all the others of both; axes that both share stay (a batch). `precision` is
    "ieee" or "tf32". Elements of all three are of one type; f16 and bf16 operands come extended to f32.
    """

    name = "vk.dot"

    left = operand_def(TensorType)
    right = operand_def(TensorType)
    sum = operand_def()
    axis = prop_def(StringAttr)
    precision = prop_def(StringAttr, default_value=StringAttr("ieee"))
    result = result_def()

    traits = traits_def(Pure())

    def __init__(self, left: SSAValue, right: SSAValue, sum: SSAValue, axis: str, precision: str = "ieee"):
        super().__init__(
            operands=[left, right, sum],
            properties={"axis": StringAttr(axis), "precision": StringAttr(precision)},
            result_types=[sum.type],
        )


@irdl_op_definition
class PrintOp(IRDLOperation):
    """Show values, interpreted or checked; compiled kernels leave it out."""

    name = "vk.print"

    prefix = prop_def(StringAttr)
    values = var_operand_def()

    def __init__(self, prefix: str, values: Sequence[SSAValue]):
        super().__init__(operands=[values], properties={"prefix": StringAttr(prefix)})


@irdl_op_definition
class AssertOp(IRDLOperation):
    """Stop with `message` where a condition is false, interpreted or checked; compiled kernels leave it out."""

    name = "vk.assert"

    condition = operand_def()
    message = prop_def(StringAttr)

    def __init__(self, condition: SSAValue, message: str):
        super().__init__(operands=[condition], properties={"message": StringAttr(message)})


REDUCTIONS: tuple[type[ReductionOp], ...] = (SumOp, ProductOp, MaxOp, MinOp)

__all__ = [
    "REDUCTIONS", "AssertOp", "BelowOp", "BroadcastOp", "DotOp", "MaxOp", "MinOp", "PositionOp", "PrintOp",
    "ProductOp", "ReductionOp", "ScanOp", "SumOp", "axes_of",
]
