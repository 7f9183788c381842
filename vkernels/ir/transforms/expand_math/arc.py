"""Inverse trigonometric functions: atan, atan2, asin, acos.

An angle is k π/4 plus the arc tangent of a quotient below tan(π/8), or plus an arc sine below 1/2; the reductions
are those of fdlibm (Sun, 1993), each with one division or one root.
"""

from __future__ import annotations

from .formula import INFINITY, polynomial
from .values import Float, select

TAN_EIGHTH = 0.41421356237309503
"""tan(π/8); its reciprocal is 2 more."""
EIGHTH = {True: (0.7853981852531433, -2.1855695000931213e-08), False: (0.7853981633974483, 3.061616997868383e-17)}
"""π/4 in two parts, by `single`."""


def turned(k: Float, t: Float) -> Float:
    """k π/4 + atan(t), for |t| ≤ tan(π/8)."""
    high, low = EIGHTH[t.single]
    z = t * t
    return k.fma(high, t + (t * z).fma(polynomial(z, "atan"), k * low))


def atan(x: Float) -> Float:
    a = abs(x)
    steep, middle = a > 2.0 + TAN_EIGHTH, a > TAN_EIGHTH
    above = select(steep, -1.0, select(middle, a - 1.0, a))
    below = select(steep, a, select(middle, a + 1.0, a.const(1.0)))
    k = select(steep, 2.0, select(middle, 1.0, a.const(0.0)))
    return turned(k, above / below).sign_of(x)


def atan2(y: Float, x: Float) -> Float:
    """The angle of the point (x, y), from -π to π; signs of zeros count as in C's atan2."""
    ay, ax = abs(y), abs(x)
    steep = ay > ax
    longer, shorter = select(steep, ay, ax), select(steep, ax, ay)
    large, small = (2.0**126, 2.0**-100) if x.single else (2.0**1022, 2.0**-960)
    scale = select(longer > large, 0.25, select(longer < small, 2.0**60, longer.const(1.0)))
    longer, shorter = scale * longer, scale * shorter
    both = shorter.equals(INFINITY)
    longer, shorter = select(both | longer.equals(0.0), 1.0, longer), select(both, 1.0, shorter)
    middle = shorter > TAN_EIGHTH * longer
    t = select(middle, shorter - longer, shorter) / select(middle, shorter + longer, longer)
    k = select(middle, 1.0, x.const(0.0))
    k, t = select(steep, 2.0 - k, k), select(steep, -t, t)
    left = x.bits() < 0
    k, t = select(left, 4.0 - k, k), select(left, -t, t)
    return select(x.unordered(y), x + y, turned(k, t).sign_of(y))


def asin(x: Float) -> Float:
    """Beyond 1/2: π/2 - 2 asin(√((1 - a) / 2)), a = |x|."""
    a = abs(x)
    far = a > 0.5
    t, rest = _small_sine(a)
    high, low = EIGHTH[x.single]
    return select(far, 2.0 * (high - (t + (rest - low))), t + rest).sign_of(x)


def acos(x: Float) -> Float:
    """π/2 - asin(x), or 2 asin(√((1 - a) / 2)) and π minus that beyond 1/2."""
    t, rest = _small_sine(abs(x))
    high, low = EIGHTH[x.single]
    t, rest = t.sign_of(x), rest.sign_of(x)
    middle = 2.0 * high - (t + (rest - 2.0 * low))
    far = select(x < 0.0, 4.0 * high + 2.0 * (t + (rest + 2.0 * low)), 2.0 * (t + rest))
    return select(abs(x) > 0.5, far, middle)


def _small_sine(a: Float) -> tuple[Float, Float]:
    """asin(t) as t and the rest, where t is a, or √((1 - a) / 2) for a > 1/2."""
    far = a > 0.5
    z = 0.5 * (1.0 - a)
    t = select(far, z.sqrt(), a)
    z = select(far, z, a * a)
    return t, (t * z) * polynomial(z, "asin")
