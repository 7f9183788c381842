"""Numbers with bounds on what computing them may err by: running error analysis (Higham 2002, section 3.3).

A reference is written as the function is computed, with these in the place of floats: each carries its value in wider
precision, and the largest error that the rules of docs/numerics.md allow the same computation in its own format.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mpmath
import numpy as np

from vkernels.compiler.backends.llvm import host_dot_units
from vkernels.ir.dot_units import DOT_UNITS

from .bounds import function_ulps, sum_units
from .formats import FORMATS, Array, Format

Axes = int | tuple[int, ...]
FLUSHES = any(DOT_UNITS[name].takes(each) for name in host_dot_units() for each in ("bf16", "f16"))
"""Whether dots of bf16 may run on a unit to which numbers below `LEAST_NORMAL` are 0."""
LEAST_NORMAL = 2.0**-126


class Number:
    """An array of values in wider precision, each with an absolute error bound.

    `loose`: which values are not determined, since a step before overflowed, or its error was as large as itself.
    """

    __array_ufunc__ = None

    def __init__(self, value: Any, format: Format, error: Any = 0.0, loose: Any = False):
        self.format = format
        self.value = np.asarray(value, format.wider)
        finite = np.isfinite(self.value)
        error = np.broadcast_to(np.asarray(error, format.wider), self.value.shape)
        self.loose = np.broadcast_to(np.asarray(loose, bool), self.value.shape) | finite & ~np.isfinite(error)
        self.error = np.where(finite & np.isfinite(error), error, 0)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def taken(self) -> Array:
        """Which values are not determined where something is computed of them."""
        return self.loose | np.isfinite(self.value) & (np.abs(self.value) + self.error >= self.format.largest)

    def mapped(self, view: Callable[[Array], Array]) -> Number:
        """Seen through a function that only moves or takes elements."""
        return Number(view(self.value), self.format, view(self.error), view(self.loose))

    def __getitem__(self, key: Any) -> Number:
        return self.mapped(lambda array: array[key])

    def reshape(self, *shape: Any) -> Number:
        return self.mapped(lambda array: array.reshape(*shape))

    def swapaxes(self, one: int, other: int) -> Number:
        return self.mapped(lambda array: array.swapaxes(one, other))

    def _other(self, other: Any) -> Number:
        return other if isinstance(other, Number) else Number(other, self.format)

    def _rounded(self, value: Array, error: Any, loose: Any) -> Number:
        return Number(value, self.format, error + self.format.unit * np.abs(value) + self.format.least, loose)

    def __neg__(self) -> Number:
        return Number(-self.value, self.format, self.error, self.loose)

    def __abs__(self) -> Number:
        return Number(np.abs(self.value), self.format, self.error, self.loose)

    def __add__(self, other: Any) -> Number:
        other = self._other(other)
        return self._rounded(self.value + other.value, self.error + other.error, self.taken | other.taken)

    def __sub__(self, other: Any) -> Number:
        return self + -self._other(other)

    def __mul__(self, other: Any) -> Number:
        other = self._other(other)
        a, b, of_a, of_b = self.value, other.value, self.error, other.error
        unsure = np.isinf(a) & (np.abs(b) <= of_b) & (of_b > 0) | np.isinf(b) & (np.abs(a) <= of_a) & (of_a > 0)
        return self._rounded(a * b, of_a * np.abs(b) + of_b * (np.abs(a) + of_a), self.taken | other.taken | unsure)

    def __truediv__(self, other: Any) -> Number:
        other = self._other(other)
        result = self.value / other.value
        room = np.abs(other.value) - other.error
        unsure = np.isfinite(other.value) & (room <= 0) & (other.error > 0)
        error = np.where(unsure, 0, (self.error + np.abs(result) * other.error) / room)
        error = np.where(other.error + self.error == 0, 0, error)
        return self._rounded(result, error, self.taken | other.taken | unsure)

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: Any) -> Number:
        return self._other(other) - self

    def __rtruediv__(self, other: Any) -> Number:
        return self._other(other) / self

    def sum(self, axis: Axes) -> Number:
        """A sum in any order, by the rule of sums."""
        terms = _count(self.shape, axis)
        magnitude = np.where(np.isfinite(self.value), np.abs(self.value) + self.error, 0).sum(axis)
        value = self.value.sum(axis)
        one_sign = (self.value >= 0).all(axis) | (self.value <= 0).all(axis)
        unsure = self.taken.any(axis) | (magnitude >= self.format.largest) & ~one_sign
        error = self.error.sum(axis) + sum_units(terms) * self.format.unit * magnitude
        return Number(value, self.format, error, unsure)

    def mean(self, axis: Axes) -> Number:
        terms = _count(self.shape, axis)
        return self.sum(axis) / Number(np.asarray(terms, np.float64), self.format)

    def max(self, axis: Axes) -> Number:
        return Number(
            self.value.max(axis), self.format, self.error.max(axis, initial=0), self.taken.any(axis)
        )  # NumPy's propagates NaN

    def cumulative_sum(self, axis: int) -> Number:
        magnitude = np.where(np.isfinite(self.value), np.abs(self.value) + self.error, 0).cumsum(axis)
        places = np.arange(1, self.shape[axis] + 1)
        places = places.reshape([-1 if at == axis % self.value.ndim else 1 for at in range(self.value.ndim)])
        units = 16.0 + 4.0 * np.log2(np.maximum(places, 1))
        taken = np.logical_or.accumulate(self.taken, axis) | (magnitude >= self.format.largest)
        error = self.error.cumsum(axis) + units * self.format.unit * magnitude
        return Number(self.value.cumsum(axis), self.format, error, taken)

    def rounded(self, dtype: str) -> Number:
        """Stored in a smaller format and read again."""
        to = FORMATS[dtype]
        if to.unit <= self.format.unit:
            return self
        over = np.isfinite(self.value) & (np.abs(self.value) + self.error >= to.largest)
        error = self.error + to.unit * (np.abs(self.value) + self.error) + to.least
        return Number(self.value, self.format, error, self.taken | over)

    def at_least(self, low: float) -> Number:
        return Number(np.maximum(self.value, low), self.format, self.error, self.loose)

    def ulps(self, name: str) -> float:
        """The relative error that docs/maths.md allows a function: a unit in the last place is at most 2u."""
        return 2.0 * function_ulps()[name][self.format.name] * self.format.unit


def _count(shape: Sequence[int], axis: Axes) -> int:
    axes = (axis,) if isinstance(axis, int) else axis
    return int(np.prod([shape[each] for each in axes], dtype=np.int64))


def dot(equation: str, a: Number, b: Number, added: int | None = None) -> Number:
    """Sums of products, by the rule of sums: `equation` as of `numpy.einsum`.

    `added`: how many terms are added, where factors stand for terms that are alike.
    """
    operands, result = equation.split("->")
    lengths: dict[str, int] = {}
    for names, each in zip(operands.split(","), (a, b), strict=True):
        lengths |= dict(zip(names, each.shape, strict=True))
    terms = int(np.prod([length for name, length in lengths.items() if name not in result], dtype=np.int64))
    sizes_a, sizes_b = (np.where(np.isfinite(each.value), np.abs(each.value) + each.error, 0) for each in (a, b))

    def product(one: Array, other: Array) -> Array:
        if terms == 0:  # of which NumPy gives what its memory held
            return np.zeros([lengths[name] for name in result], one.dtype)
        return np.asarray(np.einsum(equation, one, other))

    magnitude = product(sizes_a, sizes_b)
    value = product(a.value, b.value)
    error = sum_units(added or terms) * a.format.unit * magnitude + terms * a.format.least
    if a.error.any() or b.error.any():
        error = error + product(a.error, sizes_b) + product(sizes_a, b.error)
    unsure = magnitude >= a.format.largest
    if a.format.name == "float32" and FLUSHES:
        small_a, small_b = (np.where(np.abs(each.value) < LEAST_NORMAL, np.abs(each.value), 0) for each in (a, b))
        error = error + product(small_a, sizes_b) + product(sizes_a, small_b) + 2 * terms * LEAST_NORMAL
        if np.isinf(a.value).any() or np.isinf(b.value).any():  # infinity times what counts as 0
            odd = [(np.isinf(one.value) * 1.0, (small > 0) * 1.0) for one, small in ((a, small_a), (b, small_b))]
            unsure = unsure | (product(odd[0][0], odd[1][1]) + product(odd[0][1], odd[1][0]) > 0)
    for each, other in ((a, b), (b, a)):
        if each.taken.any() or (np.isinf(each.value).any() and other.error.any()):
            odd = (each.taken | np.isinf(each.value)).astype(np.float64)
            ones = np.ones(other.shape)
            unsure = unsure | (product(odd, ones) if each is a else product(ones, odd)).astype(bool)
    return Number(value, a.format, error, unsure)


def _monotone(x: Number, function: Callable[[Array], Array], relative: float) -> Number:
    value, low, high = (np.asarray(function(at)) for at in (x.value, x.value - x.error, x.value + x.error))
    spread = np.where(x.error > 0, np.maximum(np.abs(high - value), np.abs(value - low)), 0)
    return Number(value, x.format, spread + relative * (np.abs(value) + spread) + x.format.least, x.taken)


def exp(x: Number) -> Number:
    return _monotone(x, np.exp, x.ulps("exp"))


def log(x: Number) -> Number:
    return _monotone(x, np.log, x.ulps("log"))


def tanh(x: Number) -> Number:
    return _monotone(x, np.tanh, x.ulps("tanh"))


def sqrt(x: Number) -> Number:
    return _monotone(x, np.sqrt, x.format.unit)


def rsqrt(x: Number) -> Number:
    return _monotone(x, lambda value: 1 / np.sqrt(value), x.ulps("rsqrt"))


def erf(x: Number) -> Number:
    return _monotone(x, lambda value: _special("erf", value), x.ulps("erf"))


def sigmoid(x: Number) -> Number:
    """1 / (1 + exp(-x)); 0 where the exponential overflows."""
    relative = x.ulps("exp") + 3 * x.format.unit
    found = _monotone(x, _logistic, relative)
    found.error = np.where(np.isfinite(found.value), found.error + 2 / x.format.largest, 0)
    return found


def normal_share(x: Number) -> Number:
    """(1 + erf(x / √2)) / 2, which loses digits where erf comes near to -1."""
    unit = x.format.unit
    y = x * Number(np.sqrt(np.asarray(0.5, x.format.wider)), x.format, unit)
    bend = erf(y)
    value = _special("erfc", -y.value) / 2
    error = bend.error / 2 + unit * (np.abs(value) + 1e-30)
    return Number(value, x.format, error + unit * np.abs(value), bend.loose)


def choose(condition: Any, one: Number, other: Any, unsure: Any = False) -> Number:
    """One where the condition holds, else other; where that is unsure, either."""
    other = one._other(other)
    a, b = np.broadcast_arrays(one.value, other.value)
    between = np.where(unsure & np.isfinite(a) & np.isfinite(b), np.abs(a - b), 0)
    error = np.where(unsure, np.maximum(one.error, other.error) + between, np.where(condition, one.error, other.error))
    loose = np.where(unsure, one.loose | other.loose | (np.isfinite(a) != np.isfinite(b)),
                     np.where(condition, one.loose, other.loose))  # fmt: skip
    return Number(np.where(condition, a, b), one.format, error, loose)


def concatenate(parts: Sequence[Number], axis: int) -> Number:
    value, error, loose = (
        np.concatenate([getattr(part, name) for part in parts], axis) for name in ("value", "error", "loose")
    )
    return Number(value, parts[0].format, error, loose)


def _logistic(x: Array) -> Array:
    return np.asarray(np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x)))))


LIMIT = 100.0
"""Where erf and erfc are 1, 0 or 2 in any format."""


def _special(name: str, x: Array) -> Array:
    """erf or erfc, in float64 by SciPy, wider by mpmath."""
    import scipy.special

    narrow = getattr(scipy.special, name)(x.astype(np.float64))
    if x.dtype != np.longdouble:
        return np.asarray(narrow)
    function = getattr(mpmath, name)
    with mpmath.workprec(80):
        flat = [_wide(function(_exactly(each))) if abs(each) < LIMIT else np.nan for each in x.ravel()]
    return np.where(np.abs(x) < LIMIT, np.array(flat, np.longdouble).reshape(x.shape), narrow)


def _exactly(x: Any) -> Any:
    high = float(x)
    return mpmath.mpf(high) + mpmath.mpf(float(x - np.longdouble(high)))


def _wide(x: Any) -> Any:
    high = float(x)
    return np.longdouble(high) + np.longdouble(float(x - mpmath.mpf(high)))
