"""How reductions and scans combine elements, and what they begin from."""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat, IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialect import MaxOp, MinOp, ProductOp, ReductionOp, ScanOp, SumOp, arith, element_of
from .frames import Frame

REDUCTION_OF: dict[str, type[ReductionOp]] = {"sum": SumOp, "product": ProductOp, "max": MaxOp, "min": MinOp}
_KINDS = {kind: name for name, kind in REDUCTION_OF.items()}
_FLOATS: dict[str, type[Operation]] = {
    "sum": arith.AddfOp, "product": arith.MulfOp, "max": arith.MaximumfOp, "min": arith.MinimumfOp,
}  # fmt: skip
_INTEGERS: dict[str, type[Operation]] = {
    "sum": arith.AddiOp, "product": arith.MuliOp, "max": arith.MaxSIOp, "min": arith.MinSIOp,
}  # fmt: skip


def kind_of(op: Operation) -> str:
    """sum, product, max or min; a dot sums."""
    if isinstance(op, ScanOp):
        return op.kind.data
    return _KINDS.get(type(op), "sum")  # type: ignore[arg-type]


def neutral_of(op: Operation, element: Attribute) -> float:
    """What leaves other elements as they are under a reduction or scan."""
    kind = kind_of(op)
    if kind in ("sum", "product"):
        return 0 if kind == "sum" else 1
    if isinstance(element, AnyFloat):
        return float("-inf") if kind == "max" else float("inf")
    assert isinstance(element, IntegerType)
    half: int = 1 << (element.width.data - 1)
    return -half if kind == "max" else half - 1


def combine(frame: Frame, op: Operation, left: SSAValue, right: SSAValue) -> SSAValue:
    """Two tiles or scalars combined elementwise as a reduction or scan combines."""
    table = _FLOATS if isinstance(element_of(left), AnyFloat) else _INTEGERS
    made = table[kind_of(op)].create(operands=[left, right], result_types=[left.type], location=op.location)
    return frame.add(made)
