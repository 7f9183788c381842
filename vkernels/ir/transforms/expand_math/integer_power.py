"""Integer powers by repeated squaring."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerType, i64
from xdsl.ir import Block, Region

from .values import Integer, elements, select


def ipowi(base: Integer, exponent: Integer) -> Integer:
    """base**exponent, wrapping around; for a negative exponent the reciprocal rounded to zero, and 0 for base 0.

    A loop over the exponent's bits.
    """
    result = _non_negative_power(base, exponent)
    sign = select((exponent & 1).equals(1), base, base.const(1))
    inverse = select(base.equals(1) | base.equals(-1), sign, base.const(0))
    return select(exponent < 0, inverse, result)


def _non_negative_power(base: Integer, exponent: Integer) -> Integer:
    emitter, type_ = base.emitter, base.type
    width = elements(type_)
    if not isinstance(width, IntegerType):
        raise TypeError(f"{type_} holds no integers")
    body = Block(arg_types=[i64, type_, type_, type_])
    outer, emitter.operations = emitter.operations, []
    power, square, left = (Integer(emitter, argument) for argument in body.args[1:])
    next_power = select((left & 1).equals(1), power * square, power)
    carried = [next_power, square * square, left >> 1]
    emitter.operations.append(scf.YieldOp(*(value.ssa for value in carried)))
    body.add_ops(emitter.operations)
    emitter.operations = outer
    first, last, step = (emitter.constants.get(i64, number) for number in (0, width.width.data - 1, 1))
    loop = scf.ForOp(first, last, step, [base.const(1).ssa, base.ssa, exponent.ssa], Region(body))
    loop.location = emitter.replaced.location
    emitter.operations.append(loop)
    return Integer(emitter, loop.results[0])
