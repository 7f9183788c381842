"""How often a mapped loop runs at most, as far as facts tell."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue

from ...dialect import SizeOp, arith
from ...facts import Facts


def most_trips(loop: scf.ForOp, facts: Facts) -> int | None:
    """The most iterations that a loop makes; None where the facts do not bound them."""
    step = constant_of(loop.step)
    if step is None or step < 1:
        return None
    most = most_between(loop.lb, loop.ub, facts)
    return None if most is None else max(0, -(-most // step))


def constant_of(value: SSAValue) -> int | None:
    """The number that an i64 constant is."""
    op = value.owner
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return op.value.value.data
    return None


def most_between(start: SSAValue, stop: SSAValue, facts: Facts) -> int | None:
    """An upper bound of `stop - start`, both scalars of i64 that are 0 or more."""
    first, op = constant_of(start), stop.owner
    if isinstance(op, arith.MinSIOp):
        return _least(most_between(start, op.lhs, facts), most_between(start, op.rhs, facts))
    if isinstance(op, arith.AddiOp):
        for one, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            if one is start:
                return most_of(other, facts)
    most = most_of(stop, facts)
    return most if most is None or first is None else most - first


def most_of(value: SSAValue, facts: Facts) -> int | None:
    """An upper bound of scalar i64 arithmetic on sizes, all of it on numbers that are 0 or more."""
    op = value.owner
    if isinstance(op, SizeOp):
        name = op.size.data
        return facts.sizes.get(name, facts.bounds.get(name))
    if isinstance(op, arith.MinSIOp):
        return _least(most_of(op.lhs, facts), most_of(op.rhs, facts))
    if isinstance(op, arith.SubiOp):
        return most_between(op.rhs, op.lhs, facts)
    if isinstance(op, arith.AddiOp | arith.MuliOp):
        left, right = most_of(op.lhs, facts), most_of(op.rhs, facts)
        if left is None or right is None:
            return None
        return left + right if isinstance(op, arith.AddiOp) else left * right
    if isinstance(op, arith.FloorDivSIOp | arith.CeilDivSIOp):
        left, by = most_of(op.lhs, facts), constant_of(op.rhs)
        if left is None or by is None or by < 1:
            return None
        return left // by if isinstance(op, arith.FloorDivSIOp) else -(-left // by)
    return constant_of(value)


def _least(*bounds: int | None) -> int | None:
    return min((bound for bound in bounds if bound is not None), default=None)
