"""Elementwise arith and math."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import math
from xdsl.dialects.builtin import AnyFloat, IntegerType, UnitAttr, f32
from xdsl.ir import Operation, SSAValue

from vkernels.ir.dialect import arith, tt

from ..common import Handler
from .builder import EXACT, TtirBuilder
from .fuse_multiply_add import ROUNDED
from .integers import INTEGER_FUNCTIONS
from .state import TtirState

TTIR_PLAIN = (
    "arith.addf", "arith.subf", "arith.mulf", "arith.maxnumf", "arith.minnumf",
    "arith.maximumf", "arith.minimumf", "arith.cmpf", "arith.cmpi",
    "arith.andi", "arith.ori", "arith.xori", "arith.maxui", "arith.minui",
    "math.fma", "math.absf", "math.floor", "math.ceil",
)  # fmt: skip
"""Operations that Triton has under the same name."""

FOLDING = ("arith.addi", "arith.subi", "arith.muli", "arith.maxsi", "arith.minsi")
"""Operations that indices are made of: known scalars are folded."""


def lower_plain(state: TtirState, operation: Operation) -> None:
    """The same operation. `vk.rounded` is kept until products and sums have been fused."""
    op = type(operation).create(
        operands=[state.value(operand) for operand in operation.operands],
        result_types=[state.type_of(operation.results[0], operation)],
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


def _divide(build: TtirBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
    """`arith.divf`, rounded once: Triton's own f32 division is not."""
    return build.pure(tt.PreciseDivOp(a, b)) if tt.element(a.type) == f32 else build.binary(arith.DivfOp, a, b)


def _negate(build: TtirBuilder, value: SSAValue) -> SSAValue:
    """`arith.negf` as -0 - x, which is the same to the bit: on tensors Triton 3.6 does not take it."""
    zero, apart = build.filled(-0.0, value.type), {ROUNDED: UnitAttr()}
    return build.pure(
        arith.SubfOp.create(operands=[zero, value], result_types=[value.type], properties=dict(EXACT), attributes=apart)
    )


def _sqrt(build: TtirBuilder, value: SSAValue) -> SSAValue:
    """`math.sqrt`, rounded once."""
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
    "arith.divf": _divide,
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
}
