"""Operations on values: ranges, shapes, dots, reductions, scans, and maths that rounds once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, IntegerAttr, TensorType, i32
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsTerminator, Pure

from .types import ElementwiseOp, PureTtOp, TtOp, element, shape, tensor


@irdl_op_definition
class MakeRangeOp(PureTtOp):
    """The numbers from `start` up to `end`, i32, one dimension."""

    name = "tt.make_range"
    start = prop_def(IntegerAttr)
    end = prop_def(IntegerAttr)

    def __init__(self, count: int):
        super().__init__(
            properties={"start": IntegerAttr(0, i32), "end": IntegerAttr(count, i32)},
            result_types=[TensorType(i32, [count])],
        )


class _ResizeOp(PureTtOp):
    """The elements of a scalar or tensor under other sizes."""

    src = operand_def()

    def __init__(self, value: SSAValue, sizes: Sequence[int], properties: Mapping[str, Attribute] | None = None):
        super().__init__(
            operands=[value], properties=properties or {}, result_types=[TensorType(element(value.type), list(sizes))]
        )


@irdl_op_definition
class SplatOp(_ResizeOp):
    """A scalar in every element."""

    name = "tt.splat"


@irdl_op_definition
class UnsplatOp(PureTtOp):
    """The element of a tensor that has one."""

    name = "tt.unsplat"
    src = operand_def()

    def __init__(self, value: SSAValue):
        super().__init__(operands=[value], result_types=[element(value.type)])


@irdl_op_definition
class BroadcastOp(_ResizeOp):
    """Dimensions of size 1 repeated."""

    name = "tt.broadcast"


@irdl_op_definition
class ReshapeOp(_ResizeOp):
    """The same elements, in row-major order, under other sizes."""

    name = "tt.reshape"


@irdl_op_definition
class JoinOp(PureTtOp):
    """Two tensors along a new last dimension of size 2."""

    name = "tt.join"
    lhs = operand_def()
    rhs = operand_def()

    def __init__(self, left: SSAValue, right: SSAValue):
        result = TensorType(element(left.type), [*shape(left.type), 2])
        super().__init__(operands=[left, right], result_types=[result])


@irdl_op_definition
class ExpandDimsOp(_ResizeOp):
    """A new dimension of size 1 before dimension `axis`."""

    name = "tt.expand_dims"
    axis = prop_def(IntegerAttr)

    def __init__(self, value: SSAValue, axis: int):
        sizes = [*shape(value.type)[:axis], 1, *shape(value.type)[axis:]]
        super().__init__(value, sizes, {"axis": IntegerAttr(axis, i32)})


@irdl_op_definition
class TransOp(_ResizeOp):
    """Dimensions in another order: dimension d of the result is dimension `order[d]` of the source."""

    name = "tt.trans"
    order = prop_def(DenseArrayBase)

    def __init__(self, value: SSAValue, order: Sequence[int]):
        sizes = [shape(value.type)[d] for d in order]
        super().__init__(value, sizes, {"order": DenseArrayBase.from_list(i32, list(order))})


@irdl_op_definition
class DotOp(PureTtOp):
    """a @ b + c, of two dimensions, or of three with a batch first. `inputPrecision`: 0 tf32, 2 ieee, for f32.
    `maxNumImpreciseAcc`: of f8, how many products may be added in fewer bits than f32 has."""

    name = "tt.dot"
    PRECISIONS: ClassVar[dict[str, int]] = {"tf32": 0, "ieee": 2}

    a = operand_def(TensorType)
    b = operand_def(TensorType)
    c = operand_def(TensorType)
    input_precision = prop_def(IntegerAttr, prop_name="inputPrecision")
    max_num_imprecise_acc = prop_def(IntegerAttr, prop_name="maxNumImpreciseAcc")

    def __init__(self, a: SSAValue, b: SSAValue, c: SSAValue, precision: str, imprecise: int = 0):
        super().__init__(
            operands=[a, b, c],
            properties={
                "inputPrecision": IntegerAttr(self.PRECISIONS[precision], i32),
                "maxNumImpreciseAcc": IntegerAttr(imprecise, i32),
            },
            result_types=[c.type],
        )


@irdl_op_definition
class DotScaledOp(PureTtOp):
    """a @ b + c, of two dimensions, or of three with a batch first, each block along the contracted dimension of `a`
    and `b` times its scale. Scales have the contracted dimension last, both. i8 operands are pairs of E2M1, i8 scales
    E8M0."""

    name = "tt.dot_scaled"
    ELEMENTS: ClassVar[dict[str, int]] = {"f8E4M3FN": 0, "f8E5M2": 1, "i8": 4}
    """Triton's numbers of the formats of operands, by their element types."""

    a = operand_def(TensorType)
    b = operand_def(TensorType)
    c = operand_def(TensorType)
    a_scale = operand_def(TensorType)
    b_scale = operand_def(TensorType)
    a_elem_type = prop_def(IntegerAttr)
    b_elem_type = prop_def(IntegerAttr)
    fast_math = prop_def(IntegerAttr, prop_name="fastMath")
    lhs_k_pack = prop_def(IntegerAttr)
    rhs_k_pack = prop_def(IntegerAttr)
    segments = prop_def(DenseArrayBase, prop_name="operandSegmentSizes")

    def __init__(self, a: SSAValue, a_scale: SSAValue, b: SSAValue, b_scale: SSAValue, c: SSAValue):
        forms = [IntegerAttr(self.ELEMENTS[str(element(value.type))], i32) for value in (a, b)]
        super().__init__(
            operands=[a, b, c, a_scale, b_scale],
            properties={
                "a_elem_type": forms[0],
                "b_elem_type": forms[1],
                "fastMath": BoolAttr.from_bool(False),
                "lhs_k_pack": BoolAttr.from_bool(True),
                "rhs_k_pack": BoolAttr.from_bool(True),
                "operandSegmentSizes": DenseArrayBase.from_list(i32, [1] * 5),
            },
            result_types=[c.type],
        )


@irdl_op_definition
class FpToFpOp(PureTtOp):
    """Floats in another type, one of the two f8. `rounding`: 1, to nearest, ties to even, where that is narrower."""

    name = "tt.fp_to_fp"
    NEAREST: ClassVar[int] = 1

    src = operand_def()
    rounding = opt_prop_def(IntegerAttr)

    def __init__(self, value: SSAValue, result: Attribute, narrows: bool):
        rounding = {"rounding": IntegerAttr(self.NEAREST, i32)} if narrows else {}
        super().__init__(operands=[value], properties=rounding, result_types=[result])


class _AlongAxisOp(TtOp):
    """Elements along dimension `axis` combined by the body, which takes two scalars."""

    srcs = var_operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    results_ = var_result_def()
    body = region_def("single_block")
    traits = traits_def(Pure())


@irdl_op_definition
class ReduceOp(_AlongAxisOp):
    """Combine all elements along dimension `axis`, in an order that Triton chooses."""

    name = "tt.reduce"

    def __init__(self, value: SSAValue, axis: int, body: Region):
        sizes = [size for number, size in enumerate(shape(value.type)) if number != axis]
        super().__init__(
            operands=[[value]],
            properties={"axis": IntegerAttr(axis, i32)},
            result_types=[[tensor(element(value.type), sizes)]],
            regions=[body],
        )


@irdl_op_definition
class ScanOp(_AlongAxisOp):
    """Inclusive scan along dimension `axis`."""

    name = "tt.scan"
    reverse = prop_def(BoolAttr)

    def __init__(self, values: Sequence[SSAValue], axis: int, body: Region):
        super().__init__(
            operands=[values],
            properties={"axis": IntegerAttr(axis, i32), "reverse": BoolAttr.from_bool(False)},
            result_types=[[value.type for value in values]],
            regions=[body],
        )


class _BodyReturnOp(TtOp):
    """End a body with the values that two elements combine to."""

    values = var_operand_def()
    traits = traits_def(IsTerminator())

    def __init__(self, *values: SSAValue):
        super().__init__(operands=[values])


@irdl_op_definition
class ReduceReturnOp(_BodyReturnOp):
    """End the body of a `tt.reduce`."""

    name = "tt.reduce.return"


@irdl_op_definition
class ScanReturnOp(_BodyReturnOp):
    """End the body of a `tt.scan`."""

    name = "tt.scan.return"


@irdl_op_definition
class PreciseSqrtOp(ElementwiseOp):
    """The square root of f32, rounded once."""

    name = "tt.precise_sqrt"
    x = operand_def()


@irdl_op_definition
class PreciseDivOp(ElementwiseOp):
    """A quotient of f32, rounded once."""

    name = "tt.precise_divf"
    x = operand_def()
    y = operand_def()
