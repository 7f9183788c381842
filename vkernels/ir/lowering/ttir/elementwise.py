"""Elementwise arith, math and conversions.

Integer operations are defined for every operand, as on the CPU: x / 0 and x % 0 are 0, the least integer divided by -1
is itself, a shift by the width or more gives 0 or the sign.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from xdsl.dialects import math
from xdsl.dialects.builtin import AnyFloat, BFloat16Type, IntegerType, UnitAttr, f32, f64, i1, i32
from xdsl.ir import Attribute, Operation, SSAValue

from vkernels.ir.dialect import arith, element_of, tt
from vkernels.ir.dialect.approximate import is_approximate

from ..common import Handler, is_half, is_quarter
from .builder import EXACT, TtirBuilder
from .fuse_multiply_add import ROUNDED
from .lowered import ARITHMETIC
from .state import TtirState
from .tiles import lowered_type, register_element


def _lower_cast(state: TtirState, operation: Operation) -> None:
    value, result = state.value(operation.operands[0]), register_element(element_of(operation.results[0]), operation)
    convert = _CONVERSIONS.get(type(operation))
    lowered = convert(state.build, value, result) if convert else state.build.unary(type(operation), value, result)
    state.define(operation.results[0], lowered)


def _extend(build: TtirBuilder, value: SSAValue, result: Attribute) -> SSAValue:
    """`arith.extf`; f16 and bf16 go to f64 through f32, since Triton has no direct way for AMD, and f8 likewise."""
    if is_quarter(tt.element(value.type)):
        value = _other_format(build, value, f32)
        if result == f32:
            return value
    if is_half(tt.element(value.type)) and result == f64:
        value = build.unary(arith.ExtFOp, value, f32)
    return build.unary(arith.ExtFOp, value, result)


def _truncate(build: TtirBuilder, value: SSAValue, result: Attribute) -> SSAValue:
    """`arith.truncf`: to nearest, ties to even; f64 goes to bf16 and f8 through an f32 rounded to odd."""
    if tt.element(value.type) == f64 and (isinstance(result, BFloat16Type) or is_quarter(result)):
        value = _rounded_to_odd(build, value)
    return _other_format(build, value, result) if is_quarter(result) else build.unary(arith.TruncFOp, value, result)


def _other_format(build: TtirBuilder, value: SSAValue, element: Attribute) -> SSAValue:
    """f8 as f32, or f32 as f8, which arith does not convert in Triton."""
    return build.pure(tt.FpToFpOp(value, tt.tensor(element, tt.shape(value.type)), is_quarter(element)))


def _rounded_to_odd(build: TtirBuilder, value: SSAValue) -> SSAValue:
    """f64 as f32, cut toward 0, the last bit set where anything was cut off."""
    nearest = build.unary(arith.TruncFOp, value, f32)
    back = build.unary(arith.ExtFOp, nearest, f64)
    larger = build.compare("ogt", build.unary(math.AbsFOp, back), build.unary(math.AbsFOp, value))
    bits = build.bitcast(nearest, i32)
    cut = build.binary(arith.SubiOp, bits, build.unary(arith.ExtUIOp, larger, i32))
    odd = build.select(build.compare("one", back, value), build.binary(arith.OrIOp, cut, 1), bits)
    return build.bitcast(odd, f32)


def _saturate(build: TtirBuilder, value: SSAValue, element: Attribute, op: type[Operation]) -> SSAValue:
    """Floats toward 0 as integers; a number that does not fit becomes the nearest integer that does, NaN 0."""
    assert isinstance(element, IntegerType), "verified"
    width = element.width.data
    least, above = (-(1 << width - 1), 1 << width - 1) if op is arith.FPToSIOp else (0, 1 << width)
    low, high = build.compare("olt", value, float(least)), build.compare("oge", value, float(above))
    fits = build.binary(
        arith.AndIOp, build.compare("oge", value, float(least)), build.compare("olt", value, float(above))
    )
    inside = build.select(fits, value, build.filled(0.0, value.type))
    number = build.select(low, least, build.unary(op, inside, element))
    return build.select(high, above - 1, number)


_CONVERSIONS: dict[type[Operation], Callable[[TtirBuilder, SSAValue, Attribute], SSAValue]] = {
    arith.ExtFOp: _extend,
    arith.TruncFOp: _truncate,
    arith.FPToSIOp: lambda build, value, result: _saturate(build, value, result, arith.FPToSIOp),
    arith.FPToUIOp: lambda build, value, result: _saturate(build, value, result, arith.FPToUIOp),
    arith.IndexCastOp: TtirBuilder.cast,
    arith.BitcastOp: TtirBuilder.bitcast,
}
_PLAIN: tuple[type[Operation], ...] = (arith.SIToFPOp, arith.UIToFPOp, arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp)

TTIR_CASTS: dict[str, Handler] = {op.name: _lower_cast for op in (*_CONVERSIONS, *_PLAIN)}


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


TTIR_PLAIN = (
    "arith.addf", "arith.subf", "arith.mulf", "arith.maxnumf", "arith.minnumf",
    "arith.maximumf", "arith.minimumf", "arith.cmpf", "arith.cmpi",
    "arith.andi", "arith.ori", "arith.xori", "arith.maxui", "arith.minui",
    "math.fma", "math.absf", "math.exp2", "math.floor", "math.ceil",
)  # fmt: skip
"""Operations that Triton has under the same name."""

FOLDING = ("arith.addi", "arith.subi", "arith.muli", "arith.maxsi", "arith.minsi")
"""Operations that indices are made of: known scalars are folded."""


def lower_plain(state: TtirState, operation: Operation) -> None:
    """The same operation. `vk.rounded` is kept until products and sums have been fused."""
    op = type(operation).create(
        operands=[state.value(operand) for operand in operation.operands],
        result_types=[lowered_type(operation.results[0].type, operation)],
        properties=dict(operation.properties),
        attributes={name: value for name, value in operation.attributes.items() if name == ROUNDED},
    )
    state.define(operation.results[0], state.build.pure(op))


def lower_folding(state: TtirState, operation: Operation) -> None:
    """Integer arithmetic; scalars are folded where they are known."""
    a, b = (state.value(operand) for operand in operation.operands)
    if tt.shape(a.type) or str(a.type) not in ("i32", "i64"):
        lower_plain(state, operation)
        return
    number = state.build.integer(type(operation), a, b, a.type)
    state.define(operation.results[0], state.build.number(number, a.type))


def lower_function(state: TtirState, operation: Operation) -> None:
    """An operation that a function of the builder and the operands stands for."""
    values = [state.value(operand) for operand in operation.operands]
    state.define(operation.results[0], _FUNCTIONS[operation.name](state.build, *values))


def lower_division(state: TtirState, operation: Operation) -> None:
    """`arith.divf`, rounded once: Triton's own f32 division is not, and serves where `afn` allows it."""
    a, b = (state.value(operand) for operand in operation.operands)
    if tt.element(a.type) == f32 and not is_approximate(operation):
        result = state.build.pure(tt.PreciseDivOp(a, b))
    else:
        result = state.build.binary(arith.DivfOp, a, b)
    state.define(operation.results[0], result)


def _negate(build: TtirBuilder, value: SSAValue) -> SSAValue:
    """`arith.negf` as -0 - x, which is the same to the bit: on tensors Triton 3.6 does not take it."""
    zero, apart = build.filled(-0.0, value.type), {ROUNDED: UnitAttr()}
    return build.pure(
        arith.SubfOp.create(operands=[zero, value], result_types=[value.type], properties=dict(EXACT), attributes=apart)
    )


def _sqrt(build: TtirBuilder, value: SSAValue) -> SSAValue:
    return build.pure(tt.PreciseSqrtOp(value) if tt.element(value.type) == f32 else math.SqrtOp(value))


def _copysign(build: TtirBuilder, size: SSAValue, sign: SSAValue) -> SSAValue:
    """`math.copysign`, by bits: Triton has none."""
    element = tt.element(size.type)
    assert isinstance(element, AnyFloat), "floats only"
    integer = IntegerType(element.bitwidth)
    top = 1 << (element.bitwidth - 1)
    low = build.binary(arith.AndIOp, build.bitcast(size, integer), top - 1)
    high = build.binary(arith.AndIOp, build.bitcast(sign, integer), top)
    return build.bitcast(build.binary(arith.OrIOp, low, high), element)


def _trunc(build: TtirBuilder, value: SSAValue) -> SSAValue:
    """`math.trunc`: the size rounded down, with the sign."""
    return _copysign(build, build.unary(math.FloorOp, build.unary(math.AbsFOp, value)), value)


def _round_even(build: TtirBuilder, value: SSAValue) -> SSAValue:
    """`math.roundeven`: add and subtract a number so large that the sum has no fraction."""
    large = float(1 << 23 if tt.element(value.type) == f32 else 1 << 52)
    size = build.unary(math.AbsFOp, value)
    whole = build.binary(arith.SubfOp, build.binary(arith.AddfOp, size, large), large)
    near = build.select(build.compare("olt", size, large), whole, size)
    return _copysign(build, near, value)


def _absolute(build: TtirBuilder, value: SSAValue) -> SSAValue:
    """`math.absi`; the least integer stays itself."""
    negated = build.binary(arith.SubiOp, build.filled(0, value.type), value)
    return build.select(build.compare("slt", value, 0), negated, value)


_FUNCTIONS: dict[str, Callable[..., SSAValue]] = {
    **INTEGER_FUNCTIONS,
    "arith.select": TtirBuilder.select,
    "arith.negf": _negate,
    "math.sqrt": _sqrt,
    "math.copysign": _copysign,
    "math.trunc": _trunc,
    "math.roundeven": _round_even,
    "math.absi": _absolute,
}

TTIR_ELEMENTWISE: dict[str, Handler] = {
    **dict.fromkeys(TTIR_PLAIN, lower_plain),
    **dict.fromkeys(FOLDING, lower_folding),
    **dict.fromkeys(_FUNCTIONS, lower_function),
    "arith.divf": lower_division,
}
