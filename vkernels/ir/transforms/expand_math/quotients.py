"""Quotients of f32 by what has fewer elements: each divisor's reciprocal is made once, and multiplied.

With y = 1/d rounded once, q = n y is within one unit in the last place of n/d, and q + (n - q d) y is n/d rounded once:
Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", IBM J. Res. Dev. 34 (1990). A
divisor that is so small or so large that its reciprocal has no 24 bits is scaled first, and what it divides, too. Where
n is below 2**-100, or the result is subnormal, the last place may be another.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from ...dialect import BroadcastOp
from .values import Float, FormulaEmitter, select

FAR, SHIFT = 2.0**100, 2.0**40
"""Magnitudes from which on a divisor is scaled, and by how much: what it divides then leaves the range of f32 only
where the quotient does."""


def quotient_by_fewer(emitter: FormulaEmitter, function: Operation) -> SSAValue | None:
    """n / d of f32 where d is broadcast, however many elements a plan leaves; None for other quotients."""
    found = _scaled(emitter, function)
    if found is None:
        return None
    numerator, divisor, reciprocal = found
    quotient = numerator * reciprocal
    rest = _like(numerator, -divisor).fma(quotient, numerator)
    corrected = rest.fma(reciprocal, quotient)
    # Not where the first is exact, and may be -0, nor where it is infinite or divided by 0: the other is NaN there.
    return select(corrected.is_other_than(quotient), corrected, quotient).ssa


def approximate_quotient_by_fewer(emitter: FormulaEmitter, function: Operation) -> SSAValue | None:
    """The same without correction, which errs by two units in the last place at most."""
    found = _scaled(emitter, function)
    return None if found is None else (found[0] * found[2]).ssa


def _scaled(emitter: FormulaEmitter, function: Operation) -> tuple[Float, Float, Float] | None:
    """The numerator and the divisor, both scaled, and the divisor's reciprocal, broadcast."""
    numerator, repeated = Float(emitter, function.operands[0]), function.operands[1].owner
    if not isinstance(repeated, BroadcastOp):
        return None
    d = Float(emitter, repeated.source)
    size = abs(d)
    scale = select(size < 1 / FAR, SHIFT, select(size > FAR, 1 / SHIFT, d.const(1.0)))
    divisor = d * scale
    return numerator * _like(numerator, scale), divisor, _like(numerator, 1.0 / divisor)


def _like(whole: Float, value: Float) -> Float:
    """A value of fewer elements, broadcast to all of another's."""
    made = BroadcastOp.create(operands=[value.ssa], result_types=[whole.type])
    return Float(whole.emitter, whole.emitter.append(made)[0])
