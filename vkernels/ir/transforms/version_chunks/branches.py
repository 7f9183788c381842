"""Versions of some operations of a block, in the branches of a conditional."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.dialects import scf
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator, is_side_effect_free

from ...dialect import BufferOp, GatherOp, LoadOp, ScratchOp
from ...dialect.blocks import terminator
from .scalars import Scalars, Truth

MOST_OPERATIONS = 400
"""Operations of which there are versions: longer code would take long to compile."""


@dataclass(frozen=True)
class Branch:
    """A version: what replaces copies of some operations, by operation, where `condition` holds."""

    condition: Truth
    edit: Callable[[Mapping[Operation, Operation]], None]


def only_computes(op: Operation) -> bool:
    """Whether an operation can go where nothing uses its results: it computes, or loads."""
    return is_side_effect_free(op) or isinstance(op, LoadOp | GatherOp)


def rest_of(block: Block, start: int) -> list[Operation]:
    """The operations of a block from one on, without its terminator; none if their versions would be too long.

    Scratchpads and swap space are moved to before the others, and left out: memory belongs at the launch's top.
    """
    ops = [op for op in list(block.ops)[start:] if not op.has_trait(IsTerminator)]
    if sum(1 for op in ops for _ in op.walk()) > MOST_OPERATIONS:
        return []
    rest = [op for op in ops if not isinstance(op, ScratchOp | BufferOp)]
    for op in ops:
        if isinstance(op, ScratchOp | BufferOp):
            op.detach()  # type: ignore[no-untyped-call]
            Rewriter.insert_op(op, InsertPoint.before(rest[0]))
    return rest


def make_branches(ops: Sequence[Operation], scalars: Scalars, branches: Sequence[Branch]) -> list[Block]:
    """Replace operations, the rest of a block but for its terminator, by a conditional: a copy of them for the first
    branch whose condition holds, and themselves otherwise. Returns the blocks of the copies."""
    inside = set(ops)
    results = [result for op in ops for result in op.results]
    outputs = [value for value in results if any(use.operation not in inside for use in value.uses)]
    copies = [(branch.condition, _copy(ops, outputs, branch)) for branch in branches]
    last, otherwise = ops[-1].next_op, Block()
    made = _conditional(Builder(InsertPoint.before(ops[0])), ops, outputs, scalars, copies, otherwise)
    if last is not None:
        new: dict[SSAValue, SSAValue] = dict(zip(outputs, made, strict=True))
        last.operands = [new.get(operand, operand) for operand in last.operands]
    for op in ops:
        op.detach()  # type: ignore[no-untyped-call]
    otherwise.insert_ops_before(ops, terminator(otherwise))
    return [block for _, block in copies]


def _conditional(
    builder: Builder, ops: Sequence[Operation], outputs: Sequence[SSAValue], scalars: Scalars,
    branches: Sequence[tuple[Truth, Block]], otherwise: Block,
) -> Sequence[SSAValue]:  # fmt: skip
    (condition, block), *others = branches
    if others:
        rest = Block()
        results = _conditional(Builder(InsertPoint.at_end(rest)), ops, outputs, scalars, others, otherwise)
        rest.add_op(scf.YieldOp(*results))
    else:
        rest = otherwise
        rest.add_op(scf.YieldOp(*outputs))
    test = scalars.truth(condition)
    branch = scf.IfOp(test, [value.type for value in outputs], Region(block), Region(rest))
    branch.location = ops[0].location
    return builder.insert(branch).results


def _copy(ops: Sequence[Operation], outputs: Sequence[SSAValue], branch: Branch) -> Block:
    """A branch's copy of the operations, without those whose results nothing uses."""
    values: dict[SSAValue, SSAValue] = {}
    copies = {op: op.clone(values) for op in ops}
    for old, new in values.items():
        new.name_hint = old.name_hint
    block = Block(list(copies.values()))
    block.add_op(scf.YieldOp(*(values[value] for value in outputs)))
    branch.edit(copies)
    for op in reversed(list(block.ops)):
        if only_computes(op) and not op.has_trait(IsTerminator) and all(not result.uses for result in op.results):
            Rewriter.erase_op(op)
    return block
