"""Versions of the rest of a block, from the first index on that they compute in other ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from ...dialect import AccessOp, MappedOp
from .accesses import piecewise_access
from .branches import Branch, make_branches, rest_of
from .candidate import Candidate, Version
from .guarded import guarded_access
from .patterns import pattern_access
from .scalars import Scalars, Truth


def version_block(block: Block, lanes: str, mapped: MappedOp) -> None:
    """Make versions of what follows the first index tile of a block that versions do without."""
    accesses = [found for op in block.ops if (found := _candidate(op, lanes, mapped)) is not None]
    if not accesses:
        return
    order = {op: number for number, op in enumerate(block.ops)}
    start = min(_start(each, order) for each in accesses)
    accesses = [each for each in accesses if all(_number(v, order) < start for v in each.scalars)]
    if not accesses or not (ops := rest_of(block, start)):
        return
    scalars = Scalars(InsertPoint.before(ops[0]))
    versions = [version for each in accesses if (version := each.version(scalars)) is not None]
    straight: Truth = bool(versions)
    valid: Truth = True
    for each in versions:
        straight = scalars.both(straight, each.straight)
        valid = scalars.both(valid, True if each.split is None else each.split)
    if straight is False:
        return
    branches = [Branch(straight, lambda copies: _edit(versions, copies, scalars, straight=True))]
    if valid is not False and any(version.split is not None for version in versions):
        branches.append(Branch(valid, lambda copies: _edit(versions, copies, scalars, straight=False)))
    make_branches(ops, scalars, branches)


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


def _edit(versions: Sequence[Version], copies: Mapping[Operation, Operation], scalars: Scalars, straight: bool) -> None:
    """Replace copies of the accesses by those of their straight or their split versions."""
    for version in versions:
        copy = copies[version.op]
        assert isinstance(copy, AccessOp)
        if straight:
            version.make_straight(copy, scalars)
        elif version.split is not None:
            version.make_split(copy, scalars)
