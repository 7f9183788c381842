"""Integer division, remainder and shifts, defined for every operand.

Inactive elements are 0, and a division by 0 would end the process, so here x / 0 and x % 0 are 0 and the least
integer divided by -1 is itself. A shift by the width or more gives 0, or the sign.
"""

from __future__ import annotations

from xdsl.ir import Operation

from .constants import filled
from .emit import LlvmEmitter, vector
from .state import LlvmState
from .tiles import RegisterTile

LLVM_DIVISIONS = (
    "arith.divsi", "arith.divui", "arith.remsi", "arith.remui", "arith.floordivsi", "arith.ceildivsi",
    "arith.ceildivui",
)  # fmt: skip

LLVM_SHIFTS = ("arith.shli", "arith.shrsi", "arith.shrui")


class _Lane:
    """Integer operations on registers of one width."""

    def __init__(self, emit: LlvmEmitter, element: str, width: int):
        self.emit, self.element, self.width = emit, element, width
        self.type = vector(element, width)

    def number(self, value: int) -> str:
        if self.element == "i1":
            return filled(self.emit, "true" if value else "false", "i1", self.width)
        if self.element == "i64" and self.width == 1:
            return self.emit.number(value)
        return filled(self.emit, str(value), self.element, self.width)

    def op(self, name: str, a: str, b: str) -> str:
        return self.emit.pure(f"arith.{name} {a}, {b} : {self.type}")

    def compare(self, predicate: str, a: str, b: str) -> str:
        return self.emit.pure(f"arith.cmpi {predicate}, {a}, {b} : {self.type}")

    def both(self, a: str, b: str) -> str:
        return self.emit.pure(f"arith.andi {a}, {b} : {vector('i1', self.width)}")

    def either(self, a: str, b: str) -> str:
        return self.emit.pure(f"arith.ori {a}, {b} : {vector('i1', self.width)}")

    def select(self, condition: str, a: str, b: str) -> str:
        types = self.type if self.width == 1 else f"{vector('i1', self.width)}, {self.type}"
        return self.emit.pure(f"arith.select {condition}, {a}, {b} : {types}")


def _lanes(state: LlvmState, tile: RegisterTile) -> list[_Lane]:
    made = {width: _Lane(state.emit, tile.element, width) for width in set(tile.layout.widths())}
    return [made[width] for width in tile.layout.widths()]


def lower_division(state: LlvmState, operation: Operation) -> None:
    """Division and remainder, rounded toward 0, down or up."""
    left, right = (state.tile(operand) for operand in operation.operands)
    kind = operation.name.removeprefix("arith.")
    names = [
        _division(lane, kind, a, b) for lane, a, b in zip(_lanes(state, left), left.names, right.names, strict=True)
    ]
    state.define(operation.results[0], names)


def _division(lane: _Lane, kind: str, a: str, b: str) -> str:
    zero = lane.compare("eq", b, lane.number(0))
    unsafe = zero
    signed = kind.endswith("si")
    if signed and lane.element != "i1":
        least = -(1 << int(lane.element[1:]) - 1)
        overflow = lane.both(lane.compare("eq", b, lane.number(-1)), lane.compare("eq", a, lane.number(least)))
        unsafe = lane.either(zero, overflow)
    divisor = lane.select(unsafe, lane.number(1), b)
    if kind in ("divsi", "divui", "remsi", "remui"):
        return lane.select(zero, lane.number(0), lane.op(kind, a, divisor))
    quotient = lane.op("divsi" if signed else "divui", a, divisor)
    rest = lane.op("subi", a, lane.op("muli", quotient, divisor))
    inexact = lane.compare("ne", rest, lane.number(0))
    if signed:
        differ = lane.compare("slt", lane.op("xori", rest, divisor), lane.number(0))
        same = lane.compare("sge", lane.op("xori", rest, divisor), lane.number(0))
        inexact = lane.both(inexact, differ if kind == "floordivsi" else same)
    step = lane.number(-1 if kind == "floordivsi" else 1)
    rounded = lane.select(inexact, lane.op("addi", quotient, step), quotient)
    return lane.select(zero, lane.number(0), rounded)


def lower_shift(state: LlvmState, operation: Operation) -> None:
    """Shifts; an amount that is not below the width shifts everything out."""
    left, right = (state.tile(operand) for operand in operation.operands)
    kind, bits = operation.name.removeprefix("arith."), int(left.element[1:])
    names = []
    for lane, a, b in zip(_lanes(state, left), left.names, right.names, strict=True):
        amount = lane.op("minui", b, lane.number(bits - 1))
        shifted = lane.op(kind, a, amount)
        if kind != "shrsi":
            shifted = lane.select(lane.compare("ult", b, lane.number(bits)), shifted, lane.number(0))
        names.append(shifted)
    state.define(operation.results[0], names)
