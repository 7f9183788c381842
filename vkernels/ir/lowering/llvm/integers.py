"""Integer division, remainder and shifts, defined for every operand.

Inactive elements are 0, and a division by 0 would end the process, so here x / 0 and x % 0 are 0 and the least
integer divided by -1 is itself. A shift by the width or more gives 0, or the sign.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation

from .emit import LlvmEmitter, vector
from .state import LlvmState

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
