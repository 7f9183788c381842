"""Exponentials of what is left of scores above a level, where they may be approximate: one fused operation each.

e**(x - y) is 2**(x log2(e) - y log2(e)), and y, which has fewer elements than x, is multiplied once. The product
y log2(e) is rounded, and not x - y, so the result errs by 2 |y| 2**-24 of itself more. A sum of products x as large as
y, of which alone this is made, was rounded by about as much before.
"""

from __future__ import annotations

from math import prod

from xdsl.dialects import math
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialect import BroadcastOp, DotOp, arith
from .exponential import LOG2_E
from .values import FormulaEmitter

_EXACT: dict[str, Attribute] = {"fastmath": arith.FastMathFlagsAttr("none")}
_KEPT = (arith.SelectOp, arith.MulfOp, arith.ExtFOp, BroadcastOp)
"""What leaves a sum of products as it is rounded, elsewhere 0 or infinite."""


def exp_of_scores(emitter: FormulaEmitter, function: Operation) -> SSAValue | None:
    """e**(x - y) or e**((x - y) c) of f32, where x are sums of products and y is broadcast, as is a scalar c; None for
    other exponentials."""
    difference, factor = _factored(function.operands[0])
    if not isinstance(difference, arith.SubfOp) or not difference.result.has_one_use():
        return None
    x, level = difference.lhs, _fewer(difference.rhs)
    if level is None or not _is_score(x):
        return None
    by_x = _times_log2_e(emitter, factor, x.type, 1.0)
    by_level = _times_log2_e(emitter, factor, level.type, -1.0)
    shift = emitter.emit(arith.MulfOp, [level, by_level], level.type, dict(_EXACT))
    (shift,) = emitter.append(BroadcastOp.create(operands=[shift], result_types=[x.type]))
    exponent = emitter.emit(math.FmaOp, [x, by_x, shift], x.type, dict(_EXACT))
    return emitter.emit(math.Exp2Op, [exponent], x.type, dict(function.properties))


def _factored(value: SSAValue) -> tuple[object, SSAValue | None]:
    """What makes a value, or what makes the other factor of a product with a scalar, and that scalar."""
    owner = value.owner
    if isinstance(owner, arith.MulfOp) and owner.result.has_one_use():
        for one, other in ((owner.lhs, owner.rhs), (owner.rhs, owner.lhs)):
            repeated = other.owner
            if isinstance(repeated, BroadcastOp) and repeated.source.type == f32:
                return one.owner, repeated.source
    return owner, None


def _fewer(value: SSAValue) -> SSAValue | None:
    """The tile of fewer elements that a value repeats."""
    repeated = value.owner
    if not isinstance(repeated, BroadcastOp) or not isinstance(repeated.source.type, TensorType):
        return None
    return repeated.source if _count(repeated.source.type) < _count(value.type) else None


def _count(type_: Attribute) -> int:
    assert isinstance(type_, TensorType), "a tile"
    return prod(type_.get_shape())


def _is_score(value: SSAValue) -> bool:
    owner = value.owner
    if isinstance(owner, DotOp):
        return True
    return isinstance(owner, _KEPT) and any(map(_is_score, owner.operands))


def _times_log2_e(emitter: FormulaEmitter, factor: SSAValue | None, type_: Attribute, sign: float) -> SSAValue:
    """log2(e), or that times a scalar, everywhere in a tile."""
    if factor is None:
        return emitter.constant(type_, sign * LOG2_E)
    number = emitter.constant(f32, sign * LOG2_E)
    scaled = emitter.emit(arith.MulfOp, [factor, number], f32, dict(_EXACT))
    return emitter.append(BroadcastOp.create(operands=[scaled], result_types=[type_]))[0]
