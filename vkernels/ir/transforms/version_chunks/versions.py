"""Versions of the rest of a block, from the first index on that they compute in other ways."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.builder import Builder
from xdsl.dialects import scf
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator, is_side_effect_free

from ...dialect import AccessOp, BufferOp, MappedOp, ScratchOp
from ...dialect.blocks import terminator
from .accesses import piecewise_access
from .candidate import Candidate, Version
from .guarded import guarded_access
from .patterns import pattern_access
from .scalars import Scalars, Truth

MOST_OPERATIONS = 400
"""Operations of which there are versions: longer code would take long to compile."""


def version_block(block: Block, lanes: str, mapped: MappedOp) -> None:
    """Make versions of what follows the first index tile of a block that versions do without."""
    accesses = [found for op in block.ops if (found := _candidate(op, lanes, mapped)) is not None]
    if not accesses:
        return
    order = {op: number for number, op in enumerate(block.ops)}
    start = min(_start(each, order) for each in accesses)
    accesses = [each for each in accesses if all(_number(v, order) < start for v in each.scalars)]
    ops = [op for op in list(block.ops)[start:] if not op.has_trait(IsTerminator)]
    if not accesses or sum(1 for op in ops for _ in op.walk()) > MOST_OPERATIONS:
        return
    ops = _without_memory(ops)
    scalars = Scalars(InsertPoint.before(ops[0]))
    versions = [version for each in accesses if (version := each.version(scalars)) is not None]
    straight: Truth = bool(versions)
    valid: Truth = True
    for each in versions:
        straight = scalars.both(straight, each.straight)
        valid = scalars.both(valid, True if each.split is None else each.split)
    if straight is not False:
        _Versions(ops, scalars).make(versions, straight, valid)


def _without_memory(ops: Sequence[Operation]) -> list[Operation]:
    """Move scratchpads and swap space to before the others, and return those: memory belongs at the launch's top."""
    rest = [op for op in ops if not isinstance(op, ScratchOp | BufferOp)]
    for op in ops:
        if isinstance(op, ScratchOp | BufferOp):
            op.detach()  # type: ignore[no-untyped-call]
            Rewriter.insert_op(op, InsertPoint.before(rest[0]))
    return rest


def _candidate(op: Operation, lanes: str, mapped: MappedOp) -> Candidate | None:
    return pattern_access(op, lanes) or piecewise_access(op, lanes) or guarded_access(op, lanes, mapped)


def _start(access: Candidate, order: dict[Operation, int]) -> int:
    """The first operation of its block that only computes the index tile, after all scalars that it needs."""
    scalars = set(access.scalars)
    pending, found = list(access.tiles), order[access.op]
    while pending:
        value = pending.pop()
        if value not in scalars and isinstance(op := value.owner, Operation) and op in order:
            found = min(found, order[op])
            pending += op.operands
    return max([found, *(_number(value, order) + 1 for value in scalars)])


def _number(value: SSAValue, order: dict[Operation, int]) -> int:
    """Which operation of a block makes a value; -1 if none does."""
    return order.get(value.owner, -1) if isinstance(value.owner, Operation) else -1


class _Versions:
    """Moves operations into the branches of a conditional."""

    def __init__(self, ops: Sequence[Operation], scalars: Scalars):
        self.ops, self.scalars = ops, scalars
        inside = set(ops)
        results = [result for op in ops for result in op.results]
        self.outputs = [value for value in results if any(use.operation not in inside for use in value.uses)]

    def make(self, versions: Sequence[Version], straight: Truth, valid: Truth) -> None:
        """Replace the operations by a conditional with the versions."""
        last = self.ops[-1].next_op
        branches: list[tuple[Truth, Block]] = [(straight, self._copy(versions, is_straight=True))]
        if valid is not False and any(version.split is not None for version in versions):
            branches.append((valid, self._copy(versions, is_straight=False)))
        at = Builder(InsertPoint.before(self.ops[0]))
        otherwise = Block()
        results = self._conditional(at, branches, otherwise)
        if last is not None:
            new: dict[SSAValue, SSAValue] = dict(zip(self.outputs, results, strict=True))
            last.operands = [new.get(operand, operand) for operand in last.operands]
        for op in self.ops:
            op.detach()  # type: ignore[no-untyped-call]
        otherwise.insert_ops_before(self.ops, terminator(otherwise))

    def _conditional(
        self, builder: Builder, branches: Sequence[tuple[Truth, Block]], otherwise: Block
    ) -> Sequence[SSAValue]:
        (condition, block), *others = branches
        if others:
            rest = Block()
            results = self._conditional(Builder(InsertPoint.at_end(rest)), others, otherwise)
            rest.add_op(scf.YieldOp(*results))
        else:
            rest = otherwise
            rest.add_op(scf.YieldOp(*self.outputs))
        test = self.scalars.truth(condition)
        branch = scf.IfOp(test, [value.type for value in self.outputs], Region(block), Region(rest))
        branch.location = self.ops[0].location
        return builder.insert(branch).results

    def _copy(self, versions: Sequence[Version], is_straight: bool) -> Block:
        """A copy of the operations in which accesses are made in another way."""
        values: dict[SSAValue, SSAValue] = {}
        copies = {op: op.clone(values) for op in self.ops}
        for old, new in values.items():
            new.name_hint = old.name_hint
        block = Block(list(copies.values()))
        block.add_op(scf.YieldOp(*(values[value] for value in self.outputs)))
        for version in versions:
            copy = copies[version.op]
            assert isinstance(copy, AccessOp)
            if is_straight:
                version.make_straight(copy, self.scalars)
            elif version.split is not None:
                version.make_split(copy, self.scalars)
        for op in reversed(list(block.ops)):
            if is_side_effect_free(op) and not op.has_trait(IsTerminator) and all(not r.uses for r in op.results):
                Rewriter.erase_op(op)
        return block
