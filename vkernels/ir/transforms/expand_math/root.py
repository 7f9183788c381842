"""rsqrt and cbrt, and rounding half away from zero."""

from __future__ import annotations

from .formula import INFINITY, exact_product
from .values import Float, select


def rsqrt(x: Float) -> Float:
    """1 / √x, both operations correctly rounded."""
    return 1.0 / x.sqrt()


def cbrt(x: Float) -> Float:
    """With z ≈ a**(-1/3), a = |x|: first from a's bits divided by -3, then twice refined, z (1 + e/3 + 2e²/9 + 14e³/81)
    with e = 1 - a z³ (the binomial series); a z² is corrected by its residual. a is scaled by a power of 8, so that no
    step overflows or is subnormal."""
    a = abs(x)
    tiny = a < (2.0**-100 if x.single else 2.0**-1000)
    scaled = a * select(tiny, 2.0**24 if x.single else 2.0**54, a.const(0.125))
    bits = scaled.bits()
    third = (bits >> 2) + (bits >> 4)
    third = third + (third >> 4)
    third = third + (third >> 8)
    z = (bits.const(0x54A2FA8C if x.single else 0x553EF0FF289DD796) - third).as_float()
    for _ in range(2):
        e = 1.0 - ((scaled * z) * z) * z
        z = z + (z * e) * e.fma(14 / 81, 2 / 9).fma(e, 1 / 3)
    root = scaled * z * z
    square, square_low = exact_product(root, root)
    cube, cube_low = exact_product(square, root)
    residual = ((scaled - cube) - cube_low) - square_low * root
    root = root + residual * (z * z) * (1 / 3)
    root = root * select(tiny, 2.0**-8 if x.single else 2.0**-18, a.const(2.0))
    return select((a > 0.0) & (a < INFINITY), root.sign_of(x), x)


def round_half_away(x: Float) -> Float:
    """The nearest whole number, ties away from zero."""
    a = abs(x)
    whole = a.floor()
    return (whole + select((a - whole) < 0.5, 0.0, x.const(1.0))).sign_of(x)
