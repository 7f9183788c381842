"""Run loops of dots without masks and guards where all of their elements are active: `version-loops`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import DenseArrayBase, IntegerType, ModuleOp, i64
from xdsl.ir import Block, Operation, Region
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator, is_side_effect_free

from ...dialect import (
    AccessOp,
    BufferOp,
    DotOp,
    GatherOp,
    LaunchOp,
    LoadOp,
    MappedOp,
    ScratchOp,
    WordDotOp,
    WriteOp,
    axes_of,
)
from ..version_chunks.scalars import Scalars, Truth
from .conditions import Conditions

MOST_OPERATIONS = 400
"""Operations of a loop that has versions: longer code would take long to compile."""
IN_NESTS = (WordDotOp,)
"""The dots whose nests have versions. Those of `DotOp` would be right, too, but gradients of attention in f32 take a
quarter longer with them."""


@dataclass(frozen=True)
class VersionLoops(ModulePass):
    """Put innermost loops of dots, and stores beside them, into an `scf.if`: without masks and guards where all of
    their elements are active, else as they are.

    Masks and guards are comparisons of sums: of what is known before the loop, of positions of the tile and of the
    loop's own position. Such a sum lies between two scalars in all iterations, so a few scalars before the loop tell
    whether all comparisons hold. In the loop they cost more than its multiply-adds: an address selected for each
    element that is repeated in all lanes, and a mask for each register of others, which then is no operand of
    arithmetic. Blocks of queries and keys, rows of groups, and images with a boundary are nearly always whole.
    """

    name = "version-loops"
    result = "mapped IR in which loops of dots have versions without masks and guards, for whole blocks"

    def apply(self, context: Context, module: ModuleOp) -> None:
        version_loops(module)


def version_loops(module: ModuleOp) -> None:
    """Run the pass on every mapped kernel of a module."""
    for mapped in module.ops:
        if isinstance(mapped, MappedOp) and mapped.lanes is not None:
            for launch in [op for op in mapped.body.block.ops if isinstance(op, LaunchOp)]:
                _in_launch(launch, mapped, mapped.lanes.data)


def _in_launch(launch: LaunchOp, mapped: MappedOp, lanes: str) -> None:
    ops = list(launch.walk())
    if any(isinstance(op, DotOp | WordDotOp) for op in ops):
        for op in ops:
            if isinstance(op, scf.ForOp) and (_is_loop_of_dots(op) or _is_nest_of_dots(op)):
                copy = _version_loop(op, mapped)
                stores = [] if copy is None else [each for each in copy.walk() if _stores_along(each, lanes)]
            else:
                stores = [op] if _stores_along(op, lanes) else []
            for store in stores:
                _version_store(store, mapped)


def _stores_along(op: Operation, lanes: str) -> TypeGuard[WriteOp]:
    return isinstance(op, WriteOp) and op.atomic is None and lanes in axes_of(op.tile)


def _is_loop_of_dots(loop: scf.ForOp) -> bool:
    """Whether a loop that carries results multiplies in its own block, in which no other loops run."""
    ops = list(loop.body.block.ops)
    if not loop.results or len(ops) > MOST_OPERATIONS or any(op.regions for op in ops):
        return False
    multiplies = any(isinstance(op, DotOp | WordDotOp) for op in ops)
    return multiplies and not any(isinstance(op, ScratchOp | BufferOp) for op in ops)


def _is_nest_of_dots(loop: scf.ForOp) -> bool:
    """Whether a loop that carries nothing loads what `IN_NESTS` in it multiply, with sums in memory, and nothing is
    in it but loops and last chunks: those of a matrix unit, whose sums are in registers of its own."""
    ops = list(loop.walk())[1:]
    if loop.results or len(ops) > MOST_OPERATIONS or not any(isinstance(op, IN_NESTS) for op in ops):
        return False
    if any(
        isinstance(op, ScratchOp | BufferOp) or (op.regions and not isinstance(op, scf.ForOp | scf.IfOp)) for op in ops
    ):
        return False
    return any(_is_tested(op) for op in loop.body.block.ops)


def _is_tested(op: Operation) -> bool:
    """Whether it loads, with a mask or guards."""
    return isinstance(op, LoadOp | GatherOp) and bool(op.mask is not None or op.guarded_dimensions)


def _version_loop(loop: scf.ForOp, mapped: MappedOp) -> scf.ForOp | None:
    """Make two versions of a loop, unless nothing in it is masked or guarded in a way that is known before it: that
    without masks and guards, if there is one."""
    conditions = Conditions(loop, mapped, Scalars(InsertPoint.before(loop)))
    whole: Truth = True
    plain: list[int] = []
    for number, op in enumerate(loop.walk()):
        if _is_tested(op):
            assert isinstance(op, AccessOp), "a load"
            active = conditions.all_active(op)
            if active is not None:
                whole = conditions.scalars.both(whole, active)
                plain.append(number)
    if plain:
        copy = loop.clone()
        copied = list(copy.walk())
        for number in plain:
            _make_plain(copied[number])
        _erase_unused(copy)
        return copy if _branch(loop, copy, conditions, whole) else None
    return None


def _version_store(store: WriteOp, mapped: MappedOp) -> None:
    """Make two versions of a store, unless it is not masked or guarded, or in ways that are not known."""
    if store.mask is None and not store.guarded_dimensions:
        return
    conditions = Conditions(None, mapped, Scalars(InsertPoint.before(store)))
    active = conditions.all_active(store)
    if active is not None:
        copy = store.clone()
        block = Block([copy])
        _make_plain(copy)
        plain = block.first_op
        assert plain is not None, "a store"
        plain.detach()  # type: ignore[no-untyped-call]
        _branch(store, plain, conditions, active)


def _branch(op: Operation, copy: Operation, conditions: Conditions, whole: Truth) -> bool:
    """Replace an operation by its copy where the conditions hold, and itself elsewhere; False if they never do."""
    whole = conditions.scalars.both(whole, conditions.valid)
    if whole is False:
        return False
    last = Block()
    test, plain = conditions.scalars.truth(whole), Block([copy, scf.YieldOp(*copy.results)])
    branch = scf.IfOp(test, [result.type for result in op.results], Region(plain), Region(last))
    branch.location = op.location
    Rewriter.insert_op(branch, InsertPoint.before(op))
    for old, new in zip(op.results, branch.results, strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    op.detach()  # type: ignore[no-untyped-call]
    last.add_ops([op, scf.YieldOp(*op.results)])
    return True


def _make_plain(op: Operation) -> None:
    """Replace an access by one without mask and guards."""
    assert isinstance(op, AccessOp), "found as one"
    stored = [] if op.results else [op.tile]
    sizes = [1] * len(stored) + [1, len(op.offsets), len(op.counts), 0]
    plain = type(op).create(
        operands=[*stored, op.base, *op.offsets, *op.counts],
        properties={
            **op.properties,
            "guarded": DenseArrayBase.from_list(i64, []),
            "operandSegmentSizes": DenseArrayBase.from_list(IntegerType(32), sizes),
        },
        attributes=op.attributes,
        result_types=[result.type for result in op.results],
        location=op.location,
    )
    for old, new in zip(op.results, plain.results, strict=True):
        new.name_hint = old.name_hint
    Rewriter.replace_op(op, plain)


def _erase_unused(loop: scf.ForOp) -> None:
    for op in reversed(list(loop.walk())[1:]):
        if is_side_effect_free(op) and not op.has_trait(IsTerminator) and all(not each.uses for each in op.results):
            Rewriter.erase_op(op)


__all__ = ["VersionLoops", "version_loops"]
