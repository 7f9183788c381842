"""Separate a loop or conditional into one for each set of axes; each computes what several of them need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ..analysis.accesses import inputs_of
from ..dialect import RangeOp, YieldOp, axes_of
from ..dialect.blocks import terminator


def separate_loops(op: Operation, whole: frozenset[str]) -> list[Operation]:
    """Replace a `vk.range` or `scf.if` without effects by one for each set of whole axes of its results.

    Each keeps only what its results need, so that everything in it has only these axes. Returns the operations
    that replace it, in order.
    """
    for inner in [inner for region in op.regions for inner in region.block.ops if inner.regions]:
        separate_loops(inner, whole)
    if not isinstance(op, RangeOp | scf.IfOp) or not op.results:
        return [op]
    groups: dict[frozenset[str], list[int]] = {}
    for number, result in enumerate(op.results):
        groups.setdefault(whole.intersection(axes_of(result)), []).append(number)
    values = (value for inner in op.walk() for value in (*inner.operands, *inner.results))
    if list(groups) == [whole.intersection(axis for value in values for axis in axes_of(value))]:
        return [op]
    used = [ns for ns in groups.values() if any(op.results[n].first_use is not None for n in ns)]
    made: list[Operation] = [_only_range(op, ns) if isinstance(op, RangeOp) else _only_if(op, ns) for ns in used]
    Rewriter.insert_op(made, InsertPoint.before(op))
    Rewriter.erase_op(op)
    return made


def _replace_results(old: Operation, new: Operation, kept: Sequence[int], numbers: Iterable[int]) -> None:
    for number in numbers:
        result = new.results[kept.index(number)]
        result.name_hint = old.results[number].name_hint
        old.results[number].replace_all_uses_with(result)


def _only_range(op: RangeOp, numbers: Sequence[int]) -> RangeOp:
    """The range with some of its carried values, and those that they are computed from."""
    body = op.body.block
    yielded = terminator(body).operands
    kept = set(numbers)
    while True:
        needed = _slice(body, [yielded[number] for number in kept])
        used = {operand for inner in needed for operand in inputs_of(inner)} | {yielded[n] for n in kept}
        more = {number for number, argument in enumerate(op.carried) if argument in used}
        if more <= kept:
            break
        kept |= more
    order = sorted(kept)
    block = Block(arg_types=[op.position.type, *(op.carried[n].type for n in order)])
    mapper = dict[SSAValue, SSAValue](zip([op.position, *(op.carried[n] for n in order)], block.args, strict=True))
    for old, new in mapper.items():
        new.name_hint = old.name_hint
    block.add_ops(inner.clone(mapper) for inner in needed)
    block.add_op(YieldOp([mapper.get(yielded[n], yielded[n]) for n in order]))
    made = RangeOp(op.axis.data, op.start, op.stop, [op.initial[n] for n in order], Region(block))
    made.location = op.location
    _replace_results(op, made, order, numbers)
    return made


def _only_if(op: scf.IfOp, numbers: Sequence[int]) -> scf.IfOp:
    """The conditional with some of its results."""
    regions = []
    for region in op.regions:
        values = [terminator(region.block).operands[number] for number in numbers]
        mapper: dict[SSAValue, SSAValue] = {}
        block = Block(inner.clone(mapper) for inner in _slice(region.block, values))
        block.add_op(scf.YieldOp(*(mapper.get(value, value) for value in values)))
        regions.append(Region(block))
    made = scf.IfOp(op.cond, [op.results[number].type for number in numbers], regions[0], regions[1])
    made.location = op.location
    _replace_results(op, made, numbers, numbers)
    return made


def _slice(block: Block, values: Iterable[SSAValue]) -> list[Operation]:
    """The block's operations that compute values, in order."""
    needed = {value.owner for value in values}
    for op in reversed(list(block.ops)):
        if op in needed:
            needed.update(value.owner for value in inputs_of(op))
    return [op for op in block.ops if op in needed]
