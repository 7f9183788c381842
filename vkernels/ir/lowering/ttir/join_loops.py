"""Join loops around a loop of dots with it, so that it goes on from each of their iterations to the next.

Compilers pipeline the innermost loop: its first iterations wait for their operands, and its last ones load nothing.
Where a dot is inside ranges, as those of a convolution are, that were so in each iteration of these. One loop that
counts through all of them waits once.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.dialects.scf import ForOp, YieldOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import Pure

from vkernels.ir.dialect import arith, tt

_BOUNDS = 3
"""The operands of a loop before those that it carries: first, end and step."""


def join_loops(function: Operation) -> None:
    """Join each nest whose innermost loop has a dot, and whose outer loops do nothing else that has an effect."""
    for loop in [op for op in function.walk() if isinstance(op, ForOp)]:
        if loop.parent is not None and len(nest := _nest(loop)) > 1 and _has_dot(nest[-1]):
            _join(nest)


def _nest(outer: ForOp) -> list[ForOp]:
    """A loop and those inside it that can be joined with it, outer ones first."""
    found = [outer]
    while (inner := _only_loop(found[-1])) is not None and not _depends(inner, found):
        found.append(inner)
    return found


def _only_loop(outer: ForOp) -> ForOp | None:
    """The loop that hands on all that the outer one carries, where all else in it has no effect."""
    block = outer.body.block
    loops = [op for op in block.ops if op.regions]
    if len(loops) != 1 or not isinstance(inner := loops[0], ForOp) or inner.next_op is not block.last_op:
        return None
    if inner.lb.type != i64 or outer.lb.type != i64:
        return None
    if any(not op.has_trait(Pure) for op in block.ops if op is not inner and not isinstance(op, YieldOp)):
        return None
    carried, yielded = block.args[1:], _yield_of(outer).operands
    if not carried or tuple(inner.iter_args) != tuple(carried) or tuple(yielded) != tuple(inner.results):
        return None
    return inner if all(value.uses.get_length() == 1 for value in (*carried, *inner.results)) else None


def _depends(inner: ForOp, outer: Sequence[ForOp]) -> bool:
    """Whether the bounds of a loop are found inside one of the outer ones."""
    blocks = [loop.body.block for loop in outer]
    owners = [value.owner for value in inner.operands[:_BOUNDS]]
    return any((owner.parent if isinstance(owner, Operation) else owner) in blocks for owner in owners)


def _yield_of(loop: ForOp) -> YieldOp:
    last = loop.body.block.last_op
    assert isinstance(last, YieldOp), "verified"
    return last


def _has_dot(loop: ForOp) -> bool:
    return any(isinstance(op, tt.DotOp | tt.DotScaledOp) for op in loop.body.block.ops)


def _join(nest: Sequence[ForOp]) -> None:
    """Put one loop in place of a nest. It carries the position in each of the loops."""
    outer, inner = nest[0], nest[-1]
    counts = [_count(loop, outer) for loop in nest]
    total = counts[0]
    for count in counts[1:]:
        total = _before(outer, arith.MuliOp(total, count))
    zero, one = (_before(outer, arith.ConstantOp(IntegerAttr(value, i64))) for value in (0, 1))
    places = [loop.lb for loop in nest]
    body = Block(arg_types=[i64, *(value.type for value in (*outer.iter_args, *places))])
    carried, positions = body.args[1 : 1 + len(outer.iter_args)], body.args[1 + len(outer.iter_args) :]
    following = _following(nest, positions, body)
    for loop, position in zip(nest, positions, strict=True):
        block = loop.body.block
        block.args[0].replace_all_uses_with(position)
        position.name_hint = block.args[0].name_hint
        if loop is inner:
            for old, new in zip(block.args[1:], carried, strict=True):
                old.replace_all_uses_with(new)
                new.name_hint = old.name_hint
        for op in [*block.ops]:
            if op not in nest and not isinstance(op, YieldOp):
                op.detach()
                body.add_op(op)
    body.add_op(YieldOp(*_yield_of(inner).operands, *following))
    joined = ForOp(zero, total, one, [*outer.iter_args, *places], body)
    joined.location = inner.location
    joined.attributes.update(outer.attributes)
    Rewriter.insert_op(joined, InsertPoint.before(outer))
    for before, after in zip(outer.results, joined.results, strict=False):
        before.replace_all_uses_with(after)
        after.name_hint = before.name_hint
    Rewriter.erase_op(outer)


def _count(loop: ForOp, before: Operation) -> SSAValue:
    """The iterations of a loop."""
    length = loop.ub if _is(loop.lb, 0) else _before(before, arith.SubiOp(loop.ub, loop.lb))
    if not _is(loop.step, 1):
        length = _before(before, arith.CeilDivSIOp(length, loop.step))
    zero = _before(before, arith.ConstantOp(IntegerAttr(0, i64)))
    return _before(before, arith.MaxSIOp(length, zero))


def _following(nest: Sequence[ForOp], positions: Sequence[SSAValue], body: Block) -> Sequence[SSAValue]:
    """The positions of the next iteration: each loop goes on where all those inside it begin again."""
    found: list[SSAValue] = []
    begins: SSAValue | None = None
    for loop, position in reversed([*zip(nest, positions, strict=True)]):
        following = _added(body, arith.AddiOp(position, loop.step))
        is_done = _added(body, arith.CmpiOp(following, loop.ub, "sge")) if loop is not nest[0] else None
        value = following if is_done is None else _added(body, arith.SelectOp(is_done, loop.lb, following))
        found.append(value if begins is None else _added(body, arith.SelectOp(begins, value, position)))
        if is_done is not None:
            begins = is_done if begins is None else _added(body, arith.AndIOp(begins, is_done))
    return found[::-1]


def _is(value: SSAValue, number: int) -> bool:
    op = value.owner
    return isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr) and op.value.value.data == number


def _before(place: Operation, op: Operation) -> SSAValue:
    op.location = place.location
    Rewriter.insert_op(op, InsertPoint.before(place))
    return op.results[0]


def _added(block: Block, op: Operation) -> SSAValue:
    block.add_op(op)
    return op.results[0]
