"""Dots, reductions, scans, and maths that rounds once."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import (
    BoolAttr,
    IntegerAttr,
    TensorType,
    i32,
)
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsTerminator, Pure

from .types import TtOp, element, shape, tensor


@irdl_op_definition
class DotOp(TtOp):
    """a @ b + c, of two dimensions, or of three with a batch first. `inputPrecision`: 0 tf32, 2 ieee, for f32.
    `maxNumImpreciseAcc`: of f8, how many products may be added in fewer bits than f32 has."""

    name = "tt.dot"
    PRECISIONS: ClassVar[dict[str, int]] = {"tf32": 0, "ieee": 2}

    a = operand_def(TensorType)
    b = operand_def(TensorType)
    c = operand_def(TensorType)
    input_precision = prop_def(IntegerAttr, prop_name="inputPrecision")
    max_num_imprecise_acc = prop_def(IntegerAttr, prop_name="maxNumImpreciseAcc")
    result = result_def(TensorType)
    traits = traits_def(Pure())

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
class FpToFpOp(TtOp):
    """Floats in another type, one of the two f8. `rounding`: 1, to nearest, ties to even, where that is narrower."""

    name = "tt.fp_to_fp"
    NEAREST: ClassVar[int] = 1

    src = operand_def()
    rounding = opt_prop_def(IntegerAttr)
    result = result_def()
    traits = traits_def(Pure())

    def __init__(self, value: SSAValue, result: Attribute, narrows: bool):
        rounding = {"rounding": IntegerAttr(self.NEAREST, i32)} if narrows else {}
        super().__init__(operands=[value], properties=rounding, result_types=[result])


@irdl_op_definition
class ReduceOp(TtOp):
    """Combine all elements along dimension `axis`, in an order that Triton chooses; the body combines two scalars."""

    name = "tt.reduce"
    srcs = var_operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    results_ = var_result_def()
    body = region_def("single_block")
    traits = traits_def(Pure())

    def __init__(self, value: SSAValue, axis: int, body: Region):
        sizes = [size for number, size in enumerate(shape(value.type)) if number != axis]
        super().__init__(
            operands=[[value]],
            properties={"axis": IntegerAttr(axis, i32)},
            result_types=[[tensor(element(value.type), sizes)]],
            regions=[body],
        )


class _BodyReturnOp(TtOp):
    """End a body with the value that two scalars combine to."""

    values = var_operand_def()
    traits = traits_def(IsTerminator())

    def __init__(self, value: SSAValue):
        super().__init__(operands=[[value]])


@irdl_op_definition
class ReduceReturnOp(_BodyReturnOp):
    """End the body of a `tt.reduce`."""

    name = "tt.reduce.return"


@irdl_op_definition
class ScanOp(TtOp):
    """Inclusive scan along dimension `axis`; the body combines two scalars."""

    name = "tt.scan"
    srcs = var_operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    reverse = prop_def(BoolAttr)
    results_ = var_result_def()
    body = region_def("single_block")
    traits = traits_def(Pure())

    def __init__(self, value: SSAValue, axis: int, body: Region):
        super().__init__(
            operands=[[value]],
            properties={"axis": IntegerAttr(axis, i32), "reverse": BoolAttr.from_bool(False)},
            result_types=[[value.type]],
            regions=[body],
        )


@irdl_op_definition
class ScanReturnOp(_BodyReturnOp):
    """End the body of a `tt.scan`."""

    name = "tt.scan.return"


@irdl_op_definition
class PreciseSqrtOp(TtOp):
    """The square root of f32, rounded once."""

    name = "tt.precise_sqrt"
    x = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def __init__(self, value: SSAValue):
        super().__init__(operands=[value], result_types=[value.type])


@irdl_op_definition
class PreciseDivOp(TtOp):
    """A quotient of f32, rounded once."""

    name = "tt.precise_divf"
    x = operand_def()
    y = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def __init__(self, a: SSAValue, b: SSAValue):
        super().__init__(operands=[a, b], result_types=[a.type])
