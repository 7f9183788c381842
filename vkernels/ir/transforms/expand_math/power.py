"""Powers, roots, and rounding half away from zero.

x**y = 2**(y log2|x|), with the sign and the special values of C's pow (ISO C, annex F): in f32 computed in f64, in f64
with the logarithm and its product with y as sums of two numbers, since 10 bits of it become the exponent of the result.
"""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerType, i64
from xdsl.ir import Block, Region

from . import logarithm
from .exponential import exp2
from .formula import INFINITY, NAN, ROUNDER, exact_product, exponent_and_fraction, fast_sum, polynomial, times_power
from .values import Float, Integer, select

THIRD = (0.3333333333333333, 1.850371707708594e-17)
TWO_LOG2_E = (2.8853900817779268, 4.0710547481862066e-17)


def powf(x: Float, y: Float) -> Float:
    """x**y. y = 0 and x = 1 give 1, even with NaN; a negative x with a y that is not whole gives NaN."""
    a = abs(x)
    result = _single(a, y) if x.single else _double(a, y)
    result = select(a.equals(1.0), 1.0, result)
    whole = y.floor().equals(y)
    half = 0.5 * y
    odd = whole & half.floor().differs(half)
    result = select(odd, result.sign_of(x), result)
    undefined = (x < 0.0) & (a < INFINITY) & y.floor().differs(y)
    result = select(undefined, NAN, result)
    result = select(x.unordered(y), x + y, result)
    return select(x.equals(1.0) | y.equals(0.0), 1.0, result)


def _with_limits(a: Float, log: Float) -> Float:
    return select(a.equals(0.0), -INFINITY, select(a.equals(INFINITY), INFINITY, log))


def _single(a: Float, y: Float) -> Float:
    a = a.widen()
    _, e, m = exponent_and_fraction(a)
    log = logarithm.to_base(m - 1.0, e, logarithm.LOG2_E_PARTS[False], (1.0, 0.0))
    return exp2(_with_limits(a, log) * y.widen()).narrow()


def _double(a: Float, y: Float) -> Float:
    high, low = _log2(a)
    high = _with_limits(a, high)
    product, error = exact_product(y, high)
    moderate = abs(product) < 1100.0
    rest = select(moderate, y.fma(low, error), product.const(0.0))
    product = product.at_most(1100.0).at_least(-1100.0)
    shifter = product + ROUNDER[False]
    r = (product - (shifter - ROUNDER[False])) + rest
    return times_power(polynomial(r, "exp2").fma(r, 1.0), shifter, product)


def _log2(a: Float) -> tuple[Float, Float]:
    """log2 of a positive finite number as a sum of two: e + 2 atanh(s) / log(2), s = f / (2 + f)."""
    _, e, m = exponent_and_fraction(a)
    f = m - 1.0
    d, d_low = fast_sum(f.const(2.0), f)
    reciprocal = 1.0 / d
    s = f * reciprocal
    s_low = ((-s).fma(d, f) - s * d_low) * reciprocal
    z, z_low = exact_product(s, s)
    z_low = (s + s).fma(s_low, z_low)
    t, t_low = fast_sum(s.const(THIRD[0]), z * polynomial(z, "pow"))
    t_low = t_low + THIRD[1]
    v, v_low = exact_product(z, t)
    v_low = v_low + z.fma(t_low, z_low * t)
    p, p_low = exact_product(s, v)
    p_low = p_low + s.fma(v_low, s_low * v)
    log, log_low = fast_sum(s, p)
    log_low = log_low + (p_low + s_low)
    q, q_low = exact_product(log, log.const(TWO_LOG2_E[0]))
    q_low = q_low + log.fma(TWO_LOG2_E[1], log_low * TWO_LOG2_E[0])
    total, total_low = fast_sum(e, q)
    return fast_sum(total, total_low + q_low)


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


def ipowi(base: Integer, exponent: Integer) -> Integer:
    """base**exponent by repeated squaring, wrapping around; for a negative exponent the reciprocal rounded to zero, and
    0 for base 0."""
    result = _non_negative_power(base, exponent)
    sign = select((exponent & 1).equals(1), base, base.const(1))
    inverse = select(base.equals(1) | base.equals(-1), sign, base.const(0))
    return select(exponent < 0, inverse, result)


def _non_negative_power(base: Integer, exponent: Integer) -> Integer:
    emitter, type_ = base.emitter, base.type
    width = base.element
    if not isinstance(width, IntegerType):
        raise TypeError(f"{type_} holds no integers")
    body = Block(arg_types=[i64, type_, type_, type_])
    power, square, left = (Integer(emitter, argument) for argument in body.args[1:])
    with emitter.nested() as inside:
        next_power = select((left & 1).equals(1), power * square, power)
        carried = [next_power, square * square, left >> 1]
        inside.append(scf.YieldOp(*(value.ssa for value in carried)))
    body.add_ops(inside)
    first, last, step = (emitter.constant(i64, number) for number in (0, width.width.data - 1, 1))
    loop = scf.ForOp(first, last, step, [base.const(1).ssa, base.ssa, exponent.ssa], Region(body))
    return Integer(emitter, emitter.append(loop)[0])
