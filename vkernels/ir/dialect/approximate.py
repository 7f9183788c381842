"""The flag of functions that may be approximate: MLIR's `afn`."""

from __future__ import annotations

from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Operation

APPROXIMATE = FastMathFlagsAttr([FastMathFlag.APPROX_FUNC])
"""`fastmath<afn>`."""


def is_approximate(op: Operation) -> bool:
    """Whether an operation may be computed by an approximation of the device."""
    flags = op.properties.get("fastmath")
    return isinstance(flags, FastMathFlagsAttr) and FastMathFlag.APPROX_FUNC in flags.data
