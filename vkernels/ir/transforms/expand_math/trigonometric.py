"""Trigonometric functions: sin, cos, tan and their inverses.

x = n π/2 + r with |r| ≤ π/4 (Cody & Waite, with π/2 in parts and fused multiply-adds, so that each step is exact or
its error kept), then polynomials in r², chosen and signed by n mod 4. In f32 the reduction is computed in f64.

The angle of an inverse is k π/4 plus the arc tangent of a quotient below tan(π/8), or plus an arc sine below 1/2; the
reductions are those of fdlibm (Sun, 1993), each with one division or one root.
"""

from __future__ import annotations

from .formula import INFINITY, ROUNDER, polynomial
from .huge import huge_double, huge_single, unless_rare
from .values import Boolean, Float, Integer, select

TWO_OVER_PI = 0.6366197723675814
HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33)
SINGLE_LIMIT = 2.0**40
DOUBLE_LIMIT = 2.0**30
"""Beyond these limits the bits of π/2 above do not suffice, and the slower reductions of `huge.py` are used."""


class Angle:
    """r + low, |r| ≤ π/4, and n: x = n π/2 + r + low. For an f32 x, r is the f64 value and `low` is not needed."""

    def __init__(self, r: Float, low: Float | None, n: Integer):
        self.r, self.low, self.n = r, low, n

    def odd(self) -> Boolean:
        return (self.n & 1).equals(1)


def reduced(x: Float) -> Angle:
    """The angle of x, within a quarter turn."""
    wide = x.widen() if x.single else x
    shifter = wide.fma(TWO_OVER_PI, ROUNDER[False])
    n = shifter - ROUNDER[False]
    r = n.fma(-HALF_PI[0], wide)
    if x.single:
        common = [n.fma(-HALF_PI[1], r), shifter]
        r, shifter = unless_rare(abs(wide), SINGLE_LIMIT, common, lambda: huge_single(wide))
        return Angle(r, None, shifter.bits())
    product = n * HALF_PI[1]
    error = n.fma(HALF_PI[1], -product)
    near = r - product
    low = ((r - near) - product) - n.fma(HALF_PI[2], error)
    total = near + low
    common = [total, (near - total) + low, shifter]
    r, low, shifter = unless_rare(abs(x), DOUBLE_LIMIT, common, lambda: huge_double(x))
    return Angle(r, low, shifter.bits())


def sine(r: Float, low: Float | None = None, table: bool | None = None) -> Float:
    """sin(r + low) for |r| ≤ π/4."""
    z = r * r
    cube = r * z
    if low is None:
        return cube.fma(polynomial(z, "sin", table), r)
    return r + cube.fma(polynomial(z, "sin", table), low * (1.0 - 0.5 * z))


def cosine(r: Float, low: Float | None = None, table: bool | None = None) -> Float:
    """cos(r + low) for |r| ≤ π/4: 1 - r²/2 is corrected by what its rounding took."""
    z = r * r
    half = 0.5 * z
    near = 1.0 - half
    rest = (z * z) * polynomial(z, "cos", table)
    if low is not None:
        rest = rest - r * low
    return near + (((1.0 - near) - half) + rest)


def _parts(angle: Angle, single: bool) -> tuple[Float, Float]:
    r = angle.r.narrow() if single else angle.r
    return sine(r, angle.low), cosine(r, angle.low)


def sin(x: Float) -> Float:
    angle = reduced(x)
    s, c = _parts(angle, x.single)
    result = select(angle.odd(), c, s)
    result = select((angle.n & 2).equals(2), -result, result)
    return select(abs(x) < (2.0**-20 if x.single else 2.0**-40), x, result)


def cos(x: Float) -> Float:
    angle = reduced(x)
    s, c = _parts(angle, x.single)
    result = select(angle.odd(), s, c)
    return select(((angle.n + 1) & 2).equals(2), -result, result)


def tan(x: Float) -> Float:
    """sin / cos, or -cos / sin; in f32 both in f64, with the polynomials made for f32."""
    angle = reduced(x)
    s, c = sine(angle.r, angle.low, x.single), cosine(angle.r, angle.low, x.single)
    odd = angle.odd()
    quotient = select(odd, c, s) / select(odd, -s, c)
    result = quotient.narrow() if x.single else quotient
    return select(abs(x) < (2.0**-20 if x.single else 2.0**-40), x, result)


# Inverse functions.

TAN_EIGHTH = 0.41421356237309503
"""tan(π/8); its reciprocal is larger by 2."""
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
