"""Values to write formulas with: `Float`, `Integer` and `Boolean` record arith and math operations.

A value is a scalar, a vector or a tile; all values of one formula have the same shape. A `FormulaEmitter` collects the
operations, which are inserted before the operation that they replace; each constant is inserted once, at the start of
its block.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Self, TypeVar

from xdsl.dialects import math
from xdsl.dialects.builtin import Float32Type, IntegerAttr, IntegerType, TensorType, UnitAttr, VectorType, f32, f64, i1
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ...dialect import ScaleOp, arith
from ...dialect.combining import constant

Kind = type[Operation]

_EXACT: dict[str, Attribute] = {"fastmath": arith.FastMathFlagsAttr("none")}
_ROUNDED: dict[str, Attribute] = {"vk.rounded": UnitAttr()}
"""Formulas rely on every rounding: a lowering must not fuse an operation with this attribute with another."""
_FUSIBLE = (arith.AddfOp, arith.SubfOp, arith.MulfOp)
_WRAPS: dict[str, Attribute] = {"overflowFlags": arith.IntegerOverflowAttr("none")}


def with_elements(type_: Attribute, element: Attribute) -> Attribute:
    """The scalar, vector or tile type of the same shape that holds other elements."""
    if isinstance(type_, TensorType):
        return TensorType(element, type_.shape, type_.encoding)
    if isinstance(type_, VectorType):
        return VectorType(element, type_.get_shape(), type_.scalable_dims)
    return element


def elements(type_: Attribute) -> Attribute:
    """The element type of a vector or tile; a scalar's own type."""
    return type_.element_type if isinstance(type_, TensorType | VectorType) else type_


Constants = dict[tuple[Attribute, bytes], SSAValue]
"""The constants of one block, by type and bytes."""


class FormulaEmitter:
    """Collects the operations of one formula. `type`: of the replaced operation's result. `scales`: whether the
    processor has `vk.scale` as an instruction."""

    def __init__(self, replaced: Operation, block: Block, constants: Constants, scales: bool):
        self.replaced, self.block, self.constants, self.scales = replaced, block, constants, scales
        self.type = replaced.results[0].type
        self.operations: list[Operation] = []

    def constant(self, type_: Attribute, number: float | int) -> SSAValue:
        """A constant of a type, every element of it `number`."""
        key = type_, struct.pack("<d", number) if isinstance(number, float) else b"%d" % number
        if key not in self.constants:
            made = constant(type_, number)
            Rewriter.insert_op(made, InsertPoint.at_start(self.block))
            self.constants[key] = made.result
        return self.constants[key]

    def emit(
        self,
        kind: Kind,
        operands: Sequence[SSAValue],
        result: Attribute,
        properties: dict[str, Attribute] | None = None,
    ) -> SSAValue:
        """Append an operation, unverified; its result."""
        operation = kind.create(
            operands=operands,
            result_types=[result],
            properties=properties or {},
            attributes=_ROUNDED if kind in _FUSIBLE else {},
        )
        return self.append(operation)[0]

    def append(self, operation: Operation) -> Sequence[SSAValue]:
        """Append an operation, at the source location of the replaced one; its results."""
        operation.location = self.replaced.location
        self.operations.append(operation)
        return operation.results

    @contextmanager
    def nested(self) -> Iterator[list[Operation]]:
        """Collect operations in a separate list, for a region."""
        outer, self.operations = self.operations, []
        yield self.operations
        self.operations = outer


class Value:
    """A value in a formula."""

    __slots__ = ("emitter", "ssa")

    def __init__(self, emitter: FormulaEmitter, ssa: SSAValue):
        self.emitter, self.ssa = emitter, ssa

    @property
    def type(self) -> Attribute:
        return self.ssa.type

    @property
    def element(self) -> Attribute:
        return elements(self.type)

    def const(self, number: float | int) -> Self:
        """A constant of this value's type."""
        return type(self)(self.emitter, self.emitter.constant(self.type, number))

    def _wrap(self, other: Self | float | int) -> SSAValue:
        return other.ssa if isinstance(other, Value) else self.const(other).ssa

    def _same(self, kind: Kind, *others: Self | float | int, properties: dict[str, Attribute] | None = None) -> Self:
        """An operation whose operands and result are all of this value's type."""
        operands = [self.ssa, *(self._wrap(other) for other in others)]
        return type(self)(self.emitter, self.emitter.emit(kind, operands, self.type, properties))

    def _compare(self, kind: Kind, predicate: int, other: SSAValue, more: dict[str, Attribute]) -> Boolean:
        properties: dict[str, Attribute] = {"predicate": IntegerAttr(predicate, 64), **more}
        result = with_elements(self.type, i1)
        return Boolean(self.emitter, self.emitter.emit(kind, [self.ssa, other], result, properties))


class Boolean(Value):
    """A value of i1."""

    __slots__ = ()

    def __and__(self, other: Boolean) -> Boolean:
        return self._same(arith.AndIOp, other)

    def __or__(self, other: Boolean) -> Boolean:
        return self._same(arith.OrIOp, other)


def _integers(
    kind: Kind, properties: dict[str, Attribute] | None = None
) -> Callable[[Integer, Integer | int], Integer]:
    """A method: a binary operation on integers."""
    return lambda self, other: self._same(kind, other, properties=properties)


def _integer_comparison(predicate: str) -> Callable[[Integer, Integer | int], Boolean]:
    number = arith.CmpiOp.PREDICATES.index(predicate)
    return lambda self, other: self._compare(arith.CmpiOp, number, self._wrap(other), {})


class Integer(Value):
    """A value of integers. Arithmetic wraps around; `>>` keeps the sign."""

    __slots__ = ()

    __add__ = _integers(arith.AddiOp, _WRAPS)
    __sub__ = _integers(arith.SubiOp, _WRAPS)
    __mul__ = _integers(arith.MuliOp, _WRAPS)
    __and__ = _integers(arith.AndIOp)
    __lshift__ = _integers(arith.ShLIOp, _WRAPS)
    __rshift__ = _integers(arith.ShRSIOp)
    __lt__ = _integer_comparison("slt")
    equals = _integer_comparison("eq")

    def as_float(self) -> Float:
        """These bits, read as a float of the same width."""
        element = f32 if self.element == IntegerType(32) else f64
        return Float(self.emitter, self.emitter.emit(arith.BitcastOp, [self.ssa], with_elements(self.type, element)))

    def to_float(self) -> Float:
        """This number as a float of the same width; it must be less than 2**22 (i64: 2**51) in magnitude.

        Added to the bits of 1.5 * 2**23 it becomes the fraction of a float. Not every processor can convert i64.
        """
        single = self.element == IntegerType(32)
        rounder, magic = (0x4B400000, 1.5 * 2**23) if single else (0x4338000000000000, 1.5 * 2**52)
        return (self + rounder).as_float() - magic


def _unary(kind: Kind) -> Callable[[Float], Float]:
    """A method: a function of a float."""
    return lambda self: self._same(kind, properties=_EXACT)


def _binary(kind: Kind) -> Callable[[Float, Float | float], Float]:
    """A method: a function of two floats."""
    return lambda self, other: self._same(kind, other, properties=_EXACT)


def _comparison(predicate: str) -> Callable[[Float, Float | float], Boolean]:
    """A method: a comparison of floats."""
    number = arith.CmpfOp.PREDICATES.index(predicate)
    return lambda self, other: self._compare(arith.CmpfOp, number, self._wrap(other), dict(_EXACT))


class Float(Value):
    """A value of f32 or f64; every operation rounds to nearest even.

    `round`: to the nearest whole number, ties to even. `sign_of`: this magnitude with the other's sign. `differs`: not
    equal, or one of them NaN. `is_other_than`: not equal, and none of them NaN. `not_at_most`: greater, or one of them
    NaN. `unordered`: whether one of them is NaN.
    """

    __slots__ = ()

    @property
    def single(self) -> bool:
        """Whether it is f32."""
        return isinstance(self.element, Float32Type)

    __add__ = __radd__ = _binary(arith.AddfOp)
    __sub__ = _binary(arith.SubfOp)
    __mul__ = __rmul__ = _binary(arith.MulfOp)
    __truediv__ = _binary(arith.DivfOp)
    __neg__ = _unary(arith.NegfOp)
    __abs__ = _unary(math.AbsFOp)
    __lt__ = _comparison("olt")
    __gt__ = _comparison("ogt")
    equals = _comparison("oeq")
    differs = _comparison("une")
    is_other_than = _comparison("one")
    not_at_most = _comparison("ugt")
    unordered = _comparison("uno")
    sqrt = _unary(math.SqrtOp)
    exp2 = _unary(math.Exp2Op)
    floor = _unary(math.FloorOp)
    round = _unary(math.RoundEvenOp)
    sign_of = _binary(math.CopySignOp)

    def __rsub__(self, other: float) -> Float:
        return self.const(other) - self

    def __rtruediv__(self, other: float) -> Float:
        return self.const(other) / self

    def fma(self, factor: Float | float, addend: Float | float) -> Float:
        """self * factor + addend, rounded once."""
        return self._same(math.FmaOp, factor, addend, properties=_EXACT)

    def scaled(self, power: Float) -> Float:
        """self * 2**power for a whole `power`, rounded once."""
        return self._same(ScaleOp, power)

    def at_most(self, bound: float) -> Float:
        """The smaller of this and a bound; NaN stays NaN. (This order of operands is one instruction on x86.)"""
        high = self.const(bound)
        return select(high < self, high, self)

    def at_least(self, bound: float) -> Float:
        """The larger of this and a bound; NaN stays NaN."""
        low = self.const(bound)
        return select(low > self, low, self)

    def bits(self) -> Integer:
        """The bits, as an integer of the same width."""
        result = with_elements(self.type, IntegerType(32 if self.single else 64))
        return Integer(self.emitter, self.emitter.emit(arith.BitcastOp, [self.ssa], result))

    def widen(self) -> Float:
        """An f32 value as f64."""
        return Float(self.emitter, self.emitter.emit(arith.ExtFOp, [self.ssa], with_elements(self.type, f64)))

    def narrow(self) -> Float:
        """An f64 value rounded to f32."""
        return Float(self.emitter, self.emitter.emit(arith.TruncFOp, [self.ssa], with_elements(self.type, f32)))


V = TypeVar("V", Float, Integer)


def select(condition: Boolean, yes: V | float | int, no: V) -> V:
    """`yes` where the condition holds, else `no`, element by element."""
    chosen = no._wrap(yes)
    return type(no)(no.emitter, no.emitter.emit(arith.SelectOp, [condition.ssa, chosen, no.ssa], no.type))
