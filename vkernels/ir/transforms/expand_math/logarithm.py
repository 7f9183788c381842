"""Logarithms: log, log2, log10, log1p and the inverse hyperbolic functions.

x is taken apart into m * 2**e with √½ ≤ m < √2 and f = m - 1. In f32, log(1 + f) = f + f² P(f). In f64, with
s = f / (2 + f): log(1 + f) = 2 atanh(s), arranged as in fdlibm (Sun, 1993) so that f itself carries the leading bits.
"""

from __future__ import annotations

from .exponential import LN2
from .formula import FRACTION, INFINITY, NAN, exact_sum, exponent_and_fraction, polynomial
from .values import Boolean, Float, select

Parts = tuple[float, float]
"""A number as the sum of two, the first rounded to the working precision or less."""

LOG2_E_PARTS: dict[bool, Parts] = {
    True: (1.44269502162933349609, 1.9259629911266175e-08),
    False: (1.44269504088896338700, 2.0355273740931033e-17),
}
LOG10_E: dict[bool, Parts] = {
    True: (0.434294492006301879883, -1.0103050052231683e-08),
    False: (0.434294481903251816668, 1.098319650216765e-17),
}
LOG10_2: dict[bool, Parts] = {
    True: (0.301025390625, 4.6050389811952137e-6),
    False: (0.301029995663981198017, -2.8037281277851704e-18),
}


def tail(f: Float) -> Float:
    """log(1 + f) - f."""
    if f.single:
        return f * f * polynomial(f, "log")
    s = f / (f + 2.0)
    half_square = 0.5 * (f * f)
    z = s * s
    return s.fma(half_square + 2.0 * (z * polynomial(z, "atanh")), -half_square)


def natural(f: Float, e: Float) -> Float:
    """log(1 + f) + e log(2)."""
    high, low = LN2[f.single]
    return e.fma(high, f + e.fma(low, tail(f)))


def to_base(f: Float, e: Float, per_e: Parts, per_two: Parts) -> Float:
    """(log(1 + f) + e log(2)) / log(base); `per_e` is 1 / log(base), `per_two` log(2) / log(base)."""
    small = e.fma(per_two[1], tail(f) * per_e[0])
    return e.fma(per_two[0], f.fma(per_e[0], f.fma(per_e[1], small)))


def with_limits(x: Float, result: Float) -> Float:
    """A logarithm with its values where x is not positive and finite: -∞ at ±0, NaN below, x itself at ∞ and NaN."""
    special = select(x.equals(0.0), -INFINITY, select(x < 0.0, NAN, x))
    return select((x > 0.0) & (x < INFINITY), result, special)


def log(x: Float) -> Float:
    _, e, m = exponent_and_fraction(x)
    return with_limits(x, natural(m - 1.0, e))


def log2(x: Float) -> Float:
    _, e, m = exponent_and_fraction(x)
    return with_limits(x, to_base(m - 1.0, e, LOG2_E_PARTS[x.single], (1.0, 0.0)))


def log10(x: Float) -> Float:
    _, e, m = exponent_and_fraction(x)
    return with_limits(x, to_base(m - 1.0, e, LOG10_E[x.single], LOG10_2[x.single]))


def log_of_sum(total: Float, error: Float, doublings: Float | float = 0.0) -> Float:
    """log(total + error) + doublings * log(2), where `error` is what rounding took from the positive finite `total`.

    The error is added to f, scaled like it.
    """
    shift, bias = FRACTION[total.single], 127 if total.single else 1023
    exponent, e, m = exponent_and_fraction(total)
    exponent = select(exponent < bias - 1, exponent, exponent.const(bias - 1))
    scale = ((exponent.const(bias) - exponent) << shift).as_float()
    return natural(error.fma(scale, m - 1.0), e + doublings)


def log1p(x: Float) -> Float:
    total, error = exact_sum(x.const(1.0), x)
    result = with_limits(total, log_of_sum(total, error))
    return select(abs(x) < (2.0**-30 if x.single else 2.0**-60), x, result)


def log1p_or_double(small: Float, large: Boolean, x: Float) -> Float:
    """log(2x) where `large`, else log1p(small)."""
    total, error = exact_sum(x.const(1.0), small)
    total, error = select(large, x, total), select(large, 0.0, error)
    result = log_of_sum(total, error, select(large, 1.0, x.const(0.0)))
    return with_limits(total, select(abs(small) < (2.0**-30 if x.single else 2.0**-60), small, result))


def atanh(x: Float) -> Float:
    """log1p(2a / (1 - a)) / 2 with a = |x|."""
    a = abs(x)
    return (0.5 * log1p(2.0 * a / (1.0 - a))).sign_of(x)


def asinh(x: Float) -> Float:
    """log1p(a + a² / (1 + √(a² + 1))) with a = |x|; log(a) + log(2) where a² could overflow."""
    a = abs(x)
    large = a > (2.0**14 if x.single else 2.0**28)
    near = a.at_most(2.0**14 if x.single else 2.0**28)
    square = near * near
    small = near + square / (1.0 + (square + 1.0).sqrt())
    return log1p_or_double(small, large, a).sign_of(x)


def acosh(x: Float) -> Float:
    """log1p(t + √(2t + t²)) with t = x - 1; log(x) + log(2) where x² could overflow."""
    large = x > (2.0**14 if x.single else 2.0**28)
    t = select(x < 1.0, NAN, x.at_most(2.0**14 if x.single else 2.0**28) - 1.0)
    return log1p_or_double(t + (t * (t + 2.0)).sqrt(), large, x)
