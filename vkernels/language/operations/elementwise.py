"""Functions of each element, and activations. Integers become float32 if the result is not an integer, as in torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..operation import operation
from ..values import ComplexTile, Tile
from .current_builder import current_builder

_SQRT_HALF = 0.7071067811865476
_SQRT_2_OVER_PI = 0.7978845608028654


def _function(name: str, math_operation: str, doc: str, keeps_integers: bool = False) -> Callable[[Any], Tile]:
    """An operation that is one of the math dialect; `keeps_integers`: integers are returned unchanged."""

    def apply(x: Any) -> Tile:
        value = current_builder().tile(x) if keeps_integers else x
        if keeps_integers and not value.dtype.is_float:
            return value
        return current_builder().mathematical(math_operation, value)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = doc
    return operation(apply)


exp = _function("exp", "Exp", "e to the power of x.")
exp2 = _function("exp2", "Exp2", "2 to the power of x.")
expm1 = _function("expm1", "ExpM1", "exp(x) - 1, accurate near 0.")
log = _function("log", "Log", "The natural logarithm.")
log2 = _function("log2", "Log2", "The logarithm to base 2.")
log1p = _function("log1p", "Log1p", "log(1 + x), accurate near 0.")
sqrt = _function("sqrt", "Sqrt", "The square root; NaN below 0.")
rsqrt = _function("rsqrt", "Rsqrt", "1 / sqrt(x).")
sin = _function("sin", "Sin", "The sine of x in radians.")
cos = _function("cos", "Cos", "The cosine of x in radians.")
tanh = _function("tanh", "Tanh", "The hyperbolic tangent.")
erf = _function("erf", "Erf", "The error function.")
floor = _function("floor", "Floor", "x rounded down; integers are unchanged.", keeps_integers=True)
ceil = _function("ceil", "Ceil", "x rounded up; integers are unchanged.", keeps_integers=True)
round = _function(
    "round",
    "RoundEven",
    "x rounded to the nearest whole number, ties to even; integers are unchanged.",
    keeps_integers=True,
)
trunc = _function("trunc", "Trunc", "x rounded towards zero; integers are unchanged.", keeps_integers=True)


@operation
def pow(x: Any, y: Any) -> Tile:
    """x to the power of y, as `x ** y`: integers stay integers."""
    return current_builder().binary("**", x, y)  # type: ignore[no-any-return]


@operation
def fma(x: Any, y: Any, z: Any) -> Tile:
    """x * y + z, rounded once."""
    return current_builder().mathematical("Fma", x, y, z)


@operation
def abs(x: Any) -> Tile:
    """The absolute value."""
    builder = current_builder()
    if isinstance(x, ComplexTile):
        return builder.modulus(x)
    value = builder.tile(x)
    if value.dtype.is_float:
        return builder.mathematical("AbsF", value)
    if value.dtype.is_uint:
        return value
    return builder.extreme("max", value, -value)  # type: ignore[no-any-return]


@operation
def maximum(x: Any, y: Any) -> Tile:
    """The larger of two elements; NaN if either is NaN."""
    return current_builder().extreme("max", x, y)  # type: ignore[no-any-return]


@operation
def minimum(x: Any, y: Any) -> Tile:
    """The smaller of two elements; NaN if either is NaN."""
    return current_builder().extreme("min", x, y)  # type: ignore[no-any-return]


@operation
def clamp(x: Any, low: Any = None, high: Any = None) -> Tile:
    """x limited to the range from `low` to `high`, if given; NaN stays NaN."""
    value = x if low is None else maximum(x, low)
    return value if high is None else minimum(value, high)


@operation
def where(condition: Any, x: Any, y: Any) -> Tile:
    """x if the condition is true, else y, element by element."""
    return current_builder().where(condition, x, y)  # type: ignore[no-any-return]


@operation
def isnan(x: Any) -> Tile:
    """Whether each element is NaN; bool."""
    value = current_builder().tile(x)
    return current_builder().compare("!=", value, value)  # type: ignore[no-any-return]


@operation
def isinf(x: Any) -> Tile:
    """Whether each element is infinite; bool."""
    value = current_builder().tile(x)
    if not value.dtype.is_float:
        return current_builder().compare("!=", value, value)  # type: ignore[no-any-return]
    return current_builder().compare("==", abs(value), float("inf"))  # type: ignore[no-any-return]


@operation
def bits(x: Any) -> Tile:
    """The bits of floats as int64 for float64, else int32, in the dtype of the computation; of 1.0: 0x3F800000."""
    return current_builder().bits(x)


@operation
def cast(x: Any, dtype: Any) -> Tile:
    """x in another dtype, as `x.to(dtype)`.

    Float to integer rounds towards zero, saturates, and gives 0 for NaN. Integer to integer keeps the low bits.
    Conversion to f16, bf16 and f8 rounds to nearest.
    """
    return current_builder().cast(x, dtype)  # type: ignore[no-any-return]


@operation
def sigmoid(x: Any) -> Tile:
    """1 / (1 + exp(-x))."""
    value = current_builder().tile(x)
    return 1.0 / (1.0 + exp(-value))  # type: ignore[no-any-return]


@operation
def relu(x: Any) -> Tile:
    """max(x, 0); NaN stays NaN."""
    return maximum(x, 0)


@operation
def silu(x: Any) -> Tile:
    """x * sigmoid(x)."""
    value = current_builder().tile(x)
    return value * sigmoid(value)  # type: ignore[no-any-return]


@operation
def gelu(x: Any, approximate: str = "none") -> Tile:
    """x times the normal distribution function of x: exact, with `erf`; with `approximate="tanh"`, by tanh."""
    value = current_builder().tile(x)
    if approximate == "tanh":
        return 0.5 * value * (1.0 + tanh(_SQRT_2_OVER_PI * (value + 0.044715 * value * value * value)))  # type: ignore[no-any-return]
    return 0.5 * value * (1.0 + erf(value * _SQRT_HALF))  # type: ignore[no-any-return]
