"""Parts of several formulas: polynomials, exact sums and products, powers of two."""

from __future__ import annotations

from .coefficients import DOUBLE, SINGLE
from .values import Float, Integer, select

INFINITY = float("inf")
NAN = float("nan")
ROUNDER = {True: 1.5 * 2**23, False: 1.5 * 2**52}
"""Added to a number, it leaves the nearest whole number in the low bits of the sum. Keyed by `single`."""
FRACTION = {True: 23, False: 52}
"""Bits of the fraction, by `single`."""


def polynomial(x: Float, name: str, single: bool | None = None) -> Float:
    """The named polynomial of `coefficients.py` at x, by Horner's rule; the one made for x's dtype unless said."""
    *lower, result = map(x.const, (SINGLE if (x.single if single is None else single) else DOUBLE)[name])
    for coefficient in reversed(lower):
        result = result.fma(x, coefficient)
    return result


def split_polynomial(x: Float, name: str) -> Float:
    """The same as an even and an odd part, each in x²: a multiplication more, and a chain half as long."""
    terms = (SINGLE if x.single else DOUBLE)[name]
    square, parts = x * x, []
    for powers in (terms[::2], terms[1::2]):
        *lower, part = map(x.const, powers)
        for coefficient in reversed(lower):
            part = part.fma(square, coefficient)
        parts.append(part)
    even, odd = parts
    return odd.fma(x, even)


def exact_sum(a: Float, b: Float) -> tuple[Float, Float]:
    """a + b as a rounded sum and its error (Knuth's two-sum)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def fast_sum(a: Float, b: Float) -> tuple[Float, Float]:
    """The same for |a| ≥ |b| or a = 0 (Dekker)."""
    total = a + b
    return total, b - (total - a)


def exact_product(a: Float, b: Float) -> tuple[Float, Float]:
    """a * b as a rounded product and its error."""
    product = a * b
    return product, a.fma(b, -product)


def times_power(x: Float, shifter: Float, argument: Float) -> Float:
    """x * 2**n for 1/2 < x < 2, rounded once if the result is subnormal, infinite if it is too large.

    `shifter` is n + ROUNDER; n ≤ 0 where `argument` < 0. Some processors have one instruction for it. For others the
    power is built in its exponent bits, closer to 1 by half of their range, so that it is a normal number; a second
    factor corrects that.
    """
    if x.emitter.scales:
        return x.scaled(shifter - ROUNDER[x.single])
    negative = argument < 0.0
    half, bias = (64, 127) if x.single else (512, 1023)
    shift = FRACTION[x.single]
    moved = shifter.bits() << shift
    power = (moved + select(negative, (bias + half) << shift, moved.const((bias - half) << shift))).as_float()
    return (x * power) * select(negative, 2.0**-half, x.const(2.0**half))


def power_of_two(shifter: Float, less: int = 0) -> Float:
    """2**(n - less), which must be a normal number; `shifter` is n + ROUNDER."""
    shift = FRACTION[shifter.single]
    bias = 127 if shifter.single else 1023
    return ((shifter.bits() << shift) + ((bias - less) << shift)).as_float()


def exponent_and_fraction(x: Float) -> tuple[Integer, Float, Float]:
    """e and m with x = m * 2**e and √½ ≤ m < √2, for positive finite x: e as an integer, as a float, and m.

    The integer is that of a subnormal x scaled up.
    """
    tiny = x < (2.0**-126 if x.single else 2.0**-1022)
    lift, shift = (24.0, 23) if x.single else (54.0, 52)
    bits = select(tiny, x * 2.0**lift, x).bits()
    exponent = (bits - (0x3F3504F3 if x.single else 0x3FE6A09E667F3BCD)) >> shift
    fraction = (bits - (exponent << shift)).as_float()
    number = exponent.to_float()
    return exponent, select(tiny, number - lift, number), fraction
