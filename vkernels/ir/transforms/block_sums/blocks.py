"""Replace a loop of additions by a loop over blocks of additions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from xdsl.builder import Builder
from xdsl.dialects import scf
from xdsl.dialects.builtin import TensorType, UnitAttr, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ...analysis.accesses import constant_of
from ...analysis.block_lengths import BlockLengths
from ...dialect import BroadcastOp, DotOp, ReloadOp, SpillOp, arith, sizes_of
from ...dialect.blocks import terminator
from ...dialect.combining import constant
from .paths import RESCALED_ATTRIBUTE, Path, PathReader, most_trips

A_THREAD = 16
"""Elements of sums that a GPU's thread has at most where a loop whose length depends on data adds in blocks."""


def add_in_blocks(loop: scf.ForOp, reader: PathReader, lengths: BlockLengths, threads: int) -> list[Block]:
    """Cut a loop that may add more than one block into blocks, whose sums are added in the same way.

    `threads`: of a GPU's program. Returns the bodies of the loops over blocks.

    Sums that the loop reads, as scans do, are compensated, without blocks. If the length of a loop depends on data, a
    CPU keeps a copy of the loop as it is for short lengths; a GPU compensates each addition where blocks cost more.
    """
    sums = reader.sums(loop)
    if not sums:
        return []
    block = min(lengths.iterations(path.adds, path.products) for path in sums.values())
    trips = most_trips(loop, reader.facts)
    if trips is not None and trips <= block:
        return []
    compensates = trips is None and reader.on_gpu and not _has_room_for_blocks(loop, sums, threads)
    if now := [n for n, path in sums.items() if path.is_read or (compensates and path.is_one_addition)]:
        loop = _compensate(loop, now)
    if not (sums := reader.sums(loop)):
        return []
    if trips is None and not reader.on_gpu:
        loop = _beside_short(loop, block)
    outer = _cut(loop, sums, block)
    bodies = [outer.body.block]
    if trips is None:
        _compensate(outer, sums)
    elif trips > block * lengths.blocks:
        outer = _cut(outer, reader.sums(outer), lengths.blocks)
        bodies.append(outer.body.block)
        _compensate(outer, sums)
    return bodies


def _has_room_for_blocks(loop: scf.ForOp, sums: Iterable[int], threads: int) -> bool:
    """Whether a GPU has registers for the sum of a block beside that of all and its rounding error, and nothing is lost
    where the loop stops after each block, as loops of dots are pipelined.

    Compensation is seven instructions for each element and addition, where adding a product is one.
    """
    if any(isinstance(op, DotOp) for op in loop.walk()):
        return False
    return sum(prod(sizes_of(loop.iter_args[number].type).values()) for number in sums) <= A_THREAD * threads


def _beside_short(loop: scf.ForOp, block: int) -> scf.ForOp:
    """Move a loop into a conditional that runs a copy of it if the loop is short; the loop, for when it is long."""
    builder = Builder(InsertPoint.before(loop))
    start, stop, step = loop.lb, loop.ub, loop.step
    length = builder.insert(arith.SubiOp(stop, start)).result
    most = builder.insert(arith.MuliOp(step, builder.insert(constant(i64, block)).result)).result
    is_long = builder.insert(arith.CmpiOp(length, most, "sgt")).result
    long, short = Block(), Block([copy := loop.clone()])
    short.add_op(scf.YieldOp(*copy.results))
    types = [result.type for result in loop.results]
    branch = scf.IfOp(is_long, types, Region(long), Region(short))
    branch.location = loop.location
    builder.insert(branch)
    _replace_results(loop, branch)
    loop.detach()  # type: ignore[no-untyped-call]
    long.add_ops([loop, scf.YieldOp(*loop.results)])
    return loop


def _cut(loop: scf.ForOp, sums: Mapping[int, Path], block: int) -> scf.ForOp:
    """Replace a loop by one over blocks of `block` iterations, in which it sums from 0; the loop over blocks.

    Both loops carry the other values. For a sum that is rescaled, the inner loop also carries the product of the
    factors, which rescales the sum of the blocks before.
    """
    builder = Builder(InsertPoint.before(loop))
    known = constant_of(loop.step)
    span = builder.insert(constant(i64, block if known is None else known * block)).result
    if known is None:
        span = builder.insert(arith.MuliOp(loop.step, span)).result
    body = Block(arg_types=[i64, *(value.type for value in loop.iter_args)])
    outer = scf.ForOp(loop.lb, loop.ub, span, loop.iter_args, body)
    outer.location = loop.location
    builder.insert(outer)
    _replace_results(loop, outer)

    builder = Builder(InsertPoint.at_end(body))
    begin, *before = body.args
    end = builder.insert(arith.AddiOp(begin, span)).result
    end = builder.insert(arith.MinSIOp(end, loop.ub)).result
    first = [_filled(builder, value.type, 0) if n in sums else value for n, value in enumerate(before)]
    factors = {number: path.factor for number, path in sums.items() if path.factor is not None}
    scaled = {n: f.owner.source if isinstance(f.owner, BroadcastOp) else f for n, f in factors.items()}
    products = {factor: _carry_product(loop.body.block, factor) for factor in dict.fromkeys(scaled.values())}
    first += [_filled(builder, product.type, 1) for product in products.values()]
    inner = scf.ForOp(begin, end, loop.step, first, loop.detach_region(loop.body))
    inner.location = loop.location
    Rewriter.erase_op(loop)
    builder.insert(inner)
    made = list(inner.results[: len(before)])
    of_factors = dict(zip(products, inner.results[len(before) :], strict=True))
    scales: dict[int, SSAValue] = {number: of_factors[factor] for number, factor in scaled.items()}
    for number in sums:
        total: SSAValue = before[number]
        if number in scales:
            scale = scales[number]
            if scale.type != total.type:
                scale = builder.insert(BroadcastOp.create(operands=[scale], result_types=[total.type])).result
            rescale = arith.MulfOp(total, scale)
            rescale.attributes[RESCALED_ATTRIBUTE] = UnitAttr()
            total = builder.insert(rescale).result
        made[number] = builder.insert(arith.AddfOp(total, made[number])).result
    builder.insert(scf.YieldOp(*made))
    return outer


def _replace_results(loop: scf.ForOp, made: Operation) -> None:
    """Replace a loop's results by the first results of an operation."""
    for old, new in zip(loop.results, made.results[: len(loop.results)], strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)


def _carry_product(block: Block, factor: SSAValue) -> SSAValue:
    """Let a loop's body carry the product of a factor over all iterations; the argument that holds it."""
    product = block.insert_arg(factor.type, len(block.args))
    last = terminator(block)
    step = arith.MulfOp(product, factor)
    block.insert_op_before(step, last)
    last.operands = [*last.operands, step.result]
    return product


def _compensate(loop: scf.ForOp, sums: Iterable[int]) -> scf.ForOp:
    """Let a loop that adds once per iteration carry each sum's rounding error, and subtract it from the next addend.

    `sums`: which of the carried values. Returns the loop that replaces this one.
    """
    block, last = loop.body.block, terminator(loop.body.block)
    errors = []
    for number in sums:
        error = block.insert_arg(last.operands[number].type, len(block.args))
        errors.append(_compensate_one(last, number, block.args[number + 1], error))
    builder = Builder(InsertPoint.before(loop))
    first = [_filled(builder, error.type, 0) for error in errors]
    last.operands = [*last.operands, *errors]
    made = scf.ForOp(loop.lb, loop.ub, loop.step, [*loop.iter_args, *first], loop.detach_region(loop.body))
    made.location = loop.location
    builder.insert(made)
    _replace_results(loop, made)
    Rewriter.erase_op(loop)
    return made


def _compensate_one(last: Operation, number: int, carried: SSAValue, error: SSAValue) -> SSAValue:
    """Subtract the previous error from the addend; the error of this addition, which may be under a mask."""
    choice = last.operands[number].owner
    addition = choice
    if isinstance(choice, arith.SelectOp):
        addition = next(side.owner for side in (choice.lhs, choice.rhs) if side is not carried)
    assert isinstance(addition, arith.AddfOp), "the path is one addition"
    builder = Builder(InsertPoint.before(addition))
    total, new = addition.operands
    if new is carried:
        total, new = new, total
    scale, scaled = total.owner, error
    if isinstance(scale, arith.MulfOp):
        scale.attributes["vk.rounded"] = UnitAttr()
        scaled = builder.insert(arith.MulfOp(error, scale.rhs)).result
    reached, made = compensated(builder, total, new, scaled)
    addition.result.replace_all_uses_with(reached)
    Rewriter.erase_op(addition)
    if isinstance(choice, arith.SelectOp):
        is_first = choice.lhs is reached
        builder = Builder(InsertPoint.before(last))
        sides = (made, error) if is_first else (error, made)
        made = builder.insert(arith.SelectOp(choice.cond, *sides)).result
    return made


def compensated(builder: Builder, total: SSAValue, new: SSAValue, error: SSAValue) -> tuple[SSAValue, SSAValue]:
    """The sum of a total and a number, less the total's rounding error, and the rounding error of that sum."""
    added = _rounded(builder, arith.SubfOp(new, error))
    reached = _rounded(builder, arith.AddfOp(total, added))
    return reached, _rounding_error(builder, total, added, reached)


def _rounding_error(builder: Builder, total: SSAValue, added: SSAValue, reached: SSAValue) -> SSAValue:
    """By how much `total + added` is too large; 0 if that is not a number, as beyond infinity."""
    moved = _rounded(builder, arith.SubfOp(reached, total))
    error = _rounded(builder, arith.SubfOp(moved, added))
    nothing = _rounded(builder, arith.SubfOp(error, error))
    zero = _filled(builder, error.type, 0)
    is_number = builder.insert(arith.CmpfOp(nothing, zero, "oeq")).results[0]
    return builder.insert(arith.SelectOp(is_number, error, zero)).result


def _rounded(builder: Builder, op: Operation) -> SSAValue:
    """An operation that no lowering may fuse with another."""
    op.attributes["vk.rounded"] = UnitAttr()
    return builder.insert(op).results[0]


def _filled(builder: Builder, type_: Attribute, value: float) -> SSAValue:
    return builder.insert(constant(type_, value)).result


def spill_totals(body: Block) -> None:
    """Spill the tiles that a loop over blocks carries around the inner loop, which does not use them.

    So they take no registers from the inner loop, which runs much more often.
    """
    inner = next(op for op in body.ops if isinstance(op, scf.ForOp))
    within = set(inner.walk())
    for total in body.args[1:]:
        if isinstance(total.type, TensorType) and not any(use.operation in within for use in total.uses):
            spill = SpillOp(total)
            reload = ReloadOp(spill.spilled)
            total.replace_all_uses_with(reload.tile)
            spill.operands = [total]
            Rewriter.insert_op(spill, InsertPoint.at_start(body))
            body.insert_op_after(reload, inner)
