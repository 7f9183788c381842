"""Conversions between element types."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import math
from xdsl.dialects.builtin import BFloat16Type, IntegerType, f32, f64, i32
from xdsl.ir import Attribute, Operation, SSAValue

from vkernels.ir.dialect import arith, element_of, tt

from ..llvm.halves import is_half, is_quarter, refuse_half
from .builder import TtirBuilder
from .state import TtirState
from .tiles import register_element


def lower_plain_cast(state: TtirState, operation: Operation) -> None:
    """A conversion that Triton has under the same name."""
    result = register_element(element_of(operation.results[0]), operation)
    value = state.value(operation.operands[0])
    state.define(operation.results[0], state.build.unary(type(operation), value, result))


def lower_integer_cast(state: TtirState, operation: Operation) -> None:
    """A conversion of integers that is no `vk` matter: as it is."""
    refuse_half(operation)
    lower_plain_cast(state, operation)


def lower_index_cast(state: TtirState, operation: Operation) -> None:
    """Indices are i64, so this narrows or widens with the sign."""
    result = register_element(element_of(operation.results[0]), operation)
    state.define(operation.results[0], state.build.cast(state.value(operation.operands[0]), result))


def lower_bitcast(state: TtirState, operation: Operation) -> None:
    """`arith.bitcast`."""
    result = register_element(element_of(operation.results[0]), operation)
    state.define(operation.results[0], state.build.bitcast(state.value(operation.operands[0]), result))


def lower_extend(state: TtirState, operation: Operation) -> None:
    """`arith.extf`; f16 and bf16 go to f64 through f32, since Triton has no direct way for AMD, and f8 likewise."""
    value, result = state.value(operation.operands[0]), element_of(operation.results[0])
    if is_quarter(tt.element(value.type)):
        value = _other_format(state.build, value, f32)
        if result == f32:
            state.define(operation.results[0], value)
            return
    if is_half(tt.element(value.type)) and result == f64:
        value = state.build.unary(arith.ExtFOp, value, f32)
    state.define(operation.results[0], state.build.unary(arith.ExtFOp, value, result))


def lower_truncate(state: TtirState, operation: Operation) -> None:
    """`arith.truncf`: to nearest, ties to even; f64 goes to bf16 and f8 through an f32 that keeps what decides."""
    value, result = state.value(operation.operands[0]), element_of(operation.results[0])
    if tt.element(value.type) == f64 and (isinstance(result, BFloat16Type) or is_quarter(result)):
        value = _rounded_to_odd(state.build, value)
    if is_quarter(result):
        state.define(operation.results[0], _other_format(state.build, value, result))
        return
    state.define(operation.results[0], state.build.unary(arith.TruncFOp, value, result))


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


def lower_to_integer(state: TtirState, operation: Operation) -> None:
    """`arith.fptosi`, `arith.fptoui`: toward 0; what does not fit becomes the nearest integer that does, NaN 0."""
    refuse_half(operation)
    build, value = state.build, state.value(operation.operands[0])
    element = element_of(operation.results[0])
    assert isinstance(element, IntegerType), "verified"
    width = element.width.data
    signed = operation.name == "arith.fptosi"
    least, above = (-(1 << width - 1), 1 << width - 1) if signed else (0, 1 << width)
    low, high = build.compare("olt", value, float(least)), build.compare("oge", value, float(above))
    fits = build.binary(
        arith.AndIOp, build.compare("oge", value, float(least)), build.compare("olt", value, float(above))
    )
    inside = build.select(fits, value, build.filled(0.0, value.type))
    number = build.unary(type(operation), inside, element)
    number = build.select(low, least, number)
    state.define(operation.results[0], build.select(high, above - 1, number))


TTIR_CASTS: dict[str, Callable[[TtirState, Operation], None]] = {
    "arith.truncf": lower_truncate,
    "arith.fptosi": lower_to_integer,
    "arith.fptoui": lower_to_integer,
    "arith.index_cast": lower_index_cast,
    "arith.bitcast": lower_bitcast,
    "arith.extf": lower_extend,
    **dict.fromkeys(("arith.sitofp", "arith.uitofp", "arith.extsi", "arith.extui", "arith.trunci"), lower_integer_cast),
}
