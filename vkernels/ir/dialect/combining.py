"""How reductions and scans combine two elements, and constants to start from."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    VectorType,
)
from xdsl.ir import Attribute, Operation

from . import arith
from .compute import MaxOp, MaxUIOp, MinOp, MinUIOp, ProductOp, ReductionOp, ScanOp, SumOp

REDUCTION_OF: dict[str, type[ReductionOp]] = {
    "sum": SumOp, "product": ProductOp, "max": MaxOp, "min": MinOp, "maxui": MaxUIOp, "minui": MinUIOp,
}  # fmt: skip
_KINDS = {op: kind for kind, op in REDUCTION_OF.items()}
_FLOATS: dict[str, type[Operation]] = {
    "sum": arith.AddfOp, "product": arith.MulfOp, "max": arith.MaximumfOp, "min": arith.MinimumfOp,
    "maxnum": arith.MaxnumfOp,
}  # fmt: skip
_INTEGERS: dict[str, type[Operation]] = {
    "sum": arith.AddiOp, "product": arith.MuliOp, "max": arith.MaxSIOp, "min": arith.MinSIOp,
    "maxui": arith.MaxUIOp, "minui": arith.MinUIOp,
}  # fmt: skip


def kind_of(op: Operation) -> str:
    """sum, product, max or min, of unsigned integers maxui or minui; a dot sums."""
    if isinstance(op, ScanOp):
        return op.kind.data
    return _KINDS.get(type(op), "sum")  # type: ignore[arg-type]


def combining(kind: str, element: Attribute) -> type[Operation]:
    """The elementwise operation that combines two elements of a type."""
    return (_FLOATS if isinstance(element, AnyFloat) else _INTEGERS)[kind]


def neutral_of(op: Operation, element: Attribute) -> float:
    """The neutral element of a reduction or scan."""
    return neutral(kind_of(op), element)


def neutral(kind: str, element: Attribute) -> float:
    """The neutral element of combining like a reduction of this kind."""
    found = {"sum": 0, "product": 1, "maxui": 0, "minui": -1, "max": float("-inf"), "min": float("inf")}[kind]
    if not isinstance(element, IntegerType) or isinstance(found, int):
        return found
    half: int = 1 << (element.width.data - 1)
    return -half if kind == "max" else half - 1


def constant(type_: Attribute, value: float) -> arith.ConstantOp:
    """A scalar, or a tile or vector of one number."""
    attribute: Attribute
    if isinstance(type_, TensorType | VectorType):
        attribute = DenseIntOrFPElementsAttr.from_list(type_, [value])
    elif isinstance(type_, IntegerType):
        attribute = IntegerAttr(int(value), type_)
    else:
        attribute = FloatAttr(value, cast(AnyFloat, type_))
    return arith.ConstantOp.create(properties={"value": attribute}, result_types=[type_])
