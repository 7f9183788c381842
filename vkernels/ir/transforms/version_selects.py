"""Load only the chosen side of a selection in chunks that choose alike throughout: `version-selects`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ..analysis.piecewise import constant_in
from ..dialect import BroadcastOp, GatherOp, LoadOp, MappedOp, PositionOp, arith, axes_of
from .version_chunks.branches import Branch, make_branches, only_computes, rest_of
from .version_chunks.scalars import Scalars, Truth
from .version_loops.conditions import Conditions

MOST_CHOICES = 3
"""Conditions by which versions are made of one another."""


@dataclass(frozen=True)
class VersionSelects(ModulePass):
    """Where a selection's condition compares sums of positions, run chunks for which it is true throughout, or false
    throughout, in versions without the other side, if they spare loads.

    `where(j < p, x[i, j], y[i, j - p])` joins two matrices: a chunk of `j` loads from one of them, but for that which
    both meet in. For lowerings that know how many positions a chunk has; where threads choose for themselves, it
    would only lengthen the code.
    """

    name = "version-selects"
    result = "mapped IR in which chunks that choose alike throughout have versions without the other side"

    def apply(self, context: Context, module: ModuleOp) -> None:
        version_selects(module)


def version_selects(module: ModuleOp) -> None:
    """Run the pass on every mapped kernel of a module."""
    for mapped in module.ops:
        if isinstance(mapped, MappedOp) and mapped.lanes is not None:
            blocks = [block for op in mapped.walk() for region in op.regions for block in region.blocks]
            for block in reversed(blocks):  # inner ones first
                _version_block(block, mapped, MOST_CHOICES)


def _version_block(block: Block, mapped: MappedOp, most: int) -> None:
    """Make versions of what follows the first operation of a block that one of them does without."""
    order = {op: number for number, op in enumerate(block.ops)}
    for op in order:
        if isinstance(op, arith.SelectOp) and (condition := _condition_of(op)) is not None:
            alike = [
                other for other in order if isinstance(other, arith.SelectOp) and _condition_of(other) is condition
            ]
            if (start := _start(condition, alike, order)) is not None:
                _make_versions(block, mapped, condition, alike, start, most)
                return


def _condition_of(op: arith.SelectOp) -> SSAValue | None:
    """A condition that compares sums of positions and scalars, before it is repeated; None for others."""
    condition = op.cond
    while isinstance(condition.owner, BroadcastOp):
        condition = condition.owner.source
    return condition if axes_of(condition) and _is_comparison(condition) else None


def _is_comparison(mask: SSAValue) -> bool:
    op = mask.owner
    if isinstance(op, BroadcastOp):
        return _is_comparison(op.source)
    if isinstance(op, arith.AndIOp | arith.OrIOp):
        return _is_comparison(op.lhs) and _is_comparison(op.rhs)
    return isinstance(op, arith.CmpiOp) and all(_is_sum(operand) for operand in op.operands)


def _is_sum(value: SSAValue) -> bool:
    op = value.owner
    if not axes_of(value) or isinstance(op, PositionOp) or constant_in(value) is not None:
        return True
    sums = BroadcastOp | arith.AddiOp | arith.SubiOp | arith.MuliOp | arith.ExtSIOp
    return isinstance(op, sums) and all(_is_sum(operand) for operand in op.operands)


def _start(condition: SSAValue, selects: Sequence[Operation], order: Mapping[Operation, int]) -> int | None:
    """The first operation that versions may do without, after all scalars of the condition; None if they spare no
    load."""
    first = max((order.get(op, -1) for op in _scalars_of(condition)), default=-1) + 1
    spared = [order[op] for select in selects for op in _spared(select, order) if order[op] >= first]
    loads = [number for op, number in order.items() if number in spared and isinstance(op, LoadOp | GatherOp)]
    return min(spared) if loads else None


def _scalars_of(value: SSAValue) -> list[Operation]:
    """The operations that make the scalars of a condition."""
    if not isinstance(value.owner, Operation):
        return []
    if not axes_of(value):
        return [value.owner]
    return [op for operand in value.owner.operands for op in _scalars_of(operand)]


def _spared(select: Operation, order: Mapping[Operation, int]) -> set[Operation]:
    """Operations of a block that serve one side of a selection alone."""
    found = {select}
    pending = [value.owner for value in select.operands[1:]]
    while pending:
        op = pending.pop()
        if not isinstance(op, Operation) or op in found or op not in order:
            continue
        if (
            only_computes(op)
            and not op.regions
            and all(use.operation in found for result in op.results for use in result.uses)
        ):
            found.add(op)
            pending += [operand.owner for operand in op.operands]
    return found - {select}


def _make_versions(
    block: Block, mapped: MappedOp, condition: SSAValue, selects: Sequence[Operation], start: int, most: int
) -> None:
    if not (ops := rest_of(block, start)):
        return
    scalars = Scalars(InsertPoint.before(ops[0]))
    conditions = Conditions(None, mapped, scalars, reduces=False)
    truths = conditions.holds(condition), conditions.fails(condition)
    branches = []
    for side, truth in enumerate(truths):
        if truth is not None and truth is not False:
            known: Truth = scalars.both(conditions.valid, truth)
            branches.append(Branch(known, partial(_take, side, selects)))
    if not branches:
        return
    made = make_branches(ops, scalars, branches)
    if most > 1:
        for version in made:
            _version_block(version, mapped, most - 1)


def _take(side: int, selects: Sequence[Operation], copies: Mapping[Operation, Operation]) -> None:
    """Replace copies of selections by one of their sides."""
    for select in selects:
        copy = copies.get(select)
        if copy is not None:
            copy.results[0].replace_all_uses_with(copy.operands[1 + side])
            Rewriter.erase_op(copy)


__all__ = ["VersionSelects", "version_selects"]
