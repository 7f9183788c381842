"""Tensors made of numbers, and given other shapes."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    TensorType,
    i32,
)
from xdsl.ir import SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from .types import TtOp, element, shape


@irdl_op_definition
class MakeRangeOp(TtOp):
    """The numbers from `start` up to `end`, i32, one dimension."""

    name = "tt.make_range"
    start = prop_def(IntegerAttr)
    end = prop_def(IntegerAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(self, count: int):
        super().__init__(
            properties={"start": IntegerAttr(0, i32), "end": IntegerAttr(count, i32)},
            result_types=[TensorType(i32, [count])],
        )


@irdl_op_definition
class SplatOp(TtOp):
    """A scalar in every element."""

    name = "tt.splat"
    src = operand_def()
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(self, value: SSAValue, sizes: Sequence[int]):
        super().__init__(operands=[value], result_types=[TensorType(value.type, list(sizes))])


@irdl_op_definition
class ExpandDimsOp(TtOp):
    """A new dimension of size 1 before dimension `axis`."""

    name = "tt.expand_dims"
    src = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(self, value: SSAValue, axis: int):
        sizes = [*shape(value.type)[:axis], 1, *shape(value.type)[axis:]]
        super().__init__(
            operands=[value],
            properties={"axis": IntegerAttr(axis, i32)},
            result_types=[TensorType(element(value.type), sizes)],
        )


class _ResizedOp(TtOp):
    """The elements of a tensor under other sizes."""

    src = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(self, value: SSAValue, sizes: Sequence[int]):
        super().__init__(operands=[value], result_types=[TensorType(element(value.type), list(sizes))])


@irdl_op_definition
class BroadcastOp(_ResizedOp):
    """Dimensions of size 1 repeated."""

    name = "tt.broadcast"


@irdl_op_definition
class ReshapeOp(_ResizedOp):
    """The same elements, in row-major order, under other sizes."""

    name = "tt.reshape"


@irdl_op_definition
class TransOp(TtOp):
    """Dimensions in another order: dimension d of the result is dimension `order[d]` of the source."""

    name = "tt.trans"
    src = operand_def(TensorType)
    order = prop_def(DenseArrayBase)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(self, value: SSAValue, order: Sequence[int]):
        sizes = [shape(value.type)[d] for d in order]
        super().__init__(
            operands=[value],
            properties={"order": DenseArrayBase.from_list(i32, list(order))},
            result_types=[TensorType(element(value.type), sizes)],
        )
