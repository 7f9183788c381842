"""arith on tiles and scalars, with the hardware's arithmetic: nothing is wider or narrower than its type says.

Where the hardware's result is undefined, it is the same always here (division by zero gives 0; a shift by the
width or more gives 0, or the sign), and no error: a masked element may well hold such operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, Float32Type, Float64Type, FloatAttr, IntegerAttr
from xdsl.interpreter import Interpreter, InterpreterFunctions, PythonValues, impl, register_impls
from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation

from ..dialect import ScaleOp, arith, element_of
from ..errors import IRError
from .numbers import (
    Array,
    dtype_of,
    from_storage,
    is_float,
    rounded,
    signed,
    storage_of,
    to_integer,
    to_storage,
    unsigned,
    wrapped,
)

Function = Callable[..., Array]


def functions_of(name: str, table: Mapping[type[IRDLOperation], Function]) -> InterpreterFunctions:
    """Implementations of elementwise operations: from each, the arrays of its operands to those of its result."""
    methods = {op.__name__: impl(op)(_elementwise(function)) for op, function in table.items()}
    functions: type[InterpreterFunctions] = type(name, (InterpreterFunctions,), methods)
    return register_impls(functions)()


def _elementwise(function: Function) -> Any:
    def run(_: Any, interpreter: Interpreter, op: Operation, args: PythonValues) -> PythonValues:
        element = element_of(op.results[0])
        if is_float(element):
            return (rounded(function(*args), element),)
        return (wrapped(function(*map(signed, args)), dtype_of(element)),)

    return run


def _maximum(a: Array, b: Array) -> Array:
    """The larger, NaN if either is, +0 above -0."""
    return np.asarray(np.where((a == 0) & (b == 0), a + b, np.maximum(a, b)))


def _minimum(a: Array, b: Array) -> Array:
    return -_maximum(-a, -b)


def _divide(a: Array, b: Array) -> Array:
    """Integer division towards zero; by zero it gives 0."""
    quotient = _floor_divide(a, b)
    inexact = quotient * b != a
    return np.asarray(quotient + ((a < 0) != (b < 0)) * inexact.astype(a.dtype) * (b != 0)).astype(a.dtype)


def _floor_divide(a: Array, b: Array) -> Array:
    zero = b == 0
    return np.asarray(np.where(zero, 0, np.floor_divide(a, np.where(zero, 1, b).astype(b.dtype)))).astype(a.dtype)


def _ceil_divide(a: Array, b: Array) -> Array:
    quotient = _floor_divide(a, b)
    return np.asarray(quotient + ((quotient * b != a) & (b != 0)).astype(a.dtype)).astype(a.dtype)


def _remainder(a: Array, b: Array) -> Array:
    """What division towards zero leaves, with the dividend's sign; by zero it gives 0, as processors are made to."""
    return np.asarray(np.where(b == 0, 0, a - _divide(a, b) * b)).astype(a.dtype)


def _on_unsigned(function: Function) -> Function:
    return lambda a, b: function(unsigned(a), unsigned(b))


def _shift(function: Function, beyond: Callable[[Array], Array | int]) -> Function:
    """A shift whose amount is below the width; `beyond` gives the result of any other."""

    def run(a: Array, b: Array) -> Array:
        width = a.dtype.itemsize * 8
        inside = (b >= 0) & (b < width)
        return np.asarray(np.where(inside, function(a, np.where(inside, b, 0).astype(a.dtype)), beyond(a)))

    return run


def _logical_right(a: Array, b: Array) -> Array:
    return np.asarray(np.right_shift(unsigned(a), unsigned(b))).view(a.dtype)


def _scaled(value: Array, power: Array) -> Array:
    """Of powers as far from 0 as these nothing is left, or nothing but infinity."""
    steps = np.clip(np.nan_to_num(power), -5000, 5000).astype(np.int32)
    return np.asarray(np.where(np.isnan(power), power, np.ldexp(value, steps)))


NUMPY_ELEMENTWISE: dict[type[IRDLOperation], Function] = {
    ScaleOp: _scaled,
    arith.AddfOp: np.add,
    arith.SubfOp: np.subtract,
    arith.MulfOp: np.multiply,
    arith.DivfOp: np.divide,
    arith.NegfOp: np.negative,
    arith.MaximumfOp: _maximum,
    arith.MinimumfOp: _minimum,
    arith.MaxnumfOp: np.fmax,
    arith.MinnumfOp: np.fmin,
    arith.AddiOp: np.add,
    arith.SubiOp: np.subtract,
    arith.MuliOp: np.multiply,
    arith.DivSIOp: _divide,
    arith.DivUIOp: _on_unsigned(_floor_divide),
    arith.FloorDivSIOp: _floor_divide,
    arith.CeilDivSIOp: _ceil_divide,
    arith.CeilDivUIOp: _on_unsigned(_ceil_divide),
    arith.RemSIOp: _remainder,
    arith.RemUIOp: _on_unsigned(_remainder),
    arith.MaxSIOp: np.maximum,
    arith.MinSIOp: np.minimum,
    arith.MaxUIOp: _on_unsigned(np.maximum),
    arith.MinUIOp: _on_unsigned(np.minimum),
    arith.AndIOp: np.bitwise_and,
    arith.OrIOp: np.bitwise_or,
    arith.XOrIOp: np.bitwise_xor,
    arith.ShLIOp: _shift(np.left_shift, lambda a: 0),
    arith.ShRSIOp: _shift(np.right_shift, lambda a: a >> np.array(a.dtype.itemsize * 8 - 1, a.dtype)),
    arith.ShRUIOp: _shift(_logical_right, lambda a: 0),
}

_INTEGER_PREDICATES: tuple[tuple[Callable[[Array], Array], Function], ...] = (
    (signed, np.equal),
    (signed, np.not_equal),
    (signed, np.less),
    (signed, np.less_equal),
    (signed, np.greater),
    (signed, np.greater_equal),
    (unsigned, np.less),
    (unsigned, np.less_equal),
    (unsigned, np.greater),
    (unsigned, np.greater_equal),
)
"""By number: eq, ne, then signed and unsigned lt, le, gt, ge."""

_FLOAT_ORDERED: tuple[Function, ...] = (
    lambda a, b: np.zeros(np.broadcast(a, b).shape, np.bool_),
    np.equal,
    np.greater,
    np.greater_equal,
    np.less,
    np.less_equal,
    lambda a, b: (a < b) | (a > b),
    lambda a, b: ~(np.isnan(a) | np.isnan(b)),
)
"""By number: false, oeq, ogt, oge, olt, ole, one, ord."""
_FLOAT_UNORDERED: tuple[Function, ...] = (
    np.equal,
    np.greater,
    np.greater_equal,
    np.less,
    np.less_equal,
    np.not_equal,
    lambda a, b: np.zeros(np.broadcast(a, b).shape, np.bool_),
    lambda a, b: np.ones(np.broadcast(a, b).shape, np.bool_),
)
"""By number from 8: ueq, ugt, uge, ult, ule, une, uno, true; all hold where an operand is NaN."""


@register_impls
class ArithFunctions(InterpreterFunctions):
    """Constants, comparisons, selection, conversions and operations of two results."""

    @impl(arith.ConstantOp)
    def constant(self, interpreter: Interpreter, op: arith.ConstantOp, args: PythonValues) -> PythonValues:
        value = op.value
        dtype = dtype_of(element_of(op.result))
        match value:
            case IntegerAttr() | FloatAttr():
                return (_number(value.value.data, dtype),)
            case DenseIntOrFPElementsAttr():
                shape = value.get_shape()
                numbers = np.array([_number(v, dtype) for v in value.get_values()], dtype)
                return (np.broadcast_to(numbers[0], shape) if numbers.size == 1 else numbers.reshape(shape),)
            case _:
                raise IRError(f"the constant {value} is neither a number nor dense")

    @impl(arith.CmpiOp)
    def compare_integers(self, interpreter: Interpreter, op: arith.CmpiOp, args: PythonValues) -> PythonValues:
        view, function = _INTEGER_PREDICATES[op.predicate.value.data]
        return (np.asarray(function(view(args[0]), view(args[1]))),)

    @impl(arith.CmpfOp)
    def compare_floats(self, interpreter: Interpreter, op: arith.CmpfOp, args: PythonValues) -> PythonValues:
        number = op.predicate.value.data
        a, b = args
        if number < 8:
            return (np.asarray(_FLOAT_ORDERED[number](a, b)),)
        return (np.asarray(_FLOAT_UNORDERED[number - 8](a, b) | np.isnan(a) | np.isnan(b)),)

    @impl(arith.SelectOp)
    def select(self, interpreter: Interpreter, op: arith.SelectOp, args: PythonValues) -> PythonValues:
        return (np.where(*args),)

    @impl(arith.ExtFOp)
    def extend_float(self, interpreter: Interpreter, op: arith.ExtFOp, args: PythonValues) -> PythonValues:
        return (rounded(args[0], element_of(op.result)),)

    @impl(arith.TruncFOp)
    def truncate_float(self, interpreter: Interpreter, op: arith.TruncFOp, args: PythonValues) -> PythonValues:
        return (rounded(args[0], element_of(op.result)),)

    @impl(arith.SIToFPOp)
    def signed_to_float(self, interpreter: Interpreter, op: arith.SIToFPOp, args: PythonValues) -> PythonValues:
        return (_integer_to_float(signed(args[0]), element_of(op.result)),)

    @impl(arith.UIToFPOp)
    def unsigned_to_float(self, interpreter: Interpreter, op: arith.UIToFPOp, args: PythonValues) -> PythonValues:
        return (_integer_to_float(unsigned(args[0]), element_of(op.result)),)

    @impl(arith.FPToSIOp)
    def float_to_signed(self, interpreter: Interpreter, op: arith.FPToSIOp, args: PythonValues) -> PythonValues:
        return (to_integer(args[0], dtype_of(element_of(op.result))),)

    @impl(arith.FPToUIOp)
    def float_to_unsigned(self, interpreter: Interpreter, op: arith.FPToUIOp, args: PythonValues) -> PythonValues:
        return (to_integer(args[0], dtype_of(element_of(op.result)), signed=False),)

    @impl(arith.ExtSIOp)
    def extend_signed(self, interpreter: Interpreter, op: arith.ExtSIOp, args: PythonValues) -> PythonValues:
        return (wrapped(signed(args[0]), dtype_of(element_of(op.result))),)

    @impl(arith.ExtUIOp)
    def extend_unsigned(self, interpreter: Interpreter, op: arith.ExtUIOp, args: PythonValues) -> PythonValues:
        return (wrapped(unsigned(args[0]), dtype_of(element_of(op.result))),)

    @impl(arith.TruncIOp)
    def truncate_integer(self, interpreter: Interpreter, op: arith.TruncIOp, args: PythonValues) -> PythonValues:
        return (wrapped(args[0], dtype_of(element_of(op.result))),)

    @impl(arith.IndexCastOp)
    def cast_index(self, interpreter: Interpreter, op: arith.IndexCastOp, args: PythonValues) -> PythonValues:
        return (wrapped(signed(args[0]), dtype_of(element_of(op.result))),)

    @impl(arith.BitcastOp)
    def bitcast(self, interpreter: Interpreter, op: arith.BitcastOp, args: PythonValues) -> PythonValues:
        target = element_of(op.result)
        stored = to_storage(args[0], element_of(op.input))
        return (from_storage(stored.view(storage_of(target)), target),)

    @impl(arith.AddUIExtendedOp)
    def add_extended(self, interpreter: Interpreter, op: arith.AddUIExtendedOp, args: PythonValues) -> PythonValues:
        a, b = map(unsigned, args)
        dtype = dtype_of(element_of(op.sum))
        total = wrapped(a + b, dtype)
        return total, np.asarray(unsigned(total) < a)

    @impl(arith.MulSIExtendedOp)
    def multiply_signed(self, interpreter: Interpreter, op: arith.MulSIExtendedOp, args: PythonValues) -> PythonValues:
        return _multiply_extended(signed(args[0]), signed(args[1]), dtype_of(element_of(op.high)))

    @impl(arith.MulUIExtendedOp)
    def multiply_unsigned(
        self, interpreter: Interpreter, op: arith.MulUIExtendedOp, args: PythonValues
    ) -> PythonValues:
        return _multiply_extended(unsigned(args[0]), unsigned(args[1]), dtype_of(element_of(op.high)))


def _number(value: float, dtype: np.dtype[Any]) -> Array:
    """A constant; integers may be written as signed or as unsigned."""
    if dtype.kind == "i":
        return np.array(int(value) & (2 ** (8 * dtype.itemsize) - 1), f"u{dtype.name}").view(dtype)
    return np.array(value, dtype)


def _integer_to_float(array: Array, element: Attribute) -> Array:
    """Rounded once; to f16 and bf16 by way of f64, which holds all but the largest i64 exactly."""
    if isinstance(element, Float32Type | Float64Type):
        return array.astype(dtype_of(element))
    return rounded(array.astype(np.float64), element)


def _multiply_extended(a: Array, b: Array, dtype: np.dtype[Any]) -> PythonValues:
    """Low and high halves of the products."""
    bits = 1 if dtype == np.bool_ else 8 * dtype.itemsize
    product = np.asarray(a.astype(object) * b.astype(object))
    low = np.array(product & (2**bits - 1), dtype=object).astype(np.uint64)
    high = np.array((product >> bits) & (2**bits - 1), dtype=object).astype(np.uint64)
    return wrapped(low, dtype), wrapped(high, dtype)
