"""Integer division, remainder, shifts and bit counts, defined for every operand.

As on the CPU: x / 0 and x % 0 are 0, the least integer divided by -1 is itself, a shift by the width or more gives
0 or the sign.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType, i1
from xdsl.ir import Operation, SSAValue

from vkernels.ir.dialect import arith, tt

from .builder import TtirBuilder
from .host import ARITHMETIC
from .state import TtirState

TTIR_DIVISIONS = (
    "arith.divsi", "arith.divui", "arith.remsi", "arith.remui", "arith.floordivsi", "arith.ceildivsi",
    "arith.ceildivui",
)  # fmt: skip
TTIR_SHIFTS = ("arith.shli", "arith.shrsi", "arith.shrui")
BIT_COUNTS = ("math.ctpop", "math.ctlz", "math.cttz")

_REMAINDERS: dict[str, type[Operation]] = {"remsi": arith.RemSIOp, "remui": arith.RemUIOp}


def lower_division(state: TtirState, operation: Operation) -> None:
    """Division and remainder, rounded toward 0, down or up."""
    build = state.build
    a, b = (state.value(operand) for operand in operation.operands)
    known = [build.known(value) for value in (a, b)]
    if all(isinstance(value, int) for value in known) and operation.name in ARITHMETIC:
        number = ARITHMETIC[operation.name](*[value for value in known if isinstance(value, int)])
        state.define(operation.results[0], build.filled(number, a.type))
    else:
        kind = operation.name.removeprefix("arith.")
        state.define(operation.results[0], _division(build, kind, a, b))


def _division(build: TtirBuilder, kind: str, a: SSAValue, b: SSAValue) -> SSAValue:
    """A divisor that is known and harmless needs no guard."""
    divisor = build.known(b)
    if isinstance(divisor, int) and divisor > 0:
        return _rounded(build, kind, a, b)
    element, zero = tt.element(a.type), build.compare("eq", b, 0)
    assert isinstance(element, IntegerType), "integers only"
    unsafe = zero
    if kind.endswith("si") and element != i1:
        least = build.compare("eq", a, -(1 << element.width.data - 1))
        overflow = build.binary(arith.AndIOp, build.compare("eq", b, -1), least)
        unsafe = build.binary(arith.OrIOp, zero, overflow)
    result = _rounded(build, kind, a, build.select(unsafe, 1, b))
    return build.select(zero, 0, result)


def _rounded(build: TtirBuilder, kind: str, a: SSAValue, b: SSAValue) -> SSAValue:
    """Division by what is neither 0 nor overflows."""
    signed = kind.endswith("si")
    if kind in _REMAINDERS:
        return build.binary(_REMAINDERS[kind], a, b)
    quotient = build.binary(arith.DivSIOp if signed else arith.DivUIOp, a, b)
    if kind in ("divsi", "divui"):
        return quotient
    rest = build.binary(arith.SubiOp, a, build.binary(arith.MuliOp, quotient, b))
    inexact = build.compare("ne", rest, 0)
    if signed:
        relation = "slt" if kind == "floordivsi" else "sge"
        signs = build.compare(relation, build.binary(arith.XOrIOp, rest, b), 0)
        inexact = build.binary(arith.AndIOp, inexact, signs)
    stepped = build.binary(arith.AddiOp, quotient, -1 if kind == "floordivsi" else 1)
    return build.select(inexact, stepped, quotient)


def lower_shift(state: TtirState, operation: Operation) -> None:
    """Shifts; an amount that is not below the width shifts everything out."""
    build = state.build
    a, b = (state.value(operand) for operand in operation.operands)
    element = tt.element(a.type)
    assert isinstance(element, IntegerType), "integers only"
    bits = element.width.data
    amount = build.binary(arith.MinUIOp, b, bits - 1)
    shifted = build.binary(type(operation), a, amount)
    if operation.name != "arith.shrsi":
        shifted = build.select(build.compare("ult", b, bits), shifted, build.filled(0, a.type))
    state.define(operation.results[0], shifted)


def lower_bit_count(state: TtirState, operation: Operation) -> None:
    """Bits that are set, or zeros before the first or after the last of them: the width where there is none."""
    build = state.build
    value = state.value(operation.operands[0])
    if operation.name == "math.ctlz":
        value = build.binary(arith.XOrIOp, _filled_below(build, value), -1)
    elif operation.name == "math.cttz":
        below = build.binary(arith.AddiOp, value, -1)
        value = build.binary(arith.AndIOp, below, build.binary(arith.XOrIOp, value, -1))
    state.define(operation.results[0], _ones(build, value))


def _filled_below(build: TtirBuilder, value: SSAValue) -> SSAValue:
    """Every bit set that stands at or below the highest set bit."""
    element = tt.element(value.type)
    assert isinstance(element, IntegerType), "integers only"
    distance = 1
    while distance < element.width.data:
        value = build.binary(arith.OrIOp, value, build.binary(arith.ShRUIOp, value, distance))
        distance *= 2
    return value


def _ones(build: TtirBuilder, value: SSAValue) -> SSAValue:
    """The number of set bits: those of neighbouring fields added, fields ever wider."""
    element = tt.element(value.type)
    assert isinstance(element, IntegerType), "integers only"
    width, distance = element.width.data, 1
    while distance < width:
        mask = sum(((1 << distance) - 1) << start for start in range(0, width, 2 * distance))
        low = build.binary(arith.AndIOp, value, mask)
        high = build.binary(arith.AndIOp, build.binary(arith.ShRUIOp, value, distance), mask)
        value = build.binary(arith.AddiOp, low, high)
        distance *= 2
    return value
