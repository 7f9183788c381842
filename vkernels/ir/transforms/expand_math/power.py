"""x**y = 2**(y log2|x|), with the sign and the special values of C's pow (ISO C, annex F).

In f32 everything is done in f64. In f64 the logarithm and its product with y are kept as sums of two numbers,
since 10 bits of it become the exponent of the result.
"""

from __future__ import annotations

from . import logarithm
from .exponential import exp2
from .formula import INFINITY, NAN, ROUNDER, exact_product, exponent_and_fraction, fast_sum, polynomial, times_power
from .values import Float, select

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
