"""Expand decoding of f8, E2M1 and E8M0 into arithmetic, for processors that have none: `expand-formats`."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from xdsl.context import Context
from xdsl.dialects.builtin import Float8E4M3FNType, Float8E5M2Type, ModuleOp, f16, f32, f64, i8, i16, i32
from xdsl.ir import Attribute, Block, Operation
from xdsl.passes import ModulePass

from ..dialect import DecodeOp, DotOp, arith
from .expand_math.values import Constants, Float, FormulaEmitter, Integer, Kind, Value, elements, select, with_elements

FLOAT8 = (Float8E4M3FNType, Float8E5M2Type)
_INFINITY = 0x7F800000
"""The bits of an infinite f32."""
_E2M1_DOUBLED = 0xC8643210 - (1 << 32)
"""Twice the magnitudes of the eight E2M1 (0, 0.5, 1, 1.5, 2, 3, 4, 6), four bits each, that of code 0 in the lowest."""


@dataclass(frozen=True)
class _Format:
    """An f8: bits of its fraction, bias of its exponent, and the bits that a number past the greatest becomes."""

    fraction: int
    bias: int
    most: int


_FORMATS: dict[type[Attribute], _Format] = {
    Float8E4M3FNType: _Format(fraction=3, bias=7, most=0x7E),
    Float8E5M2Type: _Format(fraction=2, bias=15, most=0x7C),
}


@dataclass(frozen=True)
class ExpandFormats(ModulePass):
    """Replace `vk.decode`, and where `float8` conversions from and to f8, by operations on bits. f8 is then only moved,
    and read as i8.

    `halves`: what dots take is rounded to f16, exactly, which tensor cores take.

    Works on scalars, vectors and tiles of any shape. Rounds once, to nearest, ties to even; a number past the greatest
    becomes the greatest E4M3FN or an infinite E5M2, as torch's.
    """

    name = "expand-formats"
    result = "mapped IR that decodes formats of few bits by operations on integers"

    float8: bool = True
    halves: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        expand_formats(op, self.float8, self.halves)


def expand_formats(module: Operation, float8: bool = True, halves: bool = False) -> None:
    """Expand all conversions inside an operation, without verification; see `ExpandFormats`."""
    constants: dict[Block, Constants] = defaultdict(dict)
    for op in list(module.walk()):
        if isinstance(op, DecodeOp):
            _replace(op, partial(_decoded, format=op.format.data), constants)
        elif not float8:
            continue
        elif isinstance(op, arith.ExtFOp) and isinstance(elements(op.operands[0].type), FLOAT8):
            for_dots = halves and any(isinstance(use.operation, DotOp) for use in op.results[0].uses)
            _replace(op, partial(_extended, for_dots=for_dots), constants)
        elif isinstance(op, arith.TruncFOp) and isinstance(elements(op.results[0].type), FLOAT8):
            _replace(op, _truncated, constants)


def _replace(op: Operation, expand: Callable[[Value, Attribute], Value], constants: dict[Block, Constants]) -> None:
    block = op.parent
    assert block is not None, "conversions are in blocks"
    emitter = FormulaEmitter(op, block, constants[block], scales=False)
    result = expand(Value(emitter, op.operands[0]), elements(op.results[0].type)).ssa
    block.insert_ops_before(emitter.operations, op)
    result.name_hint = op.results[0].name_hint
    op.results[0].replace_all_uses_with(result)
    block.erase_op(op)


def _extended(value: Value, element: Attribute, for_dots: bool) -> Float:
    """f8 as f32 or f64, exactly, by way of f16.

    E5M2 is the upper half of an f16. The bits of E4M3FN, at the place of an f16's, are those of 2^-8 times the number,
    as f16 has a bias of 15, E4M3FN one of 7; also where it is subnormal. NaN alone would be 480.
    """
    signed = Integer(value.emitter, _cast(value, arith.BitcastOp, i8).ssa)
    bits = Integer(value.emitter, _cast(signed, arith.ExtSIOp, i16).ssa)
    if isinstance(value.element, Float8E5M2Type):
        result = _from_half(bits << 8)
    else:
        result = _from_half((bits << 7) & ~0x4000) * 2.0**8
        result = select(abs(result) > 448.0, float("nan"), result)
    if for_dots and element == f32:
        result = Float(value.emitter, _cast(_cast(result, arith.TruncFOp, f16), arith.ExtFOp, f32).ssa)
    return result.widen() if element == f64 else result


def _from_half(bits: Integer) -> Float:
    return Float(bits.emitter, _cast(_cast(bits, arith.BitcastOp, f16), arith.ExtFOp, f32).ssa)


def _truncated(value: Value, element: Attribute) -> Value:
    """f32 or f64 as f8.

    Normal numbers are rounded where the fraction is cut, by adding a little less than half of what the last bit left
    counts. What is subnormal in f8 is added to a number whose last bit counts as much as the f8's last.
    """
    form = _FORMATS[type(element)]
    number = Float(value.emitter, value.ssa)
    bits = (number if number.single else _to_odd(number)).bits()
    size, cut = bits & 0x7FFFFFFF, 23 - form.fraction
    last = (size >> cut) & 1
    normal = (size + (form.bias - 127 << 23) + (1 << cut - 1) - 1 + last) >> cut
    magic = 2.0 ** (24 - form.bias - form.fraction)
    small = (size.as_float() + magic).bits() - struct.unpack("<i", struct.pack("<f", magic))[0]
    code = select(size < (128 - form.bias << 23), small, normal)
    code = select(code.const(form.most) < code, form.most, code)
    code = select(size.const(_INFINITY) < size, 0x7F, code)
    return _cast(_cast(code + ((bits >> 24) & 0x80), arith.TruncIOp, i8), arith.BitcastOp, element)


def _to_odd(number: Float) -> Float:
    """f64 as f32, cut toward 0, the last bit set where anything was cut off."""
    nearest = number.narrow()
    back = nearest.widen()
    bits = nearest.bits()
    cut = select(abs(back) > abs(number), bits - 1, bits)
    odd = cut + 1 - (cut & 1)
    return select(back.equals(number), bits, select(number.unordered(number), bits, odd)).as_float()


def _decoded(value: Value, element: Attribute, format: str) -> Value:
    """A byte as the f32 that it holds in a format of `vk.decode`.

    The bits of an f32 are the exponent of E8M0, or half of the least normal number for its least, 2^-127; NaN for 255.
    Magnitudes of E2M1 are found in a table: its code's lower three bits count in fours, and bits beyond do not matter.
    """
    wide = Integer(value.emitter, _cast(value, arith.ExtUIOp, i32).ssa)
    if format == "e8m0":
        bits = wide << 23
        number = Integer(
            value.emitter, value.emitter.emit(arith.MaxSIOp, [bits.ssa, bits.const(1 << 22).ssa], bits.type)
        )
        return select(wide.equals(255), float("nan"), number.as_float())
    place = (wide << 2 if format == "e2m1_low" else wide >> 2) & 28
    table = place.const(_E2M1_DOUBLED)
    doubled = Integer(value.emitter, value.emitter.emit(arith.ShRUIOp, [table.ssa, place.ssa], place.type)) & 15
    size = Float(value.emitter, _cast(doubled, arith.SIToFPOp, f32).ssa) * 0.5
    sign = (wide << (28 if format == "e2m1_low" else 24)) & -(1 << 31)
    return (size.bits() + sign).as_float()


def _cast(value: Value, kind: Kind, element: Attribute) -> Value:
    return Value(value.emitter, value.emitter.emit(kind, [value.ssa], with_elements(value.type, element)))


__all__ = ["ExpandFormats", "expand_formats"]
