"""The upstream arith dialect, with comparisons, select and conversions for tiles and vectors too.

MLIR's own arith works elementwise on tensors and vectors; xDSL declares these ten operations for scalars alone. The
classes here have the same names and the same assembly as MLIR's. All other operations are xDSL's:
write `from vkernels.ir.dialect import arith` and use it as you would `xdsl.dialects.arith`.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
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
    AttrConstraint,
    IRDLOperation,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.irdl.constraints import InferenceContext, VerificationContext
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
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


def _holding(type_: Attribute, element: Attribute) -> Attribute:
    """A tensor, vector or scalar type with another element type."""
    if isinstance(type_, TensorType):
        return TensorType(element, type_.shape, type_.encoding)
    if isinstance(type_, VectorType):
        return VectorType(element, type_.shape, type_.scalable_dims)
    return element


def _element(type_: Attribute) -> Attribute:
    return type_.element_type if isinstance(type_, TensorType | VectorType) else type_


def _verify_same_shape(operand: Attribute, result: Attribute) -> None:
    if _holding(operand, i1) != _holding(result, i1):
        raise VerifyException(f"the operand is {operand}, the result {result}: their shapes differ")


@dataclass(frozen=True)
class _BooleansLike(AttrConstraint):
    """i1 with the shape of the type that a constraint variable holds."""

    variable: str

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        expected = self.infer(constraint_context)
        if attr != expected:
            raise VerifyException(f"the result is {attr}, expected {expected}")

    def can_infer(self, var_constraint_names: AbstractSet[str]) -> bool:
        return self.variable in var_constraint_names

    def infer(self, context: InferenceContext) -> Attribute:
        operand = context.get_variable(self.variable)
        assert operand is not None, "operands come before results"
        return _holding(operand, i1)

    def mapping_type_vars(self, type_var_mapping: object) -> _BooleansLike:
        return self


@irdl_custom_directive
class IntegerPredicate(CustomDirective):
    """`custom<IntegerPredicate>($predicate)` in an assembly format: the name of a predicate's number."""

    PREDICATES: ClassVar[list[str]] = list(CMPI_COMPARISON_OPERATIONS)
    attribute: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        name = parser.parse_identifier()
        if name not in self.PREDICATES:
            parser.raise_error(f"{name} is not a predicate; there are {', '.join(self.PREDICATES)}")
        self.attribute.set(state, IntegerAttr(self.PREDICATES.index(name), 64))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        assert isinstance(op, _ComparisonOp), "only comparisons have predicates"
        state.print_whitespace(printer)
        printer.print_string(op.relation)


@irdl_custom_directive
class FloatPredicate(IntegerPredicate):
    """`custom<FloatPredicate>($predicate)`: the same of floats."""

    PREDICATES: ClassVar[list[str]] = list(CMPF_COMPARISON_OPERATIONS)
    attribute: AttributeVariable


class _ComparisonOp(IRDLOperation):
    """A comparison of two values of one type; the result has their shape and holds i1."""

    PREDICATES: ClassVar[list[str]]

    predicate = prop_def(IntegerAttr)
    result = result_def(_BooleansLike("T"))

    traits = traits_def(Pure())

    def __init__(self, left: SSAValue | Operation, right: SSAValue | Operation, predicate: str):
        super().__init__(
            operands=[left, right],
            result_types=[_holding(SSAValue.get(left).type, i1)],
            properties={"predicate": IntegerAttr(self.PREDICATES.index(predicate), 64)},
        )

    @property
    def relation(self) -> str:
        """The predicate's name: `olt`, `sge`, …"""
        return self.PREDICATES[self.predicate.value.data]

    def verify_(self) -> None:
        if not 0 <= self.predicate.value.data < len(self.PREDICATES):
            raise VerifyException(f"predicate {self.predicate.value.data}, expected 0 to {len(self.PREDICATES) - 1}")


@irdl_op_definition
class CmpfOp(_ComparisonOp):
    """Compare floats: `oeq`, `ogt`, `oge`, `olt`, `ole`, `one`, `ord`; `u…` hold also where either is NaN; `uno`."""

    name = "arith.cmpf"
    PREDICATES: ClassVar[list[str]] = FloatPredicate.PREDICATES

    T: ClassVar = VarConstraint("T", _floats)
    lhs = operand_def(T)
    rhs = operand_def(T)
    fastmath = prop_def(FastMathFlagsAttr, default_value=FastMathFlagsAttr("none"))

    custom_directives = (FloatPredicate,)
    assembly_format = (
        "custom<FloatPredicate>($predicate) `,` $lhs `,` $rhs (`fastmath` $fastmath^)? attr-dict `:` type($lhs)"
    )


@irdl_op_definition
class CmpiOp(_ComparisonOp):
    """Compare integers: `eq`, `ne`; signed `slt`, `sle`, `sgt`, `sge`; unsigned `ult`, `ule`, `ugt`, `uge`."""

    name = "arith.cmpi"
    PREDICATES: ClassVar[list[str]] = IntegerPredicate.PREDICATES

    T: ClassVar = VarConstraint("T", _integers)
    lhs = operand_def(T)
    rhs = operand_def(T)

    custom_directives = (IntegerPredicate,)
    assembly_format = "custom<IntegerPredicate>($predicate) `,` $lhs `,` $rhs attr-dict `:` type($lhs)"


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
            _verify_same_shape(self.cond.type, self.result.type)

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

    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    traits = traits_def(Pure())

    def __init__(self, value: SSAValue | Operation, target: Attribute):
        super().__init__(operands=[value], result_types=[target])

    def verify_(self) -> None:
        _verify_same_shape(self.operands[0].type, self.results[0].type)


class _IntegerConversionOp(_ConversionOp):
    WIDENS: ClassVar[bool] = True
    """Whether the result must be wider, or narrower."""

    input = operand_def(_integers)
    result = result_def(_integers)

    def verify_(self) -> None:
        super().verify_()
        source, target = _element(self.operands[0].type), _element(self.results[0].type)
        if isinstance(source, IntegerType) and isinstance(target, IntegerType):
            change = target.width.data - source.width.data
            if change == 0 or (change > 0) != self.WIDENS:
                raise VerifyException(f"{self.name} does not convert {source} to {target}")


@irdl_op_definition
class ExtSIOp(_IntegerConversionOp):
    """Widen signed integers."""

    name = "arith.extsi"


@irdl_op_definition
class ExtUIOp(_IntegerConversionOp):
    """Widen unsigned integers and booleans."""

    name = "arith.extui"


@irdl_op_definition
class TruncIOp(_IntegerConversionOp):
    """Narrow integers, keeping the low bits."""

    name = "arith.trunci"
    WIDENS: ClassVar[bool] = False


class _ToFloatOp(_ConversionOp):
    input = operand_def(_integers)
    result = result_def(_floats)


@irdl_op_definition
class SIToFPOp(_ToFloatOp):
    """Signed integers as floats."""

    name = "arith.sitofp"


@irdl_op_definition
class UIToFPOp(_ToFloatOp):
    """Unsigned integers and booleans as floats."""

    name = "arith.uitofp"


class _ToIntegerOp(_ConversionOp):
    input = operand_def(_floats)
    result = result_def(_integers)


@irdl_op_definition
class FPToSIOp(_ToIntegerOp):
    """Floats as signed integers, rounded towards zero."""

    name = "arith.fptosi"


@irdl_op_definition
class FPToUIOp(_ToIntegerOp):
    """Floats as unsigned integers, rounded towards zero."""

    name = "arith.fptoui"


_OURS: dict[str, type[Operation]] = {
    op.name: op for op in (CmpfOp, CmpiOp, SelectOp, ExtSIOp, ExtUIOp, TruncIOp, SIToFPOp, UIToFPOp, FPToSIOp, FPToUIOp)
}

ARITH = Dialect("arith", [_OURS.get(op.name, op) for op in Arith.operations], list(Arith.attributes))
"""The arith dialect with these operations in place of xDSL's."""
