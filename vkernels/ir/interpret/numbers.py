"""Numbers as the hardware has them: how elements are held in NumPy arrays, rounded and converted.

f16 is `np.float16`. bf16 and f8 values are held as the f32 values that they are, and as `np.uint16` and `np.uint8`
bits in memory.
Integers are signless and held as NumPy's signed ones, i1 as `np.bool_`, `index` as i64.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
)
from xdsl.ir import Attribute

from ..errors import UnsupportedError

FLOAT8 = (Float8E4M3FNType, Float8E5M2Type)


def from_bits(bits: npt.NDArray[np.uint8], element: Attribute) -> npt.NDArray[np.float32]:
    """The numbers with these bits."""
    return _values(type(element))[bits]


def to_bits(numbers: npt.NDArray[Any], element: Attribute) -> npt.NDArray[np.uint8]:
    """Bits of the nearest numbers, ties to even; past the greatest E4M3FN has the greatest, E5M2 infinity, as torch."""
    magnitudes = np.abs(_values(type(element))[:128].astype(np.float64))
    last = int(np.flatnonzero(np.isfinite(magnitudes))[-1])
    finite = magnitudes[: last + 1]
    steps = np.append(finite, 2 * finite[last] - finite[last - 1])
    between = (steps[1:] + steps[:-1]) / 2
    size = np.abs(np.asarray(numbers, np.float64))
    code = np.searchsorted(between, size)
    tied = code < len(between)
    tied &= size == between[np.minimum(code, last)]
    code = np.where(tied & (code % 2 == 1), code + 1, code)
    code = np.where(np.isnan(size), 127, np.minimum(code, 126)).astype(np.uint8)
    return np.asarray(code | (np.signbit(numbers).astype(np.uint8) << np.uint8(7)))


@cache
def _values(element: type[Attribute]) -> npt.NDArray[np.float32]:
    """The number of each of the 256 bit patterns."""
    exponent_bits, bias = (4, 7) if element is Float8E4M3FNType else (5, 15)
    fraction_bits = 7 - exponent_bits
    codes = np.arange(128)
    exponent, fraction = codes >> fraction_bits, (codes & (2**fraction_bits - 1)) / 2**fraction_bits
    values = np.where(exponent == 0, fraction * 2.0 ** (1 - bias), (1 + fraction) * 2.0 ** (exponent - bias))
    if element is Float8E4M3FNType:
        values[127] = np.nan
    else:
        values[124:] = [np.inf, np.nan, np.nan, np.nan]
    return np.concatenate([values, -values]).astype(np.float32)


Array = npt.NDArray[Any]

_FLOATS: dict[type[Attribute], type[np.floating[Any]]] = {
    Float64Type: np.float64,
    Float32Type: np.float32,
    Float16Type: np.float16,
    BFloat16Type: np.float32,
    **dict.fromkeys(FLOAT8, np.float32),
}
_INTEGERS: dict[int, type[np.generic]] = {1: np.bool_, 8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
_SIGNIFICAND = {np.dtype(np.float64): (np.uint64, 52), np.dtype(np.float32): (np.uint32, 23)}


def dtype_of(element: Attribute) -> np.dtype[Any]:
    """The dtype that holds values of an element type; raises `UnsupportedError` for one that has none."""
    if isinstance(element, IntegerType) and element.width.data in _INTEGERS:
        return np.dtype(_INTEGERS[element.width.data])
    if isinstance(element, IndexType):
        return np.dtype(np.int64)
    if type(element) in _FLOATS:
        return np.dtype(_FLOATS[type(element)])
    raise UnsupportedError(f"the interpreter has no numbers of type {element}")


def storage_of(element: Attribute) -> np.dtype[Any]:
    """The dtype of an array in memory that holds an element type: its dtype, or uint16 for bf16 and uint8 for f8."""
    if isinstance(element, FLOAT8):
        return np.dtype(np.uint8)
    return np.dtype(np.uint16) if isinstance(element, BFloat16Type) else dtype_of(element)


def from_storage(array: Array, element: Attribute) -> Array:
    """Values of elements as memory holds them."""
    if isinstance(element, FLOAT8):
        return from_bits(array, element)
    if isinstance(element, BFloat16Type):
        return (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return array


def to_storage(array: Array, element: Attribute) -> Array:
    """Elements as memory holds them. Values must be exact."""
    if isinstance(element, FLOAT8):
        return to_bits(array, element)
    if isinstance(element, BFloat16Type):
        return (np.asarray(array, np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return np.asarray(array)


def rounded(array: Array, element: Attribute) -> Array:
    """Floats rounded to the nearest number of a float type, ties to even, once."""
    if isinstance(element, FLOAT8):
        return from_bits(to_bits(array, element), element)
    if isinstance(element, BFloat16Type):
        return round_significand(round_to_odd(array, np.float32), 7)
    return np.asarray(array).astype(dtype_of(element), copy=False)


def round_to_odd(array: Array, dtype: type[np.floating[Any]]) -> Array:
    """Floats in a narrower dtype, inexact ones with the last bit set: rounding them again is then rounding once."""
    array = np.asarray(array)
    nearest = array.astype(dtype)
    if array.dtype == nearest.dtype:
        return nearest
    return _odd(nearest, np.asarray(array - nearest.astype(array.dtype)))


def round_sum(single: Array, number: Array) -> Array:
    """The sum of an f32 and an f64, rounded to f32 once."""
    wide = single.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        total = wide + number
        part = total - wide
        rest = (wide - (total - part)) + (number - part)
        rest = np.where(np.isfinite(rest), rest, 0)
        return np.asarray(_odd(total, rest).astype(np.float32))


def _odd(nearest: Array, rest: Array) -> Array:
    """`nearest + rest`, of which `nearest` is the rounding, rounded to odd."""
    bits_type, _ = _SIGNIFICAND[nearest.dtype]
    even = (nearest.view(bits_type) & bits_type(1)) == 0
    towards = np.copysign(np.array(np.inf, nearest.dtype), rest.astype(nearest.dtype))
    moves = even & (rest != 0) & np.isfinite(rest)
    return np.asarray(np.where(moves, np.nextafter(nearest, towards), nearest))


def round_significand(array: Array, bits: int) -> Array:
    """Floats of f32 with `bits` bits after the point kept, to nearest, ties to even; NaN stays NaN."""
    drop = np.uint32(23 - bits)
    array = np.asarray(array, np.float32)
    raw = array.view(np.uint32)
    half = (np.uint32(1) << (drop - np.uint32(1))) - np.uint32(1) + ((raw >> drop) & np.uint32(1))
    kept = (raw + half) >> drop << drop
    quiet = (raw | np.uint32(0x00400000)) >> drop << drop
    return np.where(np.isnan(array), quiet, kept).astype(np.uint32).view(np.float32)


def fused_multiply_add(a: Array, b: Array, c: Array) -> Array:
    """`a * b + c`, rounded once for f32 and f16; for f64 within 0.501 units in the last place."""
    dtype = np.result_type(a)
    if dtype != np.float64:
        product = np.multiply(a, b, dtype=np.float64)
        total, rest = _two_sum(product, np.asarray(c, np.float64))
        return np.asarray(_odd(np.asarray(total), np.asarray(rest)).astype(dtype))
    product, low = _two_product(a, b)
    total, rest = _two_sum(product, c)
    exact = np.longdouble(total) + (np.longdouble(rest) + np.longdouble(low))
    finite = np.isfinite(exact)
    special = np.where(np.isinf(c) & np.isfinite(a) & np.isfinite(b), c, total)
    return np.asarray(np.where(finite, exact, special).astype(np.float64))


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum, and the exact rounding error."""
    total = a + b
    virtual = total - a
    return total, (a - (total - virtual)) + (b - virtual)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded product, and the rounding error (exact unless 2²⁷ times an operand overflows)."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _halves(a: Array) -> tuple[Array, Array]:
    scaled = a * 134217729.0
    high = scaled - (scaled - a)
    return high, a - high


def to_integer(array: Array, dtype: np.dtype[Any], signed: bool = True) -> Array:
    """Floats truncated to integers. Numbers out of range saturate and NaN gives 0 (on hardware both are undefined)."""
    if dtype == np.bool_:
        return np.asarray(np.trunc(array) != 0)
    target = dtype if signed else np.dtype(f"u{dtype.name}")
    limits = np.iinfo(target)
    whole = np.trunc(np.asarray(array, np.float64))
    above, below = whole >= float(limits.max) + 1.0, whole < float(limits.min)
    inside = np.where(above | below | np.isnan(whole), 0.0, whole).astype(target)
    clipped = np.where(above, target.type(limits.max), np.where(below, target.type(limits.min), inside))
    return np.asarray(clipped).astype(target).view(dtype)


def is_float(element: Attribute) -> bool:
    return isinstance(element, AnyFloat)


def signed(array: Array) -> Array:
    """Integers to compute with: i1 as i8, where true is -1."""
    array = np.asarray(array)
    return -array.astype(np.int8) if array.dtype == np.bool_ else array


def unsigned(array: Array) -> Array:
    """Integers reinterpreted without a sign: i1 as u8, where true is 1."""
    array = np.asarray(array)
    return array.astype(np.uint8) if array.dtype == np.bool_ else array.view(f"u{array.dtype.name}")


def wrapped(array: Array, dtype: np.dtype[Any]) -> Array:
    """Integers with only the low bits that the dtype has."""
    array = np.asarray(array)
    return np.asarray((array & 1).astype(np.bool_)) if dtype == np.bool_ else array.astype(dtype)
