"""Exponentials: exp, exp2, expm1, the hyperbolic functions and erf.

x is reduced to n * log(2) + r, |r| ≤ log(2) / 2, with log(2) in two parts (Cody & Waite, Software Manual for the
Elementary Functions, 1980), e**r is a polynomial, and n goes into the exponent bits.
"""

from __future__ import annotations

from collections.abc import Callable

from .formula import ROUNDER, polynomial, power_of_two, split_polynomial, times_power
from .values import Float, select

LOG2_E = 1.4426950408889634
LN2 = {
    True: (0.693145751953125, 1.42860682030941723212e-6),
    False: (6.93147180369123816490e-1, 1.90821492927058770002e-10),
}
"""log(2) in two parts, by `single`; the first has so many zero bits at its end that n times it is exact."""
LEAST = {True: -1000.0, False: -10000.0}
"""Arguments, by `single`, below which exponentials are computed as of these."""


def reduced(x: Float) -> tuple[Float, Float]:
    """n + ROUNDER and r, with x = n log(2) + r."""
    rounder = ROUNDER[x.single]
    shifter = x.fma(LOG2_E, rounder)
    n = shifter - rounder
    high, low = LN2[x.single]
    return shifter, n.fma(-low, n.fma(-high, x))


def exp(x: Float) -> Float:
    """e**x, gradual underflow and overflow included."""
    highest, lowest = (89.0, -104.0) if x.single else (710.0, -746.0)

    def within(x: Float) -> Float:
        shifter, r = reduced(x)
        p = polynomial(r, "exp").fma(r, 1.0).fma(r, 1.0)
        return times_power(p, shifter, x)

    return _zero_below(x.at_most(highest), lowest, within)


def _zero_below(x: Float, lowest: float, within: Callable[[Float], Float]) -> Float:
    """A function of x that is 0 from below `lowest`, without rounding tiny numbers to 0, as products do for what masks
    leave out: Intel's cores take 200 cycles for it. The instruction that scales does not, of far smaller numbers."""
    if x.emitter.scales:
        return within(x.at_least(LEAST[x.single]))
    is_zero = x < lowest
    return select(is_zero, 0.0, within(select(is_zero, 0.0, x)))


def approximate_exp(x: Float) -> Float:
    """e**x as 2**(x log2(e)), by the device's instruction.

    The product is rounded, and log2(e): in f32 the result errs by 1.25 |x| 2**-24 of itself, beside the instruction.
    """
    return (x * LOG2_E).exp2()


def exp2(x: Float) -> Float:
    """2**x, exact for whole x."""
    highest, lowest = (129.0, -151.0) if x.single else (1025.0, -1076.0)
    rounder = ROUNDER[x.single]

    def within(x: Float) -> Float:
        shifter = x + rounder
        r = x - (shifter - rounder)
        return times_power(polynomial(r, "exp2").fma(r, 1.0), shifter, x)

    return _zero_below(x.at_most(highest), lowest, within)


def half_expm1(x: Float) -> Float:
    """(e**x - 1) / 2 without an early overflow, for x neither below the range where it is -1/2 nor above where it is ∞.

    With s = 2**(n - 2): 2 (s (e**r - 1) + (s - 1/4)).
    """
    shifter, r = reduced(x)
    e = polynomial(r, "expm1").fma(r * r, r)
    s = power_of_two(shifter, 2)
    return 2.0 * s.fma(e, s - 0.25)


def expm1(x: Float) -> Float:
    """e**x - 1, accurate near 0."""
    inner = x.at_most(89.5).at_least(-30.0) if x.single else x.at_most(710.5).at_least(-60.0)
    return select(abs(x) < (2.0**-30 if x.single else 2.0**-60), x, 2.0 * half_expm1(inner))


def tanh(x: Float) -> Float:
    """With t = e**(2|x|) - 1: t / (t + 2)."""
    half = half_expm1(2.0 * abs(x).at_most(10.0 if x.single else 22.0))
    return (half / (half + 1.0)).sign_of(x)


def sinh(x: Float) -> Float:
    """With h = (e**|x| - 1) / 2: h + h / (2h + 1)."""
    a = abs(x)
    half = half_expm1(a.at_most(89.5 if x.single else 710.5))
    finite = half.at_most(2.0**60)
    result = half + finite / (2.0 * finite + 1.0)
    return select(a < (2.0**-30 if x.single else 2.0**-60), x, result.sign_of(x))


def cosh(x: Float) -> Float:
    """With c = e**|x| / 2: c + 1 / (4c)."""
    c = half_expm1(abs(x).at_most(89.5 if x.single else 710.5)) + 0.5
    return c + 0.25 / c


END = {True: 4.0, False: 6.0}
"""Where erf reaches 1, by `single`."""


def erf(x: Float) -> Float:
    """x + x P(x²) up to 1; 1 - erfc(|x|) beyond."""
    a = abs(x)
    near = x.fma(polynomial(x * x, "erf"), x)
    return select(a < 1.0, near, (1.0 - _complement(a.at_most(END[x.single]))).sign_of(x))


def _complement(a: Float) -> Float:
    """erfc on 1 to `END`: a polynomial in f32. In f64, which takes three times as many terms, exp(Q(a - 1)), where Q
    approximates its logarithm and is centred where erfc is largest, because errors of the exponent matter most there.
    """
    if a.single:
        return split_polynomial(a - 2.5, "erfc")
    shifter, r = reduced(polynomial(a - 1.0, "log_erfc"))
    return polynomial(r, "exp").fma(r, 1.0).fma(r, 1.0) * power_of_two(shifter)
