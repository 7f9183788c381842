"""Upper bounds of the iterations of mapped loops, from facts."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.ir import SSAValue

from ...analysis.accesses import constant_of
from ...dialect import SizeOp, arith
from ...facts import Facts


def most_trips(loop: scf.ForOp, facts: Facts) -> int | None:
    """The most iterations of a loop; None if facts do not bound them."""
    step, most = constant_of(loop.step), _most_between(loop.lb, loop.ub, facts)
    return None if most is None or step is None or step < 1 else max(0, -(-most // step))


def _most_between(start: SSAValue, stop: SSAValue, facts: Facts) -> int | None:
    """An upper bound of `stop - start`, both i64 scalars of at least 0."""
    first, op = constant_of(start), stop.owner
    if isinstance(op, arith.MinSIOp):
        return _least(_most_between(start, op.lhs, facts), _most_between(start, op.rhs, facts))
    if isinstance(op, arith.AddiOp):
        for one, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            if one is start:
                return _most_of(other, facts)
    most = _most_of(stop, facts)
    return most if most is None or first is None else most - first


def _most_of(value: SSAValue, facts: Facts) -> int | None:
    """An upper bound of scalar i64 arithmetic on sizes; all numbers are at least 0."""
    op = value.owner
    if isinstance(op, SizeOp):
        name = op.size.data
        return facts.sizes.get(name, facts.bounds.get(name))
    if isinstance(op, arith.MinSIOp):
        return _least(_most_of(op.lhs, facts), _most_of(op.rhs, facts))
    if isinstance(op, arith.SubiOp):
        return _most_between(op.rhs, op.lhs, facts)
    if isinstance(op, arith.AddiOp | arith.MuliOp):
        left, right = _most_of(op.lhs, facts), _most_of(op.rhs, facts)
        if left is None or right is None:
            return None
        return left + right if isinstance(op, arith.AddiOp) else left * right
    if isinstance(op, arith.FloorDivSIOp | arith.CeilDivSIOp):
        left, by = _most_of(op.lhs, facts), constant_of(op.rhs)
        if left is None or by is None or by < 1:
            return None
        return left // by if isinstance(op, arith.FloorDivSIOp) else -(-left // by)
    return constant_of(value)


def _least(*bounds: int | None) -> int | None:
    return min((bound for bound in bounds if bound is not None), default=None)
