"""The upstream arith operations that xDSL declares for scalars alone, declared for tiles too.

MLIR's own arith compares, selects and converts tensors; xDSL 0.74 verifies only scalars there. These are the same
operations (same names, same printed form) and subclasses of xDSL's, so `isinstance(op, arith.SelectOp)` holds.
Import them from here wherever one is built; `context()` knows them instead of xDSL's.
"""

from __future__ import annotations

from typing import ClassVar, Self

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IntegerAttr, IntegerType, TensorType, container_of, i1
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import AnyAttr, IRDLOperation, VarConstraint, base, irdl_op_definition, operand_def, result_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from .attributes import axes_of, element_of, sizes_of, tile_type

_integers = container_of(base(IntegerType))
_floats = container_of(AnyFloat)
_booleans = container_of(i1)


def _with_elements(value: SSAValue, element: Attribute) -> Attribute:
    """The type of a tile or scalar, holding other elements."""
    return tile_type(element, axes_of(value), sizes_of(value).values())


def _verify_axes(operand: SSAValue, result: SSAValue) -> None:
    if axes_of(operand) != axes_of(result) or sizes_of(operand) != sizes_of(result):
        raise VerifyException(f"the operand is {operand.type}, the result {result.type}: their axes differ")


@irdl_op_definition
class CmpfOp(arith.CmpfOp):
    """Compare floats; the result is a tile of i1 with the operands' axes."""

    name = "arith.cmpf"
    result = result_def(_booleans)

    def __init__(
        self,
        left: SSAValue | Operation,
        right: SSAValue | Operation,
        predicate: int | str,
        fastmath: arith.FastMathFlagsAttr | None = None,
    ):
        left, right = SSAValue.get(left), SSAValue.get(right)
        self._validate_operand_types(left, right)
        number = arith.CMPF_COMPARISON_OPERATIONS.index(predicate) if isinstance(predicate, str) else predicate
        IRDLOperation.__init__(
            self,
            operands=[left, right],
            result_types=[_with_elements(left, i1)],
            properties={"predicate": IntegerAttr(number, 64), "fastmath": fastmath or arith.FastMathFlagsAttr("none")},
        )

    def verify_(self) -> None:
        _verify_axes(self.lhs, self.result)


@irdl_op_definition
class CmpiOp(arith.CmpiOp):
    """Compare integers; the result is a tile of i1 with the operands' axes."""

    name = "arith.cmpi"
    result = result_def(_booleans)

    def __init__(self, left: SSAValue | Operation, right: SSAValue | Operation, predicate: int | str):
        left, right = SSAValue.get(left), SSAValue.get(right)
        self._validate_operand_types(left, right)
        number = arith.CMPI_COMPARISON_OPERATIONS.index(predicate) if isinstance(predicate, str) else predicate
        IRDLOperation.__init__(
            self,
            operands=[left, right],
            result_types=[_with_elements(left, i1)],
            properties={"predicate": IntegerAttr(number, 64)},
        )

    def verify_(self) -> None:
        _verify_axes(self.lhs, self.result)


@irdl_op_definition
class SelectOp(arith.SelectOp):
    """Choose between two values of one type: by a scalar, or element by element with a tile of i1 of the same axes."""

    name = "arith.select"

    T: ClassVar = VarConstraint("T", AnyAttr())
    cond = operand_def(_booleans)
    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(T)
    assembly_format = None

    def verify_(self) -> None:
        if isinstance(self.cond.type, TensorType):
            _verify_axes(self.cond, self.result)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        if isinstance(self.cond.type, TensorType):
            printer.print_attribute(self.cond.type)
            printer.print_string(", ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operands = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        condition: Attribute = i1
        result = parser.parse_type()
        if parser.parse_optional_punctuation(",") is not None:
            condition, result = result, parser.parse_type()
        resolved = parser.resolve_operands(operands, [condition, result, result], parser.pos)
        op = cls(*resolved)
        op.attributes = attributes
        return op


class _ConversionOp(IRDLOperation):
    """A conversion element by element."""

    def verify_(self) -> None:
        operand, result = self.operands[0], self.results[0]
        _verify_axes(operand, result)
        source, target = element_of(operand), element_of(result)
        if isinstance(source, IntegerType) and isinstance(target, IntegerType):
            wider = target.width.data > source.width.data
            if wider == isinstance(self, arith.TruncIOp) or target == source:
                raise VerifyException(f"{self.name} does not convert {source} to {target}")


@irdl_op_definition
class ExtSIOp(_ConversionOp, arith.ExtSIOp):
    """Widen signed integers."""

    name = "arith.extsi"
    input = operand_def(_integers)
    result = result_def(_integers)


@irdl_op_definition
class ExtUIOp(_ConversionOp, arith.ExtUIOp):
    """Widen unsigned integers and booleans."""

    name = "arith.extui"
    input = operand_def(_integers)
    result = result_def(_integers)


@irdl_op_definition
class TruncIOp(_ConversionOp, arith.TruncIOp):
    """Narrow integers, keeping the low bits."""

    name = "arith.trunci"
    input = operand_def(_integers)
    result = result_def(_integers)


@irdl_op_definition
class SIToFPOp(_ConversionOp, arith.SIToFPOp):
    """Signed integers as floats."""

    name = "arith.sitofp"
    input = operand_def(_integers)
    result = result_def(_floats)


@irdl_op_definition
class UIToFPOp(_ConversionOp, arith.UIToFPOp):
    """Unsigned integers and booleans as floats."""

    name = "arith.uitofp"
    input = operand_def(_integers)
    result = result_def(_floats)


@irdl_op_definition
class FPToSIOp(_ConversionOp, arith.FPToSIOp):
    """Floats as signed integers, rounded towards zero."""

    name = "arith.fptosi"
    input = operand_def(_floats)
    result = result_def(_integers)


@irdl_op_definition
class FPToUIOp(_ConversionOp, arith.FPToUIOp):
    """Floats as unsigned integers, rounded towards zero."""

    name = "arith.fptoui"
    input = operand_def(_floats)
    result = result_def(_integers)


_OURS: dict[str, type[Operation]] = {
    op.name: op
    for op in (CmpfOp, CmpiOp, SelectOp, ExtSIOp, ExtUIOp, TruncIOp, SIToFPOp, UIToFPOp, FPToSIOp, FPToUIOp)
}

ARITH = Dialect("arith", [_OURS.get(op.name, op) for op in arith.Arith.operations], list(arith.Arith.attributes))
"""The arith dialect with these operations in place of xDSL's."""
