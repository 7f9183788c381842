"""Give every set of axes a loop or conditional of its own: what two of them share is computed in both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.traits import IsTerminator

from ..analysis.accesses import inputs_of
from ..dialect import RangeOp, YieldOp, axes_of


def separate_loops(op: Operation, whole: frozenset[str]) -> list[Operation]:
    """Replace a `vk.range` or `scf.if` without effects by one for each set of whole axes that its results have.

    Each keeps only what its results need, so that all in it is processed along just these axes. Returns what
    stands in the operation's place, in order.
    """
    for inner in [inner for region in op.regions for inner in region.block.ops if inner.regions]:
        separate_loops(inner, whole)
    if not isinstance(op, RangeOp | scf.IfOp) or not op.results:
        return [op]
    groups: dict[frozenset[str], list[int]] = {}
    for number, result in enumerate(op.results):
        groups.setdefault(whole.intersection(_axes(result)), []).append(number)
    if list(groups) == [whole & _all_axes(op)]:
        return [op]
    block = op.parent
    assert block is not None
    made: list[Operation] = []
    for numbers in groups.values():
        if any(op.results[number].first_use is not None for number in numbers):
            made.append(_only_range(op, numbers) if isinstance(op, RangeOp) else _only_if(op, numbers))
            block.insert_op_before(made[-1], op)
    op.detach()  # type: ignore[no-untyped-call]
    op.erase()
    return made


def _axes(value: SSAValue) -> tuple[str, ...]:
    return axes_of(value) if isinstance(value.type, TensorType) else ()


def _all_axes(op: Operation) -> set[str]:
    """Every axis of a value in an operation or its regions."""
    return {axis for inner in op.walk() for value in (*inner.operands, *inner.results) for axis in _axes(value)}


def _hand_on(old: Operation, new: Operation, kept: Sequence[int], numbers: Iterable[int]) -> None:
    for number in numbers:
        result = new.results[kept.index(number)]
        result.name_hint = old.results[number].name_hint
        old.results[number].replace_all_uses_with(result)


def _only_range(op: RangeOp, numbers: Sequence[int]) -> RangeOp:
    """The range with some of its carried values, and those that they are computed from."""
    body = op.body.block
    last = body.last_op
    assert isinstance(last, YieldOp)
    kept = set(numbers)
    while True:
        needed = _slice(body, [last.values[number] for number in kept])
        used = {operand for inner in needed for operand in inputs_of(inner)} | {last.values[n] for n in kept}
        more = {number for number, argument in enumerate(op.carried) if argument in used}
        if more <= kept:
            break
        kept |= more
    order = sorted(kept)
    block = Block(arg_types=[op.position.type, *(op.carried[n].type for n in order)])
    mapper: dict[SSAValue, SSAValue] = {op.position: block.args[0]}
    mapper.update(zip((op.carried[n] for n in order), block.args[1:], strict=True))
    for old, new in mapper.items():
        new.name_hint = old.name_hint
    block.add_ops(inner.clone(mapper) for inner in needed)
    block.add_op(YieldOp([mapper.get(last.values[n], last.values[n]) for n in order]))
    made = RangeOp(op.axis.data, op.start, op.stop, [op.initial[n] for n in order], Region(block))
    made.location = op.location
    _hand_on(op, made, order, numbers)
    return made


def _only_if(op: scf.IfOp, numbers: Sequence[int]) -> scf.IfOp:
    """The conditional with some of its results."""
    regions = []
    for region in op.regions:
        last = region.block.last_op
        assert last is not None
        values = [last.operands[number] for number in numbers]
        mapper: dict[SSAValue, SSAValue] = {}
        block = Block(inner.clone(mapper) for inner in _slice(region.block, values))
        block.add_op(scf.YieldOp(*(mapper.get(value, value) for value in values)))
        regions.append(Region(block))
    made = scf.IfOp(op.cond, [op.results[number].type for number in numbers], regions[0], regions[1])
    made.location = op.location
    _hand_on(op, made, numbers, numbers)
    return made


def _slice(block: Block, values: Iterable[SSAValue]) -> list[Operation]:
    """The block's operations that compute values, in order."""
    needed = set(_owners(values))
    for op in reversed(list(block.ops)):
        if op in needed and not op.has_trait(IsTerminator):
            needed.update(_owners(inputs_of(op)))
    return [op for op in block.ops if op in needed]


def _owners(values: Iterable[SSAValue]) -> Iterator[Operation]:
    return (value.owner for value in values if isinstance(value.owner, Operation))
