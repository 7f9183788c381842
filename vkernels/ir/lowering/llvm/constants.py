"""Constants, positions along axes and tail masks: tiles that come from nothing but numbers."""

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
from .emit import LlvmEmitter, Number, vector
from .failures import unsupported
from .state import LlvmState
from .tiles import RegisterLayout, register_element


def literal(value: float | int, element: Attribute) -> str:
    """A number as MLIR writes it, to the bit; f16 and bf16 as their 16 bits."""
    if isinstance(element, Float16Type):
        return str(struct.unpack("<h", struct.pack("<e", value))[0])
    if isinstance(element, BFloat16Type):
        return str(_bf16_bits(value))
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


def filled(emit: LlvmEmitter, text: str, element: str, width: int) -> str:
    """A constant in every lane."""
    return emit.constant(text if width == 1 else f"dense<{text}>", vector(element, width))


def lower_constant(state: LlvmState, operation: ConstantOp) -> None:
    """`arith.constant`: one vector constant a distinct piece."""
    value, element = operation.value, element_of(operation.result)
    type_ = register_element(element, operation)
    layout = state.layout(operation.result.type)
    if isinstance(value, IntegerAttr | FloatAttr):
        number = value.value.data
        text = literal(number, element)
        name = state.emit.number(int(number)) if type_ == "i64" else state.emit.constant(text, type_)
        state.define(operation.result, [name])
        return
    if not isinstance(value, DenseIntOrFPElementsAttr):
        raise unsupported(operation, f"{value} is not a number or a dense tile")
    numbers = value.get_values()
    if value.is_splat():
        text = literal(numbers[0], element)
        names = [filled(state.emit, text, type_, width) for width in layout.widths()]
    else:
        texts = [literal(number, element) for number in numbers]
        names = [
            _piece(state.emit, [texts[_flat(layout, positions, lane)] for lane in range(start, start + width)], type_)
            for positions, start, width in layout.registers()
        ]
    state.define(operation.result, names)


def _piece(emit: LlvmEmitter, texts: list[str], element: str) -> str:
    text = texts[0] if len(texts) == 1 else f"dense<[{', '.join(texts)}]>"
    return emit.constant(text, vector(element, len(texts)))


def _flat(layout: RegisterLayout, positions: dict[str, int], lane: int) -> int:
    """The number of an element in row-major order."""
    number = 0
    for axis, size in zip(layout.axes, layout.sizes, strict=True):
        number = number * size + positions.get(axis, lane)
    return number


def lower_position(state: LlvmState, operation: PositionOp) -> None:
    layout = state.layout(operation.result.type)
    axis = operation.axis.data
    state.define(
        operation.result,
        [
            state.emit.iota(start, width, "i64") if layout.has_lanes else state.emit.number(positions[axis])
            for positions, start, width in layout.registers()
        ],
    )


def lower_below(state: LlvmState, operation: BelowOp) -> None:
    layout = state.layout(operation.result.type)
    count, axis = state.emit.known(state.scalar(operation.count)), operation.axis.data
    state.define(
        operation.result,
        [
            below(state.emit, count, start if layout.has_lanes else positions[axis], width)
            for positions, start, width in layout.registers()
        ],
    )


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
    layout = state.layout(operation.result.type)
    names = []
    for positions in layout.rows():
        for piece, (_, width) in enumerate(layout.pieces):
            name = source.at(positions, piece)
            names.append(name if source.layout.has_lanes else state.emit.splat(name, source.element, width))
    state.define(operation.result, names)


def is_constant(operation: Operation | object) -> bool:
    """Whether an operation's result is a constant, or a constant broadcast."""
    if isinstance(operation, BroadcastOp):
        return is_constant(operation.source.owner)
    return isinstance(operation, ConstantOp)
