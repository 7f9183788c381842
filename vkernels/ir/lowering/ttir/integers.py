"""Integer division, remainder, shifts and bit counts, defined for every operand.

As on the CPU: x / 0 and x % 0 are 0, the least integer divided by -1 is itself, a shift by the width or more gives
0 or the sign.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from xdsl.dialects.builtin import IntegerType, i1
from xdsl.ir import Operation, SSAValue

from vkernels.ir.dialect import arith, tt

from .builder import TtirBuilder
from .host import ARITHMETIC

_EXACT: dict[str, type[Operation]] = {
    "divsi": arith.DivSIOp, "divui": arith.DivUIOp, "remsi": arith.RemSIOp, "remui": arith.RemUIOp,
}  # fmt: skip
"""Divisions that Triton rounds as arith does."""


def _width(value: SSAValue) -> int:
    element = tt.element(value.type)
    assert isinstance(element, IntegerType), "integers only"
    width: int = element.width.data
    return width


def _divide(kind: str, build: TtirBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
    """Division and remainder, rounded toward 0, down or up. A known positive divisor needs no guard."""
    x, divisor = build.known(a), build.known(b)
    if isinstance(x, int) and isinstance(divisor, int) and f"arith.{kind}" in ARITHMETIC:
        return build.filled(ARITHMETIC[f"arith.{kind}"](x, divisor), a.type)
    if isinstance(divisor, int) and divisor > 0:
        return _rounded(build, kind, a, b)
    zero = unsafe = build.compare("eq", b, 0)
    if kind.endswith("si") and tt.element(a.type) != i1:
        least = build.compare("eq", a, -(1 << _width(a) - 1))
        overflow = build.binary(arith.AndIOp, build.compare("eq", b, -1), least)
        unsafe = build.binary(arith.OrIOp, zero, overflow)
    result = _rounded(build, kind, a, build.select(unsafe, 1, b))
    return build.select(zero, 0, result)


def _rounded(build: TtirBuilder, kind: str, a: SSAValue, b: SSAValue) -> SSAValue:
    """Division by a number other than 0, without overflow."""
    if kind in _EXACT:
        return build.binary(_EXACT[kind], a, b)
    signed = kind.endswith("si")
    quotient = build.binary(_EXACT["divsi" if signed else "divui"], a, b)
    rest = build.binary(arith.SubiOp, a, build.binary(arith.MuliOp, quotient, b))
    inexact = build.compare("ne", rest, 0)
    if signed:
        relation = "slt" if kind == "floordivsi" else "sge"
        signs = build.compare(relation, build.binary(arith.XOrIOp, rest, b), 0)
        inexact = build.binary(arith.AndIOp, inexact, signs)
    stepped = build.binary(arith.AddiOp, quotient, -1 if kind == "floordivsi" else 1)
    return build.select(inexact, stepped, quotient)


def _shift(op: type[Operation], build: TtirBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
    """A shift; an amount that is not below the width shifts everything out."""
    bits = _width(a)
    shifted = build.binary(op, a, build.binary(arith.MinUIOp, b, bits - 1))
    if op is arith.ShRSIOp:
        return shifted
    return build.select(build.compare("ult", b, bits), shifted, build.filled(0, a.type))


def _leading_zeros(build: TtirBuilder, value: SSAValue) -> SSAValue:
    """The zeros above the highest set bit: the complement, once every bit below that one is set too."""
    distance = 1
    while distance < _width(value):
        value = build.binary(arith.OrIOp, value, build.binary(arith.ShRUIOp, value, distance))
        distance *= 2
    return _ones(build, build.binary(arith.XOrIOp, value, -1))


def _trailing_zeros(build: TtirBuilder, value: SSAValue) -> SSAValue:
    """The zeros below the lowest set bit: the bits that `value - 1` has and `value` lacks."""
    below = build.binary(arith.AddiOp, value, -1)
    return _ones(build, build.binary(arith.AndIOp, below, build.binary(arith.XOrIOp, value, -1)))


def _ones(build: TtirBuilder, value: SSAValue) -> SSAValue:
    """The number of set bits: sums of neighbouring fields, which become wider step by step."""
    width, distance = _width(value), 1
    while distance < width:
        mask = sum(((1 << distance) - 1) << start for start in range(0, width, 2 * distance))
        low = build.binary(arith.AndIOp, value, mask)
        high = build.binary(arith.AndIOp, build.binary(arith.ShRUIOp, value, distance), mask)
        value = build.binary(arith.AddiOp, low, high)
        distance *= 2
    return value


INTEGER_FUNCTIONS: dict[str, Callable[..., SSAValue]] = {
    **{f"arith.{kind}": partial(_divide, kind) for kind in (*_EXACT, "floordivsi", "ceildivsi", "ceildivui")},
    **{op.name: partial(_shift, op) for op in (arith.ShLIOp, arith.ShRSIOp, arith.ShRUIOp)},
    "math.ctpop": _ones,
    "math.ctlz": _leading_zeros,
    "math.cttz": _trailing_zeros,
}
