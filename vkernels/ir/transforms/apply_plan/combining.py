"""What reductions and scans begin from, and one more step of theirs."""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat, IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialect import element_of
from ...dialect.combining import combining, kind_of
from .frames import LoopFrame


def neutral_of(op: Operation, element: Attribute) -> float:
    """What leaves other elements as they are under a reduction or scan."""
    kind = kind_of(op)
    if kind in ("sum", "product"):
        return 0 if kind == "sum" else 1
    if isinstance(element, AnyFloat):
        return float("-inf") if kind == "max" else float("inf")
    assert isinstance(element, IntegerType)
    if kind in ("maxui", "minui"):
        return 0 if kind == "maxui" else -1
    half: int = 1 << (element.width.data - 1)
    return -half if kind == "max" else half - 1


def combine(frame: LoopFrame, op: Operation, left: SSAValue, right: SSAValue) -> SSAValue:
    """Two tiles or scalars combined elementwise as a reduction or scan combines."""
    made = combining(kind_of(op), element_of(left))
    return frame.add(made.create(operands=[left, right], result_types=[left.type], location=op.location))
