"""Values to write formulas with: `Float`, `Integer` and `Boolean` record what is done with them as arith and math.

A value is a scalar, a vector or a tile; all values of one formula have the same shape. Operations collect in an
`FormulaEmitter` and are inserted before the operation that they replace; constants go to the start of its block, once
each.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Self, TypeVar

from xdsl.dialects import math
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    Float32Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    UnitAttr,
    VectorType,
    f32,
    f64,
    i1,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ...dialect import ScaleOp, arith

Kind = type[Operation]

_EXACT: dict[str, Attribute] = {"fastmath": arith.FastMathFlagsAttr("none")}
_ROUNDED: dict[str, Attribute] = {"vk.rounded": UnitAttr()}
"""Formulas rely on every rounding: a lowering must not fuse an operation that has this attribute with another."""
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


class ConstantCache:
    """The constants of one block: each built once, before the block's first operation."""

    def __init__(self, block: Block):
        self._block = block
        self._known: dict[tuple[Attribute, bytes], SSAValue] = {}

    def get(self, type_: Attribute, number: float | int) -> SSAValue:
        """A constant of that type, every element of it `number`."""
        key = type_, struct.pack("<d", number) if isinstance(number, float) else b"%d" % number
        if key not in self._known:
            constant = arith.ConstantOp.create(result_types=[type_], properties={"value": _attribute(type_, number)})
            first = self._block.first_op
            if first is None:
                self._block.add_op(constant)
            else:
                self._block.insert_op_before(constant, first)
            self._known[key] = constant.result
        return self._known[key]


def _attribute(type_: Attribute, number: float | int) -> Attribute:
    if isinstance(type_, TensorType | VectorType):
        return DenseIntOrFPElementsAttr.from_list(type_, [number])
    if isinstance(type_, IntegerType):
        return IntegerAttr(int(number), type_)
    return FloatAttr(float(number), f32 if type_ == f32 else f64)


class FormulaEmitter:
    """Collects the operations of one formula. `type` is the type of the replaced operation's result; `scales`: whether
    the processor has `vk.scale` as an instruction."""

    def __init__(self, replaced: Operation, constants: ConstantCache, scales: bool = False):
        self.replaced, self.constants, self.scales = replaced, constants, scales
        self.type = replaced.results[0].type
        self.operations: list[Operation] = []

    def emit(
        self,
        kind: Kind,
        operands: Sequence[SSAValue],
        result: Attribute,
        properties: dict[str, Attribute] | None = None,
    ) -> SSAValue:
        """Append an operation, unverified, at the source location of the one that is replaced."""
        operation = kind.create(
            operands=operands,
            result_types=[result],
            properties=properties or {},
            attributes=_ROUNDED if kind in _FUSIBLE else {},
            location=self.replaced.location,
        )
        self.operations.append(operation)
        return operation.results[0]


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
        return type(self)(self.emitter, self.emitter.constants.get(self.type, number))

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


class Integer(Value):
    """A value of integers; arithmetic wraps around."""

    __slots__ = ()

    def __add__(self, other: Integer | int) -> Integer:
        return self._same(arith.AddiOp, other, properties=_WRAPS)

    def __sub__(self, other: Integer | int) -> Integer:
        return self._same(arith.SubiOp, other, properties=_WRAPS)

    def __mul__(self, other: Integer | int) -> Integer:
        return self._same(arith.MuliOp, other, properties=_WRAPS)

    def __and__(self, other: Integer | int) -> Integer:
        return self._same(arith.AndIOp, other)

    def __or__(self, other: Integer | int) -> Integer:
        return self._same(arith.OrIOp, other)

    def __xor__(self, other: Integer | int) -> Integer:
        return self._same(arith.XOrIOp, other)

    def __lshift__(self, other: Integer | int) -> Integer:
        return self._same(arith.ShLIOp, other, properties=_WRAPS)

    def __rshift__(self, other: int) -> Integer:
        """Arithmetic: the sign is kept."""
        return self._same(arith.ShRSIOp, other)

    def equals(self, other: Integer | int) -> Boolean:
        return self._compare(arith.CmpiOp, arith.CmpiOp.PREDICATES.index("eq"), self._wrap(other), {})

    def __lt__(self, other: Integer | int) -> Boolean:
        return self._compare(arith.CmpiOp, arith.CmpiOp.PREDICATES.index("slt"), self._wrap(other), {})

    def as_float(self) -> Float:
        """These bits, read as a float of the same width."""
        element = f32 if elements(self.type) == IntegerType(32) else f64
        return Float(self.emitter, self.emitter.emit(arith.BitcastOp, [self.ssa], with_elements(self.type, element)))

    def to_float(self) -> Float:
        """This number as a float of the same width; it must be less than 2**22 (i64: 2**51) in magnitude.

        Added to the bits of 1.5 * 2**23 it is the fraction of a float: every processor can do that, not so convert i64.
        """
        single = elements(self.type) == IntegerType(32)
        rounder, magic = (0x4B400000, 1.5 * 2**23) if single else (0x4338000000000000, 1.5 * 2**52)
        return (self + rounder).as_float() - magic


class Float(Value):
    """A value of f32 or f64; every operation rounds to nearest even."""

    __slots__ = ()

    @property
    def single(self) -> bool:
        """Whether it is f32."""
        return isinstance(elements(self.type), Float32Type)

    def __add__(self, other: Float | float) -> Float:
        return self._same(arith.AddfOp, other, properties=_EXACT)

    def __sub__(self, other: Float | float) -> Float:
        return self._same(arith.SubfOp, other, properties=_EXACT)

    def __mul__(self, other: Float | float) -> Float:
        return self._same(arith.MulfOp, other, properties=_EXACT)

    def __truediv__(self, other: Float | float) -> Float:
        return self._same(arith.DivfOp, other, properties=_EXACT)

    def __rsub__(self, other: float) -> Float:
        return self.const(other) - self

    def __rtruediv__(self, other: float) -> Float:
        return self.const(other) / self

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Float:
        return self._same(arith.NegfOp, properties=_EXACT)

    def __abs__(self) -> Float:
        return self._same(math.AbsFOp, properties=_EXACT)

    def fma(self, factor: Float | float, addend: Float | float) -> Float:
        """self * factor + addend, rounded once."""
        return self._same(math.FmaOp, factor, addend, properties=_EXACT)

    def scaled(self, power: Float) -> Float:
        """self * 2**power for a whole `power`, rounded once."""
        return self._same(ScaleOp, power)

    def sqrt(self) -> Float:
        return self._same(math.SqrtOp, properties=_EXACT)

    def floor(self) -> Float:
        return self._same(math.FloorOp, properties=_EXACT)

    def round(self) -> Float:
        """The nearest whole number, ties to even."""
        return self._same(math.RoundEvenOp, properties=_EXACT)

    def sign_of(self, other: Float) -> Float:
        """This magnitude with the other's sign."""
        return self._same(math.CopySignOp, other, properties=_EXACT)

    def _compare_floats(self, predicate: str, other: Float | float) -> Boolean:
        number = arith.CmpfOp.PREDICATES.index(predicate)
        return self._compare(arith.CmpfOp, number, self._wrap(other), dict(_EXACT))

    def __lt__(self, other: Float | float) -> Boolean:
        return self._compare_floats("olt", other)

    def __gt__(self, other: Float | float) -> Boolean:
        return self._compare_floats("ogt", other)

    def equals(self, other: Float | float) -> Boolean:
        return self._compare_floats("oeq", other)

    def differs(self, other: Float | float) -> Boolean:
        """Not equal, or one of them NaN."""
        return self._compare_floats("une", other)

    def not_at_most(self, bound: float) -> Boolean:
        """Greater than a bound, or NaN."""
        return self._compare_floats("ugt", bound)

    def unordered(self, other: Float) -> Boolean:
        """Whether one of the two is NaN."""
        return self._compare_floats("uno", other)

    def at_most(self, bound: float) -> Float:
        """The lesser of this and a bound; NaN stays NaN. (This order of operands is one instruction on x86.)"""
        high = self.const(bound)
        return select(high < self, high, self)

    def at_least(self, bound: float) -> Float:
        """The greater of this and a bound; NaN stays NaN."""
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
