"""Elementwise arith and math."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import math
from xdsl.dialects.builtin import AnyFloat, IntegerType, UnitAttr, f32
from xdsl.ir import Attribute, Operation, SSAValue

from vkernels.ir.dialect import arith, tt

from ..llvm.halves import refuse_half
from .builder import EXACT, TtirBuilder
from .integers import BIT_COUNTS, TTIR_DIVISIONS, TTIR_SHIFTS, lower_bit_count, lower_division, lower_shift
from .state import TtirState

TTIR_PLAIN = (
    "arith.addf", "arith.subf", "arith.mulf", "arith.maxnumf", "arith.minnumf",
    "arith.maximumf", "arith.minimumf", "arith.cmpf", "arith.cmpi",
    "arith.andi", "arith.ori", "arith.xori", "arith.maxui", "arith.minui",
    "math.fma", "math.absf", "math.floor", "math.ceil",
)  # fmt: skip
"""What Triton has under the same name."""

FOLDING = ("arith.addi", "arith.subi", "arith.muli", "arith.maxsi", "arith.minsi")
"""What indices are made of: scalars that are known stay so."""


def lower_plain(state: TtirState, operation: Operation) -> None:
    """The same operation. `vk.rounded` is kept until products and sums have been fused."""
    refuse_half(operation)
    operands = [state.value(operand) for operand in operation.operands]
    type_ = state.type_of(operation.results[0], operation)
    op = type(operation).create(
        operands=operands, result_types=[type_], properties=dict(operation.properties), attributes=_kept(operation)
    )
    state.define(operation.results[0], state.build.pure(op))


def _kept(operation: Operation) -> dict[str, Attribute]:
    return {name: value for name, value in operation.attributes.items() if name == "vk.rounded"}


def lower_folding(state: TtirState, operation: Operation) -> None:
    """Integer arithmetic; scalars are folded where they are known."""
    a, b = (state.value(operand) for operand in operation.operands)
    if tt.shape(a.type) or str(a.type) not in ("i32", "i64"):
        lower_plain(state, operation)
        return
    number = state.build.integer(type(operation), a, b, a.type)
    state.define(operation.results[0], state.build.number(number, a.type))


def lower_select(state: TtirState, operation: Operation) -> None:
    """`arith.select`; the condition may be a scalar."""
    condition, a, b = (state.value(operand) for operand in operation.operands)
    state.define(operation.results[0], state.build.select(condition, a, b))


def lower_divide(state: TtirState, operation: Operation) -> None:
    """`arith.divf`, rounded once: Triton's own f32 division is not."""
    refuse_half(operation)
    a, b = (state.value(operand) for operand in operation.operands)
    if tt.element(a.type) == f32:
        state.define(operation.results[0], state.build.pure(tt.PreciseDivOp(a, b)))
    else:
        state.define(operation.results[0], state.build.binary(arith.DivfOp, a, b))


def lower_negate(state: TtirState, operation: Operation) -> None:
    """`arith.negf` as -0 - x, which is the same to the bit: on tensors Triton 3.6 does not take it."""
    refuse_half(operation)
    value = state.value(operation.operands[0])
    zero = state.build.filled(-0.0, value.type)
    apart = {"vk.rounded": UnitAttr()}
    op = arith.SubfOp.create(
        operands=[zero, value], result_types=[value.type], properties=dict(EXACT), attributes=apart
    )
    state.define(operation.results[0], state.build.pure(op))


def lower_sqrt(state: TtirState, operation: Operation) -> None:
    """`math.sqrt`, rounded once."""
    refuse_half(operation)
    value = state.value(operation.operands[0])
    op: Operation = tt.PreciseSqrtOp(value) if tt.element(value.type) == f32 else math.SqrtOp(value)
    state.define(operation.results[0], state.build.pure(op))


def lower_copysign(state: TtirState, operation: Operation) -> None:
    """`math.copysign`, by bits: Triton has none."""
    refuse_half(operation)
    size, sign = (state.value(operand) for operand in operation.operands)
    state.define(operation.results[0], _with_sign(state.build, size, sign))


def _with_sign(build: TtirBuilder, size: SSAValue, sign: SSAValue) -> SSAValue:
    element = _float(size)
    integer = IntegerType(element.bitwidth)
    top = 1 << (element.bitwidth - 1)
    low = build.binary(arith.AndIOp, build.bitcast(size, integer), top - 1)
    high = build.binary(arith.AndIOp, build.bitcast(sign, integer), top)
    return build.bitcast(build.binary(arith.OrIOp, low, high), element)


def lower_trunc(state: TtirState, operation: Operation) -> None:
    """`math.trunc`: what is below the size, with the sign."""
    refuse_half(operation)
    build, value = state.build, state.value(operation.operands[0])
    whole = build.unary(math.FloorOp, build.unary(math.AbsFOp, value))
    state.define(operation.results[0], _with_sign(build, whole, value))


def lower_round_even(state: TtirState, operation: Operation) -> None:
    """`math.roundeven`: a number so large that no fraction fits beside it is added and taken away."""
    refuse_half(operation)
    build, value = state.build, state.value(operation.operands[0])
    large = float(1 << 23 if _float(value) == f32 else 1 << 52)
    size = build.unary(math.AbsFOp, value)
    whole = build.binary(arith.SubfOp, build.binary(arith.AddfOp, size, large), large)
    near = build.select(build.compare("olt", size, large), whole, size)
    state.define(operation.results[0], _with_sign(build, near, value))


def _float(value: SSAValue) -> AnyFloat:
    element = tt.element(value.type)
    assert isinstance(element, AnyFloat), "floats only"
    return element


def lower_absolute(state: TtirState, operation: Operation) -> None:
    """`math.absi`; the least integer stays itself."""
    build, value = state.build, state.value(operation.operands[0])
    negated = build.binary(arith.SubiOp, build.filled(0, value.type), value)
    state.define(operation.results[0], build.select(build.compare("slt", value, 0), negated, value))


TTIR_ELEMENTWISE: dict[str, Callable[[TtirState, Operation], None]] = {
    **dict.fromkeys(TTIR_PLAIN, lower_plain),
    **dict.fromkeys(FOLDING, lower_folding),
    **dict.fromkeys(TTIR_DIVISIONS, lower_division),
    **dict.fromkeys(TTIR_SHIFTS, lower_shift),
    **dict.fromkeys(BIT_COUNTS, lower_bit_count),
    "arith.select": lower_select,
    "arith.divf": lower_divide,
    "arith.negf": lower_negate,
    "math.sqrt": lower_sqrt,
    "math.copysign": lower_copysign,
    "math.trunc": lower_trunc,
    "math.roundeven": lower_round_even,
    "math.absi": lower_absolute,
}
