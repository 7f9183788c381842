"""Integers and conditions of one program, folded where they are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from xdsl.builder import Builder
from xdsl.dialects.builtin import i1, i64
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint

from ...analysis.piecewise import constant_in
from ...dialect import arith
from ...dialect.combining import constant

IntegerOp = (
    arith.AddiOp | arith.SubiOp | arith.MuliOp | arith.MinSIOp | arith.MaxSIOp | arith.RemSIOp | arith.FloorDivSIOp
    | arith.AndIOp | arith.OrIOp
)  # fmt: skip
Scalar = int | SSAValue
Truth = bool | SSAValue


@dataclass(frozen=True)
class Scalars:
    """Emits i64 arithmetic at one place."""

    at: InsertPoint
    _made: dict[object, SSAValue] = field(default_factory=dict)

    def value(self, number: Scalar) -> SSAValue:
        """An SSA value."""
        if isinstance(number, SSAValue):
            return number
        return self._once(number, lambda builder: builder.insert(constant(i64, number)).result)

    def known(self, value: SSAValue) -> Scalar:
        """A value as a number, if it is a constant."""
        number = constant_in(value)
        return value if number is None else number

    def add(self, a: Scalar, b: Scalar) -> Scalar:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0 or b == 0:
            return b if a == 0 else a
        return self._emit(arith.AddiOp, a, b)

    def subtract(self, a: Scalar, b: Scalar) -> Scalar:
        if isinstance(b, int):
            return self.add(a, -b)
        return 0 if a is b else self._emit(arith.SubiOp, a, b)

    def times(self, a: Scalar, factor: int) -> Scalar:
        if isinstance(a, int):
            return a * factor
        if factor in (0, 1):
            return a if factor else 0
        return self.subtract(0, a) if factor == -1 else self._emit(arith.MuliOp, a, factor)

    def least(self, a: Scalar, b: Scalar) -> Scalar:
        return min(a, b) if isinstance(a, int) and isinstance(b, int) else self._emit(arith.MinSIOp, a, b)

    def most(self, a: Scalar, b: Scalar) -> Scalar:
        return max(a, b) if isinstance(a, int) and isinstance(b, int) else self._emit(arith.MaxSIOp, a, b)

    def remainder(self, a: Scalar, divisor: Scalar) -> Scalar:
        """The rest of a division by a positive number that rounds down."""
        if isinstance(a, int) and isinstance(divisor, int):
            return a % divisor if divisor > 0 else 0
        rest = self._emit(arith.RemSIOp, a, divisor)
        return self.choose(self.is_at_least(rest, 0), rest, self.add(rest, divisor))

    def quotient(self, a: Scalar, divisor: Scalar) -> Scalar:
        """The quotient of a division by a positive number, rounded down."""
        if isinstance(a, int) and isinstance(divisor, int):
            return a // divisor if divisor > 0 else 0
        return self._emit(arith.FloorDivSIOp, a, divisor)

    def product(self, a: Scalar, b: Scalar) -> Scalar:
        if isinstance(a, int):
            a, b = b, a
        return self.times(a, b) if isinstance(b, int) else self._emit(arith.MuliOp, a, b)

    def is_at_least(self, a: Scalar, b: Scalar) -> Truth:
        if isinstance(a, int) and isinstance(b, int):
            return a >= b
        if a is b:
            return True
        one, other = self.value(a), self.value(b)
        make = lambda builder: builder.insert(arith.CmpiOp(one, other, "sge")).results[0]  # noqa: E731
        return self._once(("sge", one, other), make)

    def truth(self, value: Truth) -> SSAValue:
        """An SSA value of a condition."""
        if isinstance(value, SSAValue):
            return value
        return self._once(("truth", value), lambda builder: builder.insert(constant(i1, value)).result)

    def both(self, a: Truth, b: Truth) -> Truth:
        if isinstance(a, bool):
            return b if a else False
        return self.both(b, a) if isinstance(b, bool) else self._emit(arith.AndIOp, a, b)

    def either(self, a: Truth, b: Truth) -> Truth:
        if isinstance(a, bool):
            return True if a else b
        return self.either(b, a) if isinstance(b, bool) else self._emit(arith.OrIOp, a, b)

    def choose(self, condition: Truth, a: Scalar, b: Scalar) -> Scalar:
        if isinstance(condition, bool):
            return a if condition else b
        if a is b:
            return a
        one, other = self.value(a), self.value(b)
        make = lambda builder: builder.insert(arith.SelectOp(condition, one, other)).result  # noqa: E731
        return self._once(("select", condition, one, other), make)

    def _emit(self, kind: type[IntegerOp], a: Scalar, b: Scalar) -> SSAValue:
        one, other = self.value(a), self.value(b)
        make = lambda builder: builder.insert(kind(one, other)).results[0]  # noqa: E731
        return self._once((kind, one, other), make)

    def _once(self, key: object, make: Callable[[Builder], SSAValue]) -> SSAValue:
        if key not in self._made:
            self._made[key] = make(Builder(self.at))
        return self._made[key]
