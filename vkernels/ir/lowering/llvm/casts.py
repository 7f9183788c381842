"""Conversions between element types.

f16 and bf16 are 16 bits in registers and are converted here, where no conversion may become a call: f16 by the
processor's own instruction, bf16 by integer shifts and rounding, f64 to either through an f32 rounded to odd,
which keeps enough of what was cut off for the second rounding to be right.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import BFloat16Type, Float16Type
from xdsl.ir import Attribute, Operation

from ...dialect import element_of
from .constants import filled
from .emit import LlvmEmitter, vector
from .failures import unsupported
from .halves import is_half, refuse_half
from .state import LlvmState
from .tiles import register_element

Converter = Callable[[LlvmEmitter, str, int], str]


def _each(state: LlvmState, operation: Operation, convert: Converter) -> None:
    source = state.tile(operation.operands[0])
    names = [convert(state.emit, name, width) for name, width in zip(source.names, source.layout.widths(), strict=True)]
    state.define(operation.results[0], names)


def cast(emit: LlvmEmitter, name: str, value: str, source: str, result: str, width: int) -> str:
    """One upstream conversion between element types; the value itself where they are the same."""
    if source == result:
        return value
    return emit.pure(f"{name} {value} : {vector(source, width)} to {vector(result, width)}")


def lower_extend(state: LlvmState, operation: Operation) -> None:
    """`arith.extf`."""
    source, result = _elements(operation)
    _each(state, operation, lambda emit, value, width: extend(emit, value, source, str(result), width))


def extend(emit: LlvmEmitter, value: str, source: Attribute, result: str, width: int) -> str:
    """f16, bf16 or f32 as f32 or f64, exactly."""
    if isinstance(source, Float16Type):
        half = cast(emit, "arith.bitcast", value, "i16", "f16", width)
        return cast(emit, "arith.extf", half, "f16", result, width)
    if isinstance(source, BFloat16Type):
        wide = cast(emit, "arith.extui", value, "i16", "i32", width)
        sixteen = filled(emit, "16", "i32", width)
        bits = emit.pure(f"arith.shli {wide}, {sixteen} : {vector('i32', width)}")
        single = cast(emit, "arith.bitcast", bits, "i32", "f32", width)
        return cast(emit, "arith.extf", single, "f32", result, width)
    return cast(emit, "arith.extf", value, str(source), result, width)


def lower_truncate(state: LlvmState, operation: Operation) -> None:
    """`arith.truncf`."""
    source, result = _elements(operation)
    _each(state, operation, lambda emit, value, width: truncate(emit, value, str(source), result, width))


def truncate(emit: LlvmEmitter, value: str, source: str, result: Attribute, width: int) -> str:
    """f64 or f32 as a narrower float, to nearest, ties to even."""
    if not is_half(result):
        return cast(emit, "arith.truncf", value, source, str(result), width)
    single = _round_to_odd(emit, value, width) if source == "f64" else value
    if isinstance(result, BFloat16Type):
        return _bfloat(emit, single, width)
    half = cast(emit, "arith.truncf", single, "f32", "f16", width)
    return cast(emit, "arith.bitcast", half, "f16", "i16", width)


def _bfloat(emit: LlvmEmitter, single: str, width: int) -> str:
    bits = cast(emit, "arith.bitcast", single, "f32", "i32", width)
    high = _i32(emit, "shrui", bits, 16, width)
    even = _i32(emit, "andi", high, 1, width)
    up = _i32(emit, "addi", bits, _i32(emit, "addi", even, 0x7FFF, width), width)
    rounded = _i32(emit, "shrui", up, 16, width)
    nan = emit.pure(f"arith.cmpf uno, {single}, {single} : {vector('f32', width)}")
    quiet = _i32(emit, "ori", high, 0x40, width)
    return cast(emit, "arith.trunci", _select(emit, nan, quiet, rounded, "i32", width), "i32", "i16", width)


def _i32(emit: LlvmEmitter, name: str, a: str, b: str | int, width: int) -> str:
    """An operation on lanes of i32, the second operand a number or a register."""
    other = filled(emit, str(b), "i32", width) if isinstance(b, int) else b
    return emit.pure(f"arith.{name} {a}, {other} : {vector('i32', width)}")


def _round_to_odd(emit: LlvmEmitter, value: str, width: int) -> str:
    """f64 as f32, cut toward 0, the last bit set where anything was cut off."""
    wide = vector("f64", width)
    nearest = cast(emit, "arith.truncf", value, "f64", "f32", width)
    back = cast(emit, "arith.extf", nearest, "f32", "f64", width)
    sizes = [emit.pure(f"llvm.intr.fabs({v}) : ({wide}) -> {wide}") for v in (back, value)]
    larger = emit.pure(f"arith.cmpf ogt, {sizes[0]}, {sizes[1]} : {wide}")
    inexact = emit.pure(f"arith.cmpf one, {back}, {value} : {wide}")
    bits = cast(emit, "arith.bitcast", nearest, "f32", "i32", width)
    cut = _i32(emit, "subi", bits, cast(emit, "arith.extui", larger, "i1", "i32", width), width)
    odd = _i32(emit, "ori", cut, 1, width)
    return cast(emit, "arith.bitcast", _select(emit, inexact, odd, bits, "i32", width), "i32", "f32", width)


def _select(emit: LlvmEmitter, condition: str, a: str, b: str, element: str, width: int) -> str:
    types = element if width == 1 else f"{vector('i1', width)}, {vector(element, width)}"
    return emit.pure(f"arith.select {condition}, {a}, {b} : {types}")


def lower_to_integer(state: LlvmState, operation: Operation) -> None:
    """`arith.fptosi`, `arith.fptoui`: toward 0; what does not fit becomes the nearest integer that does, NaN 0."""
    refuse_half(operation)
    source, result = (str(element) for element in _elements(operation))
    name = operation.name.removeprefix("arith.")

    def convert(emit: LlvmEmitter, value: str, width: int) -> str:
        lanes = "" if width == 1 else f"v{width}"
        intrinsic = f"llvm.{name}.sat.{lanes}{result}.{lanes}{source}"
        types = f"({vector(source, width)}) -> {vector(result, width)}"
        return emit.pure(f'llvm.call_intrinsic "{intrinsic}"({value}) : {types}')

    _each(state, operation, convert)


def lower_plain_cast(state: LlvmState, operation: Operation) -> None:
    """A conversion that MLIR has on vectors under the same name."""
    refuse_half(operation)
    source, result = (register_element(element, operation) for element in _elements(operation))
    _each(state, operation, lambda emit, value, width: cast(emit, operation.name, value, source, result, width))


def lower_bitcast(state: LlvmState, operation: Operation) -> None:
    source, result = (register_element(element, operation) for element in _elements(operation))
    _each(state, operation, lambda emit, value, width: cast(emit, "arith.bitcast", value, source, result, width))


def lower_index_cast(state: LlvmState, operation: Operation) -> None:
    """Indices are i64, so this narrows or widens with the sign."""
    source, result = (register_element(element, operation) for element in _elements(operation))
    name = "arith.extsi" if int(source[1:]) < int(result[1:]) else "arith.trunci"
    _each(state, operation, lambda emit, value, width: cast(emit, name, value, source, result, width))


def _elements(operation: Operation) -> tuple[Attribute, Attribute]:
    if len(operation.operands) != 1 or len(operation.results) != 1:
        raise unsupported(operation, "a conversion takes one value and gives one")
    register_element(element_of(operation.operands[0]), operation)
    register_element(element_of(operation.results[0]), operation)
    return element_of(operation.operands[0]), element_of(operation.results[0])


LLVM_CASTS: dict[str, Callable[[LlvmState, Operation], None]] = {
    "arith.extf": lower_extend,
    "arith.truncf": lower_truncate,
    "arith.fptosi": lower_to_integer,
    "arith.fptoui": lower_to_integer,
    "arith.bitcast": lower_bitcast,
    "arith.index_cast": lower_index_cast,
    **dict.fromkeys(("arith.sitofp", "arith.uitofp", "arith.extsi", "arith.extui", "arith.trunci"), lower_plain_cast),
}
