"""Conversions between element types."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import math
from xdsl.dialects.builtin import BFloat16Type, IntegerType, f32, f64, i32
from xdsl.ir import Attribute, Operation, SSAValue

from vkernels.ir.dialect import arith, element_of, tt

from ..common import Handler, is_half, is_quarter
from .builder import TtirBuilder
from .state import TtirState
from .tiles import register_element


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
