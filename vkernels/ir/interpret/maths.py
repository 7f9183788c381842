"""math on tiles and scalars: computed in higher precision than the type has, then rounded to it."""

from __future__ import annotations

import math

import numpy as np
from xdsl.dialects import math as maths
from xdsl.ir import Operation

from .elementwise import Function, elementwise
from .numbers import Array, fused_multiply_add, unsigned
from .state import Handler


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
