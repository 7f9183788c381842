"""sin, cos, tan.

x = n π/2 + r with |r| ≤ π/4 (Cody & Waite, with π/2 in parts and fused multiply-adds, so that each step is exact or
its error kept), then polynomials in r², chosen and signed by n mod 4. In f32 the reduction is done in f64.
"""

from __future__ import annotations

from .formula import ROUNDER, polynomial
from .guard import unless_rare
from .huge import huge_double, huge_single
from .values import Boolean, Float, Integer, select

TWO_OVER_PI = 0.6366197723675814
HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33)
SINGLE_LIMIT = 2.0**40
DOUBLE_LIMIT = 2.0**30
"""Beyond these the bits of π/2 above do not suffice, and the slower reductions of `huge.py` are used."""


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
