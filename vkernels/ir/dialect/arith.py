"""Upstream's arith dialect, its comparisons, select and conversions declared for tiles and vectors too.

MLIR's own arith works elementwise on tensors and vectors throughout; xDSL declares these ten operations for
scalars alone. Those here have the same names and the same assembly as MLIR's. Everything else is xDSL's:
write `from vkernels.ir.dialect import arith` and use it as you would `xdsl.dialects.arith`.
"""

from __future__ import annotations

from typing import ClassVar, Self

from xdsl.dialects.arith import (
    CMPF_COMPARISON_OPERATIONS,
    CMPI_COMPARISON_OPERATIONS,
    AddfOp,
    AddiOp,
    AddUIExtendedOp,
    AndIOp,
    Arith,
    BitcastOp,
    CeilDivSIOp,
    CeilDivUIOp,
    ConstantOp,
    DivfOp,
    DivSIOp,
    DivUIOp,
    ExtFOp,
    FastMathFlagsAttr,
    FloorDivSIOp,
    IndexCastOp,
    IntegerOverflowAttr,
    MaximumfOp,
    MaxnumfOp,
    MaxSIOp,
    MaxUIOp,
    MinimumfOp,
    MinnumfOp,
    MinSIOp,
    MinUIOp,
    MulfOp,
    MuliOp,
    MulSIExtendedOp,
    MulUIExtendedOp,
    NegfOp,
    OrIOp,
    RemSIOp,
    RemUIOp,
    ShLIOp,
    ShRSIOp,
    ShRUIOp,
    SubfOp,
    SubiOp,
    TruncFOp,
    XOrIOp,
)
from xdsl.dialects.builtin import (
    AnyFloat,
    IntegerAttr,
    IntegerType,
    TensorType,
    VectorType,
    container_of,
    i1,
)
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

__all__ = [
    "ARITH", "AddUIExtendedOp", "AddfOp", "AddiOp", "AndIOp", "BitcastOp", "CeilDivSIOp", "CeilDivUIOp", "CmpfOp",
    "CmpiOp", "ConstantOp", "DivSIOp", "DivUIOp", "DivfOp", "ExtFOp", "ExtSIOp", "ExtUIOp", "FPToSIOp", "FPToUIOp",
    "FastMathFlagsAttr", "FloorDivSIOp", "IndexCastOp", "IntegerOverflowAttr", "MaxSIOp", "MaxUIOp", "MaximumfOp",
    "MaxnumfOp", "MinSIOp", "MinUIOp", "MinimumfOp", "MinnumfOp", "MulSIExtendedOp", "MulUIExtendedOp", "MulfOp",
    "MuliOp", "NegfOp", "OrIOp", "RemSIOp", "RemUIOp", "SIToFPOp", "SelectOp", "ShLIOp", "ShRSIOp", "ShRUIOp",
    "SubfOp", "SubiOp", "TruncFOp", "TruncIOp", "UIToFPOp", "XOrIOp",
]  # fmt: skip

_integers = container_of(base(IntegerType))
_floats = container_of(AnyFloat)
_booleans = container_of(i1)
_NO_FLAGS = FastMathFlagsAttr("none")


def _holding(type_: Attribute, element: Attribute) -> Attribute:
    """A tensor, vector or scalar type with another element type."""
    if isinstance(type_, TensorType):
        return TensorType(element, type_.shape, type_.encoding)
    if isinstance(type_, VectorType):
        return VectorType(element, type_.shape, type_.scalable_dims)
    return element


def _element(type_: Attribute) -> Attribute:
    return type_.element_type if isinstance(type_, TensorType | VectorType) else type_


def _verify_same_shape(operand: SSAValue, result: SSAValue) -> None:
    if _holding(operand.type, i1) != _holding(result.type, i1):
        raise VerifyException(f"the operand is {operand.type}, the result {result.type}: their shapes differ")


class _ComparisonOp(IRDLOperation):
    """A comparison of two values of one type; the result has their shape and holds i1."""

    PREDICATES: ClassVar[list[str]]

    predicate = prop_def(IntegerAttr)
    result = result_def(_booleans)

    traits = traits_def(Pure())

    @property
    def relation(self) -> str:
        """The predicate's name: `olt`, `sge`, …"""
        return self.PREDICATES[self.predicate.value.data]

    def verify_(self) -> None:
        if not 0 <= self.predicate.value.data < len(self.PREDICATES):
            raise VerifyException(f"predicate {self.predicate.value.data}, expected 0 to {len(self.PREDICATES) - 1}")
        if self.operands[0].type != self.operands[1].type:
            raise VerifyException(f"compared are {self.operands[0].type} and {self.operands[1].type}")
        _verify_same_shape(self.operands[0], self.result)

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.relation}, ")
        printer.print_list(self.operands, printer.print_ssa_value)
        self._print_flags(printer)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.operands[0].type)

    def _print_flags(self, printer: Printer) -> None:
        """Print what stands between the operands and the type."""

    @classmethod
    def _parse_flags(cls, parser: Parser) -> dict[str, Attribute]:
        return {}

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        relation = parser.parse_identifier("predicate")
        if relation not in cls.PREDICATES:
            parser.raise_error(f"{cls.name} has no predicate {relation}")
        parser.parse_punctuation(",")
        operands = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        flags = cls._parse_flags(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type_ = parser.parse_type()
        return cls.create(
            operands=parser.resolve_operands(operands, [type_, type_], parser.pos),
            result_types=[_holding(type_, i1)],
            properties={"predicate": IntegerAttr(cls.PREDICATES.index(relation), 64), **flags},
            attributes=attributes,
        )


@irdl_op_definition
class CmpfOp(_ComparisonOp):
    """Compare floats: `oeq`, `ogt`, `oge`, `olt`, `ole`, `one`, `ord`; `u…` hold also where either is NaN; `uno`."""

    name = "arith.cmpf"
    PREDICATES: ClassVar[list[str]] = list(CMPF_COMPARISON_OPERATIONS)

    lhs = operand_def(_floats)
    rhs = operand_def(_floats)
    fastmath = prop_def(FastMathFlagsAttr, default_value=_NO_FLAGS)

    def __init__(
        self,
        left: SSAValue | Operation,
        right: SSAValue | Operation,
        predicate: int | str,
        fastmath: FastMathFlagsAttr = _NO_FLAGS,
    ):
        left, right = SSAValue.get(left), SSAValue.get(right)
        number = self.PREDICATES.index(predicate) if isinstance(predicate, str) else predicate
        super().__init__(
            operands=[left, right],
            result_types=[_holding(left.type, i1)],
            properties={"predicate": IntegerAttr(number, 64), "fastmath": fastmath},
        )

    def _print_flags(self, printer: Printer) -> None:
        if self.fastmath != _NO_FLAGS:
            printer.print_string(" fastmath")
            self.fastmath.print_parameter(printer)

    @classmethod
    def _parse_flags(cls, parser: Parser) -> dict[str, Attribute]:
        if parser.parse_optional_keyword("fastmath") is None:
            return {"fastmath": _NO_FLAGS}
        return {"fastmath": FastMathFlagsAttr(FastMathFlagsAttr.parse_parameter(parser))}


@irdl_op_definition
class CmpiOp(_ComparisonOp):
    """Compare integers: `eq`, `ne`; signed `slt`, `sle`, `sgt`, `sge`; unsigned `ult`, `ule`, `ugt`, `uge`."""

    name = "arith.cmpi"
    PREDICATES: ClassVar[list[str]] = list(CMPI_COMPARISON_OPERATIONS)

    lhs = operand_def(_integers)
    rhs = operand_def(_integers)

    def __init__(self, left: SSAValue | Operation, right: SSAValue | Operation, predicate: int | str):
        left, right = SSAValue.get(left), SSAValue.get(right)
        number = self.PREDICATES.index(predicate) if isinstance(predicate, str) else predicate
        super().__init__(
            operands=[left, right],
            result_types=[_holding(left.type, i1)],
            properties={"predicate": IntegerAttr(number, 64)},
        )


@irdl_op_definition
class SelectOp(IRDLOperation):
    """Choose between two values of one type: by a scalar i1, or element by element with i1 of the same shape."""

    name = "arith.select"

    T: ClassVar = VarConstraint("T", AnyAttr())
    cond = operand_def(_booleans)
    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(T)

    traits = traits_def(Pure())

    def __init__(self, condition: SSAValue | Operation, left: SSAValue | Operation, right: SSAValue | Operation):
        super().__init__(operands=[condition, left, right], result_types=[SSAValue.get(left).type])

    def verify_(self) -> None:
        if self.cond.type != i1:
            _verify_same_shape(self.cond, self.result)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        if self.cond.type != i1:
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
        op = cls(*parser.resolve_operands(operands, [condition, result, result], parser.pos))
        op.attributes = attributes
        return op


class _ConversionOp(IRDLOperation):
    """A conversion of every element; `target` of the constructor is the result's type, shape included."""

    WIDENS: ClassVar[bool | None] = None
    """Between integers: whether the result must be wider (True) or narrower (False)."""

    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    traits = traits_def(Pure())

    def __init__(self, value: SSAValue | Operation, target: Attribute):
        super().__init__(operands=[value], result_types=[target])

    def verify_(self) -> None:
        operand, result = self.operands[0], self.results[0]
        _verify_same_shape(operand, result)
        source, target = _element(operand.type), _element(result.type)
        if self.WIDENS is not None and isinstance(source, IntegerType) and isinstance(target, IntegerType):
            change = target.width.data - source.width.data
            if change == 0 or (change > 0) != self.WIDENS:
                raise VerifyException(f"{self.name} does not convert {source} to {target}")


@irdl_op_definition
class ExtSIOp(_ConversionOp):
    """Widen signed integers."""

    name = "arith.extsi"
    WIDENS: ClassVar[bool | None] = True
    input = operand_def(_integers)
    result = result_def(_integers)


@irdl_op_definition
class ExtUIOp(_ConversionOp):
    """Widen unsigned integers and booleans."""

    name = "arith.extui"
    WIDENS: ClassVar[bool | None] = True
    input = operand_def(_integers)
    result = result_def(_integers)


@irdl_op_definition
class TruncIOp(_ConversionOp):
    """Narrow integers, keeping the low bits."""

    name = "arith.trunci"
    WIDENS: ClassVar[bool | None] = False
    input = operand_def(_integers)
    result = result_def(_integers)


@irdl_op_definition
class SIToFPOp(_ConversionOp):
    """Signed integers as floats."""

    name = "arith.sitofp"
    input = operand_def(_integers)
    result = result_def(_floats)


@irdl_op_definition
class UIToFPOp(_ConversionOp):
    """Unsigned integers and booleans as floats."""

    name = "arith.uitofp"
    input = operand_def(_integers)
    result = result_def(_floats)


@irdl_op_definition
class FPToSIOp(_ConversionOp):
    """Floats as signed integers, rounded towards zero."""

    name = "arith.fptosi"
    input = operand_def(_floats)
    result = result_def(_integers)


@irdl_op_definition
class FPToUIOp(_ConversionOp):
    """Floats as unsigned integers, rounded towards zero."""

    name = "arith.fptoui"
    input = operand_def(_floats)
    result = result_def(_integers)


_OURS: dict[str, type[Operation]] = {
    op.name: op for op in (CmpfOp, CmpiOp, SelectOp, ExtSIOp, ExtUIOp, TruncIOp, SIToFPOp, UIToFPOp, FPToSIOp, FPToUIOp)
}

ARITH = Dialect("arith", [_OURS.get(op.name, op) for op in Arith.operations], list(Arith.attributes))
"""The arith dialect with these operations in place of xDSL's."""
