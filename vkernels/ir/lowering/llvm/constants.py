"""Constants, positions along axes, tail masks and broadcasts."""

from __future__ import annotations

import struct

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    Float16Type,
    FloatAttr,
    IntegerAttr,
)
from xdsl.ir import Attribute, Operation

from ...dialect import BelowOp, BroadcastOp, PositionOp, element_of
from ..common import is_quarter, unsupported
from .emit import LlvmEmitter, Number, vector
from .state import LlvmState
from .tiles import Register, RegisterLayout, register_element


def literal(value: float | int, element: Attribute) -> str:
    """A number as MLIR writes it, to the bit; f16 and bf16 as their 16 bits. Of f8 there is only 0, masked."""
    if isinstance(element, Float16Type):
        return str(struct.unpack("<h", struct.pack("<e", value))[0])
    if isinstance(element, BFloat16Type):
        return str(_bf16_bits(value))
    if is_quarter(element):
        assert value == 0, "f8 is only moved"
        return "0"
    if isinstance(element, AnyFloat):
        single = element.bitwidth == 32
        bits = struct.unpack("<I" if single else "<Q", struct.pack("<f" if single else "<d", value))[0]
        return f"0x{bits:08X}" if single else f"0x{bits:016X}"
    if str(element) == "i1":
        return "true" if value else "false"
    return str(int(value))


def _bf16_bits(value: float) -> int:
    bits: int = struct.unpack("<I", struct.pack("<f", value))[0]
    if value == value:
        bits += 0x7FFF + (bits >> 16 & 1)
    high = bits >> 16
    return high - 0x10000 if high >= 0x8000 else high


def lower_constant(state: LlvmState, operation: ConstantOp) -> None:
    """`arith.constant`: one vector constant a distinct piece."""
    value, element = operation.value, element_of(operation.result)
    type_ = register_element(element, operation)
    layout = state.layout(operation.result.type)
    if isinstance(value, IntegerAttr | FloatAttr):
        number = value.value.data
        literal_ = literal(number, element)
        (width,) = layout.widths()
        is_index = type_ == "i64" and width == 1
        names = [state.emit.number(int(number)) if is_index else state.emit.filled(literal_, type_, width)]
    elif not isinstance(value, DenseIntOrFPElementsAttr):
        raise unsupported(operation, f"{value} is not a number or a dense tile")
    elif value.is_splat():
        text = literal(value.get_values()[0], element)
        names = [state.emit.filled(text, type_, width) for width in layout.widths()]
    else:
        texts = [literal(number, element) for number in value.get_values()]
        names = [_register(state.emit, register, layout, texts, type_) for register in layout.registers()]
    state.define(operation.result, names)


def _register(emit: LlvmEmitter, register: Register, layout: RegisterLayout, texts: list[str], element: str) -> str:
    """The constant of a register; `texts`: the tile's elements in row-major order."""
    lanes = []
    for lane in range(register.start, register.start + register.width):
        number = 0
        for axis, size in zip(layout.axes, layout.sizes, strict=True):
            number = number * size + register.positions.get(axis, lane)
        lanes.append(texts[number])
    return emit.constant(lanes[0] if len(lanes) == 1 else f"dense<[{', '.join(lanes)}]>", vector(element, len(lanes)))


def lower_position(state: LlvmState, operation: PositionOp) -> None:
    layout, axis = state.layout(operation.result.type), operation.axis.data
    names = [
        state.emit.iota(r.start, r.width, "i64") if layout.has_lanes else state.emit.number(r.positions[axis])
        for r in layout.registers()
    ]
    state.define(operation.result, names)


def lower_below(state: LlvmState, operation: BelowOp) -> None:
    layout, axis = state.layout(operation.result.type), operation.axis.data
    count = state.emit.known(state.scalar(operation.count))
    names = [
        below(state.emit, count, r.start if layout.has_lanes else r.positions[axis], r.width)
        for r in layout.registers()
    ]
    state.define(operation.result, names)


def below(emit: LlvmEmitter, count: Number, start: int, width: int) -> str:
    """Which of the positions start, start + 1, … are below a count: a vector of i1, or an i1 for width 1."""
    if width == 1:
        return emit.pure(f"arith.cmpi sgt, {emit.number(count)}, {emit.number(start)} : i64")
    left = emit.integer("maxsi", emit.integer("minsi", emit.add(count, -start), width), 0)
    narrow = emit.pure(f"arith.trunci {left} : i64 to i32")
    lanes = emit.iota(0, width, "i32")
    return emit.pure(f"arith.cmpi slt, {lanes}, {emit.splat(narrow, 'i32', width)} : {vector('i32', width)}")


def lower_broadcast(state: LlvmState, operation: BroadcastOp) -> None:
    """`vk.broadcast`: the same registers again; a scalar spread over lanes where the source has none."""
    source = state.tile(operation.source)
    names = [source.spread(state.emit, register) for register in state.layout(operation.result.type).registers()]
    state.define(operation.result, names)


def is_constant(operation: Operation | object) -> bool:
    """Whether an operation's result is a constant, or a constant broadcast."""
    if isinstance(operation, BroadcastOp):
        return is_constant(operation.source.owner)
    return isinstance(operation, ConstantOp)
