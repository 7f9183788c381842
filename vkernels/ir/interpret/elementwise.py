"""arith and math on tiles and scalars, with the hardware's arithmetic: a type is never wider or narrower than it says.

math is computed in higher precision than the type has, then rounded to it.

Where the hardware's result is undefined, the result here is fixed and no error, because a masked element may hold such
operands: a division by zero gives 0, a shift by the width or more gives 0 or the sign.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects import math as maths
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, Float32Type, Float64Type, FloatAttr, IntegerAttr
from xdsl.ir import Attribute, Operation

from ..dialect import arith, element_of
from ..errors import IRError
from .numbers import (
    Array,
    dtype_of,
    from_storage,
    fused_multiply_add,
    is_float,
    rounded,
    signed,
    storage_of,
    to_integer,
    to_storage,
    unsigned,
    wrapped,
)
from .state import Handler, TileInterpreter

Function = Callable[..., Array]


def elementwise(function: Function) -> Handler:
    """The handler of an elementwise operation, from a function of its operands' arrays."""

    def run(_: TileInterpreter, op: Operation, *values: Array) -> Array:
        element = element_of(op.results[0])
        if is_float(element):
            return rounded(function(*values), element)
        return wrapped(function(*map(signed, values)), dtype_of(element))

    return run


def _maximum(a: Array, b: Array) -> Array:
    """The larger, NaN if either is, +0 above -0."""
    return np.asarray(np.where((a == 0) & (b == 0), a + b, np.maximum(a, b)))


def _divide(a: Array, b: Array) -> Array:
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
    """The remainder of division towards zero, with the dividend's sign; by zero it is 0."""
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


_ELEMENTWISE: dict[type[Operation], Function] = {
    arith.AddfOp: np.add,
    arith.SubfOp: np.subtract,
    arith.MulfOp: np.multiply,
    arith.DivfOp: np.divide,
    arith.NegfOp: np.negative,
    arith.MaximumfOp: _maximum,
    arith.MinimumfOp: lambda a, b: -_maximum(-a, -b),
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
    **dict.fromkeys((arith.ExtFOp, arith.TruncFOp, arith.ExtSIOp, arith.TruncIOp, arith.IndexCastOp), np.asarray),
}

_INTEGER_PREDICATES: dict[str, Function] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_FLOAT_PREDICATES: dict[str, Function] = {
    **_INTEGER_PREDICATES,
    "ne": lambda a, b: (a < b) | (a > b),
    "false": lambda a, b: np.zeros(np.broadcast(a, b).shape, np.bool_),
    "true": lambda a, b: np.ones(np.broadcast(a, b).shape, np.bool_),
    "ord": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "uno": lambda a, b: np.isnan(a) | np.isnan(b),
}
"""By name, without the first letter `o` or `u` where the operands decide; these are false where one is NaN."""


def _compare_integers(_: TileInterpreter, op: arith.CmpiOp, a: Array, b: Array) -> Array:
    view = unsigned if op.relation.startswith("u") else signed
    return np.asarray(_INTEGER_PREDICATES[op.relation[-2:]](view(a), view(b)))


def _compare_floats(_: TileInterpreter, op: arith.CmpfOp, a: Array, b: Array) -> Array:
    relation = op.relation
    if relation in _FLOAT_PREDICATES:
        return np.asarray(_FLOAT_PREDICATES[relation](a, b))
    holds = _FLOAT_PREDICATES[relation[1:]](a, b)
    return np.asarray(holds | np.isnan(a) | np.isnan(b) if relation.startswith("u") else holds)


def _constant(run: TileInterpreter, op: arith.ConstantOp) -> Array:
    if op not in run.constants:
        value, dtype = op.value, dtype_of(element_of(op.result))
        if isinstance(value, IntegerAttr | FloatAttr):
            run.constants[op] = _number(value.value.data, dtype)
        elif isinstance(value, DenseIntOrFPElementsAttr):
            numbers = np.array([_number(v, dtype) for v in value.get_values()], dtype)
            shape = value.get_shape()
            run.constants[op] = np.broadcast_to(numbers[0], shape) if numbers.size == 1 else numbers.reshape(shape)
        else:
            raise IRError(f"the constant {value} is neither a number nor dense")
    return run.constants[op]


def _number(value: float, dtype: np.dtype[Any]) -> Array:
    """A constant; integers may be written as signed or as unsigned."""
    if dtype.kind == "i":
        return np.array(int(value) & (2 ** (8 * dtype.itemsize) - 1), f"u{dtype.name}").view(dtype)
    return np.array(value, dtype)


def _to_float(array: Array, element: Attribute) -> Array:
    """Integers rounded once; to f16 and bf16 by way of f64, which holds all but the largest i64 exactly."""
    if isinstance(element, Float32Type | Float64Type):
        return array.astype(dtype_of(element))
    return rounded(array.astype(np.float64), element)


def reinterpreted(array: Array, source: Attribute, target: Attribute) -> Array:
    """The bits of elements as elements of another type of the same width."""
    return from_storage(np.asarray(to_storage(array, source)).view(storage_of(target)), target)


def _add_extended(_: TileInterpreter, op: arith.AddUIExtendedOp, a: Array, b: Array) -> tuple[Array, Array]:
    a, b = unsigned(a), unsigned(b)
    total = wrapped(a + b, dtype_of(element_of(op.sum)))
    return total, np.asarray(unsigned(total) < a)


def _multiply_extended(a: Array, b: Array, element: Attribute) -> tuple[Array, Array]:
    """Low and high halves of the products."""
    dtype = dtype_of(element)
    bits = 1 if dtype == np.bool_ else 8 * dtype.itemsize
    product = np.asarray(a.astype(object) * b.astype(object))
    low = np.array(product & (2**bits - 1), dtype=object).astype(np.uint64)
    high = np.array((product >> bits) & (2**bits - 1), dtype=object).astype(np.uint64)
    return wrapped(low, dtype), wrapped(high, dtype)


ARITH_HANDLERS: dict[type[Operation], Handler] = {
    **{op: elementwise(function) for op, function in _ELEMENTWISE.items()},
    arith.ConstantOp: _constant,
    arith.CmpiOp: _compare_integers,
    arith.CmpfOp: _compare_floats,
    arith.SelectOp: lambda _, op, condition, a, b: np.where(condition, a, b),
    arith.SIToFPOp: lambda _, op, a: _to_float(signed(a), element_of(op.result)),
    arith.UIToFPOp: lambda _, op, a: _to_float(unsigned(a), element_of(op.result)),
    arith.FPToSIOp: lambda _, op, a: to_integer(a, dtype_of(element_of(op.result))),
    arith.FPToUIOp: lambda _, op, a: to_integer(a, dtype_of(element_of(op.result)), signed=False),
    arith.ExtUIOp: lambda _, op, a: wrapped(unsigned(a), dtype_of(element_of(op.result))),
    arith.BitcastOp: lambda _, op, a: reinterpreted(a, element_of(op.input), element_of(op.result)),
    arith.AddUIExtendedOp: _add_extended,
    arith.MulSIExtendedOp: lambda _, op, a, b: _multiply_extended(signed(a), signed(b), element_of(op.high)),
    arith.MulUIExtendedOp: lambda _, op, a, b: _multiply_extended(unsigned(a), unsigned(b), element_of(op.high)),
}


def _wide(function: Function) -> Function:
    """The function computed in f64 (f64 itself: in the machine's long double)."""

    def run(*args: Array) -> Array:
        dtype = np.longdouble if np.result_type(*args) == np.float64 else np.float64
        return np.asarray(function(*(np.asarray(a).astype(dtype) for a in args)))

    return run


_erf = np.frompyfunc(lambda x: math.erf(float(x)), 1, 1)
"""The error function, accurate to about the last place of f64; there is no wider one here."""


def _round_away(a: Array) -> Array:
    """To the nearest integer, halves away from zero, the sign of zero kept."""
    whole = np.trunc(a)
    return np.asarray(np.copysign(whole + np.where(np.abs(a - whole) >= 0.5, np.copysign(1, a), 0).astype(a.dtype), a))


def _integer_power(base: Array, exponent: Array) -> Array:
    """Wrapping around; a negative exponent gives 0 but for bases 1 and -1 (and 0, where it is undefined: 0)."""
    base, result = np.array(base), np.ones_like(base)
    negative = exponent < 0
    odd = (exponent & 1) != 0
    left = np.where(negative, 0, exponent)
    square = base
    while np.any(left):
        result = np.where(left & 1, result * square, result).astype(base.dtype)
        square, left = square * square, left >> 1
    inverse = np.where(base == 1, 1, np.where(base == -1, np.where(odd, -1, 1), 0))
    return np.asarray(np.where(negative, inverse, result).astype(base.dtype))


def _zeros(shift: np.ufunc) -> Function:
    """Count leading zeros, by right shifts, or trailing zeros, by left shifts."""

    def count(a: Array) -> Array:
        left, zeros = unsigned(a), np.zeros(np.shape(a), np.int64)
        for _ in range(left.dtype.itemsize * 8):
            zeros += left == 0
            left = shift(left, left.dtype.type(1))
        return zeros

    return count


_FUNCTIONS: dict[type[Operation], Function] = {
    maths.AbsFOp: np.abs,
    maths.AbsIOp: np.abs,
    maths.CeilOp: np.ceil,
    maths.FloorOp: np.floor,
    maths.TruncOp: np.trunc,
    maths.RoundEvenOp: np.rint,
    maths.RoundOp: _round_away,
    maths.CopySignOp: np.copysign,
    maths.SqrtOp: np.sqrt,
    maths.RsqrtOp: _wide(lambda a: 1 / np.sqrt(a)),
    maths.CbrtOp: _wide(np.cbrt),
    maths.ExpOp: _wide(np.exp),
    maths.Exp2Op: _wide(np.exp2),
    maths.ExpM1Op: _wide(np.expm1),
    maths.LogOp: _wide(np.log),
    maths.Log2Op: _wide(np.log2),
    maths.Log10Op: _wide(np.log10),
    maths.Log1pOp: _wide(np.log1p),
    maths.SinOp: _wide(np.sin),
    maths.CosOp: _wide(np.cos),
    maths.TanOp: _wide(np.tan),
    maths.AsinOp: _wide(np.arcsin),
    maths.AcosOp: _wide(np.arccos),
    maths.AtanOp: _wide(np.arctan),
    maths.Atan2Op: _wide(np.arctan2),
    maths.SinhOp: _wide(np.sinh),
    maths.CoshOp: _wide(np.cosh),
    maths.TanhOp: _wide(np.tanh),
    maths.AsinhOp: _wide(np.arcsinh),
    maths.AcoshOp: _wide(np.arccosh),
    maths.AtanhOp: _wide(np.arctanh),
    maths.ErfOp: lambda a: np.asarray(_erf(a)).astype(np.float64),
    maths.PowFOp: _wide(np.power),
    maths.FPowIOp: _wide(np.power),
    maths.IPowIOp: _integer_power,
    maths.FmaOp: fused_multiply_add,
    maths.CountLeadingZerosOp: _zeros(np.right_shift),
    maths.CountTrailingZerosOp: _zeros(np.left_shift),
    maths.CtPopOp: lambda a: np.bitwise_count(unsigned(a)),
}

MATH_HANDLERS: dict[type[Operation], Handler] = {op: elementwise(function) for op, function in _FUNCTIONS.items()}
