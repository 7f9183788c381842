"""Conversions between element types.

f16 and bf16 are 16 bits in registers. No conversion may become a call: f16 is converted by the processor's own
instruction, bf16 by integer shifts and rounding, f64 to either through an f32 rounded to odd, so that the second
rounding is right too.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import BFloat16Type, Float16Type, f64
from xdsl.ir import Attribute, Operation

from ...dialect import element_of
from ..common import Handler, is_half
from .emit import LlvmEmitter, vector
from .state import LlvmState
from .tiles import register_element

Converter = Callable[[LlvmEmitter, str, Attribute, Attribute, int], str]
"""Converts a register of some width between two element types."""


def _lower_conversion(state: LlvmState, operation: Operation) -> None:
    convert = _CONVERSIONS[operation.name]
    source, result = element_of(operation.operands[0]), element_of(operation.results[0])
    state.define_each(operation, lambda o, _, width: convert(state.emit, o[0], source, result, width))


def _lower_plain(state: LlvmState, operation: Operation) -> None:
    """A conversion that MLIR has on vectors; of indices, which are i64, one that narrows or widens with the sign."""
    name, result = operation.name, register_element(element_of(operation.results[0]), operation)
    if name == "arith.index_cast":
        source = state.tile(operation.operands[0]).element
        name = "arith.extsi" if int(source[1:]) < int(result[1:]) else "arith.trunci"
    state.define_each(operation, lambda o, source, width: state.emit.cast(name, o[0], source, result, width))


def extend(emit: LlvmEmitter, value: str, source: Attribute, result: Attribute, width: int) -> str:
    """f16, bf16 or f32 as f32 or f64, exactly."""
    if isinstance(source, Float16Type):
        half = emit.cast("arith.bitcast", value, "i16", "f16", width)
        return emit.cast("arith.extf", half, "f16", str(result), width)
    if isinstance(source, BFloat16Type):
        wide = emit.cast("arith.extui", value, "i16", "i32", width)
        single = emit.cast("arith.bitcast", _i32(emit, "shli", wide, 16, width), "i32", "f32", width)
        return emit.cast("arith.extf", single, "f32", str(result), width)
    return emit.cast("arith.extf", value, str(source), str(result), width)


def truncate(emit: LlvmEmitter, value: str, source: Attribute, result: Attribute, width: int) -> str:
    """f64 or f32 as a narrower float, to nearest, ties to even."""
    if not is_half(result):
        return emit.cast("arith.truncf", value, str(source), str(result), width)
    single = _round_to_odd(emit, value, width) if source == f64 else value
    if isinstance(result, BFloat16Type):
        return _bfloat(emit, single, width)
    half = emit.cast("arith.truncf", single, "f32", "f16", width)
    return emit.cast("arith.bitcast", half, "f16", "i16", width)


def _bfloat(emit: LlvmEmitter, single: str, width: int) -> str:
    bits = emit.cast("arith.bitcast", single, "f32", "i32", width)
    high = _i32(emit, "shrui", bits, 16, width)
    even = _i32(emit, "andi", high, 1, width)
    up = _i32(emit, "addi", bits, _i32(emit, "addi", even, 0x7FFF, width), width)
    rounded = _i32(emit, "shrui", up, 16, width)
    nan = emit.pure(f"arith.cmpf uno, {single}, {single} : {vector('f32', width)}")
    quiet = _i32(emit, "ori", high, 0x40, width)
    return emit.cast("arith.trunci", emit.select(nan, quiet, rounded, "i32", width), "i32", "i16", width)


def _i32(emit: LlvmEmitter, name: str, a: str, b: str | int, width: int) -> str:
    """An operation on lanes of i32, the second operand a number or a register."""
    other = emit.filled(str(b), "i32", width) if isinstance(b, int) else b
    return emit.pure(f"arith.{name} {a}, {other} : {vector('i32', width)}")


def _round_to_odd(emit: LlvmEmitter, value: str, width: int) -> str:
    """f64 as f32, cut toward 0, the last bit set where anything was cut off."""
    wide = vector("f64", width)
    nearest = emit.cast("arith.truncf", value, "f64", "f32", width)
    back = emit.cast("arith.extf", nearest, "f32", "f64", width)
    sizes = [emit.pure(f"llvm.intr.fabs({v}) : ({wide}) -> {wide}") for v in (back, value)]
    larger = emit.pure(f"arith.cmpf ogt, {sizes[0]}, {sizes[1]} : {wide}")
    inexact = emit.pure(f"arith.cmpf one, {back}, {value} : {wide}")
    bits = emit.cast("arith.bitcast", nearest, "f32", "i32", width)
    cut = _i32(emit, "subi", bits, emit.cast("arith.extui", larger, "i1", "i32", width), width)
    odd = _i32(emit, "ori", cut, 1, width)
    return emit.cast("arith.bitcast", emit.select(inexact, odd, bits, "i32", width), "i32", "f32", width)


def _saturate(name: str) -> Converter:
    """`fptosi`, `fptoui`: toward 0; what does not fit becomes the nearest integer that does, NaN 0."""

    def convert(emit: LlvmEmitter, value: str, source: Attribute, result: Attribute, width: int) -> str:
        lanes = "" if width == 1 else f"v{width}"
        intrinsic = f"llvm.{name}.sat.{lanes}{result}.{lanes}{source}"
        types = f"({vector(str(source), width)}) -> {vector(str(result), width)}"
        return emit.pure(f'llvm.call_intrinsic "{intrinsic}"({value}) : {types}')

    return convert


_CONVERSIONS: dict[str, Converter] = {
    "arith.extf": extend,
    "arith.truncf": truncate,
    "arith.fptosi": _saturate("fptosi"),
    "arith.fptoui": _saturate("fptoui"),
}

LLVM_CASTS: dict[str, Handler] = {
    **dict.fromkeys(_CONVERSIONS, _lower_conversion),
    **dict.fromkeys(("arith.bitcast", "arith.index_cast", "arith.sitofp", "arith.uitofp"), _lower_plain),
    **dict.fromkeys(("arith.extsi", "arith.extui", "arith.trunci"), _lower_plain),
}
