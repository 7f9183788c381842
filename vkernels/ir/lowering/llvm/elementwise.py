"""Elementwise arith, math, conversions and `vk.scale`: each operation once a register.

Integer division, remainder and shifts are defined for every operand: inactive elements are 0, and a division by 0 would
end the process, so here x / 0 and x % 0 are 0 and the least integer divided by -1 is itself. A shift by the width or
more gives 0, or the sign.

f16 and bf16 are 16 bits in registers. No conversion may become a call: f16 is converted by the processor's own
instruction, bf16 by one that is exact for what takes the result, or by integer shifts and rounding, f64 to either
through an f32 rounded to odd, so that the second rounding is right too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects.builtin import BFloat16Type, Float16Type, bf16, f32, f64
from xdsl.ir import Attribute, BlockArgument, Operation

from ...dialect import WordsOp, arith, element_of
from ..common import Handler, is_half
from .constants import is_constant
from .emit import LlvmEmitter, ToBf16, vector
from .exact_casts import never_rounded
from .state import LlvmState
from .tiles import register_element

Converter = Callable[[LlvmEmitter, str, Attribute, Attribute, int], str]
"""Converts a register of some width between two element types."""


def _lower_conversion(state: LlvmState, operation: Operation) -> None:
    if (same := never_rounded(operation)) is not None:
        state.values[operation.results[0]] = state.values[same]
        return
    convert = _CONVERSIONS[operation.name]
    source, result = element_of(operation.operands[0]), element_of(operation.results[0])
    if isinstance(source, Float16Type) and not state.layout(operation.results[0].type).has_lanes:
        _extend_together(state, operation)
        return
    if state.emit.to_bf16 is ToBf16.FLUSHED and result == bf16 and source == f32 and _goes_to_units(operation):
        convert = _bfloat_by_instruction
    state.define_each(operation, lambda o, _, width: convert(state.emit, o[0], source, result, width))


def _goes_to_units(operation: Operation) -> bool:
    """Whether only dots on units take a result, which take elements below 2^-126 as 0."""
    users = [use.operation for use in operation.results[0].uses]
    return bool(users) and all(isinstance(user, WordsOp) for user in users)


MOST_TOGETHER = 8
"""Elements without lanes that one instruction extends."""


def _extend_together(state: LlvmState, operation: Operation) -> None:
    """f16 elements without lanes, extended as vectors: those along the last axis, which a vector load may give."""
    emit, tile = state.emit, state.tile(operation.operands[0])
    result = element_of(operation.results[0])
    names, row = list(tile.names), (tile.layout.sizes or (1,))[-1]
    count = min(MOST_TOGETHER, row & -row) if row else 1
    made: list[str] = []
    for first in range(0, len(names), count):
        together = names[first : first + count]
        if count == 1:
            made.append(extend(emit, together[0], Float16Type(), result, 1))
            continue
        wide = extend(emit, emit.gathered(together, "i16"), Float16Type(), result, count)
        made += [emit.extract(wide, lane, str(result), count) for lane in range(count)]
    state.define(operation.results[0], made)


def _lower_plain_cast(state: LlvmState, operation: Operation) -> None:
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
        if width == 1:
            emit.bits_are(single, value)
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
    if emit.to_bf16 is ToBf16.EXACT:
        return _bfloat_by_instruction(emit, single, f32, bf16, width)
    bits = emit.cast("arith.bitcast", single, "f32", "i32", width)
    high = _i32(emit, "shrui", bits, 16, width)
    even = _i32(emit, "andi", high, 1, width)
    up = _i32(emit, "addi", bits, _i32(emit, "addi", even, 0x7FFF, width), width)
    rounded = _i32(emit, "shrui", up, 16, width)
    nan = emit.pure(f"arith.cmpf uno, {single}, {single} : {vector('f32', width)}")
    quiet = _i32(emit, "ori", high, 0x40, width)
    return emit.cast("arith.trunci", emit.select(nan, quiet, rounded, "i32", width), "i32", "i16", width)


def _bfloat_by_instruction(emit: LlvmEmitter, single: str, source: Attribute, result: Attribute, width: int) -> str:
    narrow = emit.cast("arith.truncf", single, str(source), str(result), width)
    return emit.cast("arith.bitcast", narrow, str(result), "i16", width)


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
    **dict.fromkeys(("arith.bitcast", "arith.index_cast", "arith.sitofp", "arith.uitofp"), _lower_plain_cast),
    **dict.fromkeys(("arith.extsi", "arith.extui", "arith.trunci"), _lower_plain_cast),
}


LLVM_DIVISIONS = (
    "arith.divsi", "arith.divui", "arith.remsi", "arith.remui", "arith.floordivsi", "arith.ceildivsi",
    "arith.ceildivui",
)  # fmt: skip

LLVM_SHIFTS = ("arith.shli", "arith.shrsi", "arith.shrui")


@dataclass(frozen=True)
class _Lanes:
    """Integer operations on registers of one element type and width."""

    emit: LlvmEmitter
    element: str
    width: int

    def number(self, value: int) -> str:
        if self.element == "i64" and self.width == 1:
            return self.emit.number(value)
        text = str(bool(value)).lower() if self.element == "i1" else str(value)
        return self.emit.filled(text, self.element, self.width)

    def op(self, name: str, a: str, b: str) -> str:
        return self.emit.pure(f"arith.{name} {a}, {b} : {vector(self.element, self.width)}")

    def compare(self, predicate: str, a: str, b: str) -> str:
        return self.emit.pure(f"arith.cmpi {predicate}, {a}, {b} : {vector(self.element, self.width)}")

    def logic(self, name: str, a: str, b: str) -> str:
        return self.emit.pure(f"arith.{name} {a}, {b} : {vector('i1', self.width)}")

    def select(self, condition: str, a: str, b: str) -> str:
        return self.emit.select(condition, a, b, self.element, self.width)


def lower_division(state: LlvmState, operation: Operation) -> None:
    """Division and remainder, rounded toward 0, down or up."""
    kind = operation.name.removeprefix("arith.")
    state.define_each(operation, lambda o, element, width: _division(_Lanes(state.emit, element, width), kind, *o))


def _division(lanes: _Lanes, kind: str, a: str, b: str) -> str:
    zero = unsafe = lanes.compare("eq", b, lanes.number(0))
    signed = kind.endswith("si")
    if signed and lanes.element != "i1":
        least = -(1 << int(lanes.element[1:]) - 1)
        is_minus_one = lanes.compare("eq", b, lanes.number(-1))
        overflow = lanes.logic("andi", is_minus_one, lanes.compare("eq", a, lanes.number(least)))
        unsafe = lanes.logic("ori", zero, overflow)
    divisor = lanes.select(unsafe, lanes.number(1), b)
    if kind in ("divsi", "divui", "remsi", "remui"):
        return lanes.select(zero, lanes.number(0), lanes.op(kind, a, divisor))
    quotient = lanes.op("divsi" if signed else "divui", a, divisor)
    rest = lanes.op("subi", a, lanes.op("muli", quotient, divisor))
    inexact = lanes.compare("ne", rest, lanes.number(0))
    if signed:
        differ = lanes.compare("slt", lanes.op("xori", rest, divisor), lanes.number(0))
        same = lanes.compare("sge", lanes.op("xori", rest, divisor), lanes.number(0))
        inexact = lanes.logic("andi", inexact, differ if kind == "floordivsi" else same)
    step = lanes.number(-1 if kind == "floordivsi" else 1)
    rounded = lanes.select(inexact, lanes.op("addi", quotient, step), quotient)
    return lanes.select(zero, lanes.number(0), rounded)


def lower_shift(state: LlvmState, operation: Operation) -> None:
    """Shifts; an amount that is not below the width shifts everything out."""
    kind = operation.name.removeprefix("arith.")
    state.define_each(operation, lambda o, element, width: _shift(_Lanes(state.emit, element, width), kind, *o))


def _shift(lanes: _Lanes, kind: str, a: str, b: str) -> str:
    bits = int(lanes.element[1:])
    shifted = lanes.op(kind, a, lanes.op("minui", b, lanes.number(bits - 1)))
    if kind == "shrsi":
        return shifted
    return lanes.select(lanes.compare("ult", b, lanes.number(bits)), shifted, lanes.number(0))


_SUFFIX = {"f32": "ps", "f64": "pd"}
_CURRENT_ROUNDING = "4"


def lower_scale(state: LlvmState, operation: Operation) -> None:
    """Each register times two to the power of another."""
    state.define_each(operation, lambda o, element, width: _scale(state.emit, o[0], o[1], element, width))


def _scale(emit: LlvmEmitter, value: str, power: str, element: str, width: int) -> str:
    lanes = 16 // (4 if element == "f32" else 8)
    while lanes < width:
        lanes *= 2
    value, power = (emit.widened(one, element, width, lanes) for one in (value, power))
    return emit.narrowed(_call(emit, value, power, element, lanes), element, lanes, width)


def _call(emit: LlvmEmitter, value: str, power: str, element: str, lanes: int) -> str:
    bits = lanes * (32 if element == "f32" else 64)
    type_, mask = vector(element, lanes), "i16" if lanes == 16 else "i8"
    every = emit.constant("-1", mask)
    operands, types = [value, power, value, every], [type_, type_, type_, mask]
    if bits == 512:
        operands.append(emit.constant(_CURRENT_ROUNDING, "i32"))
        types.append("i32")
    name = f"llvm.x86.avx512.mask.scalef.{_SUFFIX[element]}.{bits}"
    return emit.pure(f'llvm.call_intrinsic "{name}"({", ".join(operands)}) : ({", ".join(types)}) -> {type_}')


CONTRACT = ("arith.addf", "arith.subf", "arith.mulf")
"""Operations that may become parts of a fused multiply-add, where they do not carry `vk.rounded`."""

LLVM_PLAIN = (
    *CONTRACT, "arith.divf", "arith.remf", "arith.negf", "arith.maxnumf", "arith.minnumf",
    "arith.addi", "arith.subi", "arith.muli", "arith.andi", "arith.ori", "arith.xori",
    "arith.maxsi", "arith.minsi", "arith.maxui", "arith.minui",
)  # fmt: skip

INTRINSICS = {
    "math.sqrt": "sqrt", "math.fma": "fma", "math.absf": "fabs", "math.floor": "floor", "math.ceil": "ceil",
    "math.trunc": "trunc", "math.roundeven": "roundeven", "math.round": "round", "math.copysign": "copysign",
    "math.ctpop": "ctpop", "math.absi": "abs", "math.ctlz": "ctlz", "math.cttz": "cttz",
}  # fmt: skip
"""The operations of math that remain once it is expanded, and the LLVM intrinsic of each."""

_FLAGS = {"abs": "is_int_min_poison", "ctlz": "is_zero_poison", "cttz": "is_zero_poison"}
"""Flags of intrinsics, which are false: the result is defined for every operand."""


def lower_plain(state: LlvmState, operation: Operation) -> None:
    """An operation that MLIR has on vectors under the same name."""
    is_index = state.scalar_width == 1 and str(operation.results[0].type) in ("i64", "index")
    if is_index and operation.name in ("arith.addi", "arith.muli"):
        _lower_folding(state, operation)
        return
    fusible = operation.name in CONTRACT and "vk.rounded" not in operation.attributes
    flags = " fastmath<contract>" if fusible else ""
    _lower_text(state, operation, f"{operation.name} ", flags)


def _lower_text(state: LlvmState, operation: Operation, start: str, flags: str = "") -> None:
    """One line of MLIR a register: the start, the operands, flags and the operands' type."""
    state.define_each(
        operation,
        lambda o, element, width: state.emit.pure(f"{start}{', '.join(o)}{flags} : {vector(element, width)}"),
    )


def _lower_folding(state: LlvmState, operation: Operation) -> None:
    """Scalar i64 arithmetic, from which indices are made: known numbers stay known."""
    a, b = (state.scalar(operand) for operand in operation.operands)
    emit = state.emit
    result = emit.add(a, b) if operation.name == "arith.addi" else emit.multiply(a, b)
    state.define(operation.results[0], [emit.number(result)])


def lower_intrinsic(state: LlvmState, operation: Operation) -> None:
    """An LLVM intrinsic whose operands and result have one type."""
    name = INTRINSICS[operation.name]
    intrinsic, flag = f"llvm.intr.{name}", ""
    if name in _FLAGS:
        intrinsic, flag = f'"{intrinsic}"', f" <{{{_FLAGS[name]} = false}}>"

    def make(operands: list[str], element: str, width: int) -> str:
        type_ = vector(element, width)
        types = ", ".join([type_] * len(operands))
        return state.emit.pure(f"{intrinsic}({', '.join(operands)}){flag} : ({types}) -> {type_}")

    state.define_each(operation, make)


def lower_compare(state: LlvmState, operation: arith.CmpfOp | arith.CmpiOp) -> None:
    _lower_text(state, operation, f"{operation.name} {operation.relation}, ")


def lower_select(state: LlvmState, operation: Operation) -> None:
    """`arith.select`; the condition may be a scalar."""
    condition, a, b = (state.tile(operand) for operand in operation.operands)
    names = []
    is_alike = condition.layout.widths() == a.layout.widths()
    for number, width in enumerate(a.layout.widths()):
        test, lanes = (condition.names[number], width) if is_alike else (condition.names[0], 1)
        names.append(state.emit.select(test, a.names[number], b.names[number], a.element, width, lanes))
    state.define(operation.results[0], names)


def lower_extremum(state: LlvmState, operation: Operation) -> None:
    """`arith.maximumf` and `minimumf`, which propagate NaN.

    A constant operand goes first: an x86 maximum gives its second operand if either is NaN, and LLVM knows that a
    constant is a number, so one instruction remains. A value that a loop carries goes last: the test of the other one
    for NaN then runs while the loop's last step is still being computed.
    """
    kind = "max" if operation.name == "arith.maximumf" else "min"
    one, other = operation.operands
    known = is_constant(one.owner) or is_constant(other.owner)
    swap = is_constant(other.owner) or (isinstance(one, BlockArgument) and not is_constant(one.owner))

    def make(operands: list[str], element: str, width: int) -> str:
        a, b = reversed(operands) if swap else operands
        return extremum(state.emit, kind, a, b, element, width, known)

    state.define_each(operation, make)


def extremum(emit: LlvmEmitter, kind: str, a: str, b: str, element: str, width: int, known: bool = False) -> str:
    """The larger (`max`) or smaller (`min`) of two floats, NaN if either is. Which of -0 and 0 is free.

    `known`: one of them is a constant. Otherwise the maximum is kept from being merged with the test for NaN: together
    they would no longer be an instruction that x86 has.
    """
    type_ = vector(element, width)
    first = emit.pure(f"arith.cmpf {'ogt' if kind == 'max' else 'olt'}, {a}, {b} : {type_}")
    number = emit.select(first, a, b, element, width)
    unordered = emit.pure(f"arith.cmpf uno, {a}, {a} : {type_}")
    if not known and width > 1:
        intrinsic = f'llvm.call_intrinsic "llvm.arithmetic.fence.v{width}{element}"'
        number = emit.pure(f"{intrinsic}({number}) : ({type_}) -> {type_}")
    return emit.select(unordered, a, number, element, width)


LLVM_ELEMENTWISE: dict[str, Handler] = {
    **dict.fromkeys(LLVM_PLAIN, lower_plain),
    **dict.fromkeys(INTRINSICS, lower_intrinsic),
    **dict.fromkeys(LLVM_DIVISIONS, lower_division),
    **dict.fromkeys(LLVM_SHIFTS, lower_shift),
    "arith.cmpf": lower_compare,
    "arith.cmpi": lower_compare,
    "arith.select": lower_select,
    "arith.maximumf": lower_extremum,
    "arith.minimumf": lower_extremum,
}
