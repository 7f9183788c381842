"""Functions of each element. Integers become float32 if the result is not an integer, as in torch."""

from __future__ import annotations

from typing import Any

from ..current import current
from ..operation import operation
from ..values import Tile


@operation
def exp(x: Any) -> Tile:
    """e to the power of x."""
    return current().mathematical("Exp", x)


@operation
def exp2(x: Any) -> Tile:
    """2 to the power of x."""
    return current().mathematical("Exp2", x)


@operation
def expm1(x: Any) -> Tile:
    """exp(x) - 1, accurate near 0."""
    return current().mathematical("ExpM1", x)


@operation
def log(x: Any) -> Tile:
    """The natural logarithm."""
    return current().mathematical("Log", x)


@operation
def log2(x: Any) -> Tile:
    """The logarithm to base 2."""
    return current().mathematical("Log2", x)


@operation
def log1p(x: Any) -> Tile:
    """log(1 + x), accurate near 0."""
    return current().mathematical("Log1p", x)


@operation
def sqrt(x: Any) -> Tile:
    """The square root; NaN below 0."""
    return current().mathematical("Sqrt", x)


@operation
def rsqrt(x: Any) -> Tile:
    """1 / sqrt(x)."""
    return current().mathematical("Rsqrt", x)


@operation
def sin(x: Any) -> Tile:
    """The sine of x in radians."""
    return current().mathematical("Sin", x)


@operation
def cos(x: Any) -> Tile:
    """The cosine of x in radians."""
    return current().mathematical("Cos", x)


@operation
def tanh(x: Any) -> Tile:
    """The hyperbolic tangent."""
    return current().mathematical("Tanh", x)


@operation
def erf(x: Any) -> Tile:
    """The error function."""
    return current().mathematical("Erf", x)


@operation
def pow(x: Any, y: Any) -> Tile:
    """x to the power of y, as `x ** y`: integers stay integers."""
    return current().binary("**", x, y)  # type: ignore[no-any-return]


@operation
def fma(x: Any, y: Any, z: Any) -> Tile:
    """x * y + z, rounded once."""
    return current().mathematical("Fma", x, y, z)


@operation
def abs(x: Any) -> Tile:
    """The absolute value."""
    builder = current()
    value = builder.tile(x)
    if value.dtype.is_float:
        return builder.mathematical("AbsF", value)
    if value.dtype.is_uint:
        return value
    return builder.extreme("max", value, -value)  # type: ignore[no-any-return]


def _rounded(name: str, x: Any) -> Tile:
    value = current().tile(x)
    return current().mathematical(name, value) if value.dtype.is_float else value


@operation
def floor(x: Any) -> Tile:
    """x rounded down; integers are unchanged."""
    return _rounded("Floor", x)


@operation
def ceil(x: Any) -> Tile:
    """x rounded up; integers are unchanged."""
    return _rounded("Ceil", x)


@operation
def round(x: Any) -> Tile:
    """x rounded to the nearest whole number, ties to even; integers are unchanged."""
    return _rounded("RoundEven", x)


@operation
def trunc(x: Any) -> Tile:
    """x rounded towards zero; integers are unchanged."""
    return _rounded("Trunc", x)


@operation
def maximum(x: Any, y: Any) -> Tile:
    """The larger of two elements; NaN if either is NaN."""
    return current().extreme("max", x, y)  # type: ignore[no-any-return]


@operation
def minimum(x: Any, y: Any) -> Tile:
    """The smaller of two elements; NaN if either is NaN."""
    return current().extreme("min", x, y)  # type: ignore[no-any-return]


@operation
def clamp(x: Any, low: Any = None, high: Any = None) -> Tile:
    """x limited to the range from `low` to `high`, if given; NaN stays NaN."""
    value = x if low is None else maximum(x, low)
    return value if high is None else minimum(value, high)


@operation
def where(condition: Any, x: Any, y: Any) -> Tile:
    """x if the condition is true, else y, element by element."""
    return current().where(condition, x, y)


@operation
def isnan(x: Any) -> Tile:
    """Whether each element is NaN; bool."""
    value = current().tile(x)
    return current().compare("!=", value, value)  # type: ignore[no-any-return]


@operation
def isinf(x: Any) -> Tile:
    """Whether each element is infinite; bool."""
    value = current().tile(x)
    if not value.dtype.is_float:
        return current().compare("!=", value, value)  # type: ignore[no-any-return]
    return current().compare("==", abs(value), float("inf"))  # type: ignore[no-any-return]


@operation
def bits(x: Any) -> Tile:
    """The bits of floats as int64 for float64, else int32, in the dtype of the computation; of 1.0: 0x3F800000."""
    return current().bits(x)


@operation
def cast(x: Any, dtype: Any) -> Tile:
    """x in another dtype, as `x.to(dtype)`.

    Float to integer rounds towards zero, saturates, and gives 0 for NaN. Integer to integer keeps the low bits.
    Conversion to f16, bf16 and f8 rounds to nearest.
    """
    return current().cast(x, dtype)
