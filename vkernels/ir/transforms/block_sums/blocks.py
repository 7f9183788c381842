"""A loop of additions as a loop over blocks of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from xdsl.builder import Builder
from xdsl.dialects import scf
from xdsl.dialects.builtin import AnyFloat, DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr, TensorType, UnitAttr, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from ...dialect import BroadcastOp, arith
from .lengths import Lengths
from .paths import RESCALED_ATTRIBUTE, Path, PathReader
from .trips import constant_of, most_trips


def add_in_blocks(loop: scf.ForOp, reader: PathReader, lengths: Lengths) -> list[Block]:
    """Cut a loop into blocks where it may add more than a block has; sums of blocks are added likewise.

    Returns the bodies of the loops over blocks.

    What a loop reads on its way, as scans do, is added with compensation, without blocks. Where data decide how long a
    loop is, a CPU runs it as it is where it is short, and a GPU, whose registers are dearer than its arithmetic, adds
    with compensation throughout.
    """
    sums = reader.sums(loop)
    if not sums:
        return []
    block = min(lengths.iterations(path) for path in sums.values())
    trips = most_trips(loop, reader.facts)
    if trips is not None and trips <= block:
        return []
    compensates = trips is None and reader.on_gpu
    if now := [n for n, path in sums.items() if path.is_read or (compensates and path.is_one_addition)]:
        loop = _compensate(loop, now)
        sums = reader.sums(loop)
        if not sums:
            return []
    if trips is None and not reader.on_gpu:
        loop = _beside_short(loop, block)
        sums = reader.sums(loop)
    outer = _cut(loop, sums, block)
    bodies = [outer.body.block]
    if trips is None:
        _compensate(outer, sums)
    elif trips > block * lengths.blocks:
        outer = _cut(outer, reader.sums(outer), lengths.blocks)
        bodies.append(outer.body.block)
        _compensate(outer, sums)
    return bodies


def _beside_short(loop: scf.ForOp, block: int) -> scf.ForOp:
    """Put a loop into a conditional that runs a copy of it where it is short; the loop itself, for where it is not."""
    builder = Builder(InsertPoint.before(loop))
    start, stop, step = loop.lb, loop.ub, loop.step
    length = builder.insert(arith.SubiOp(stop, start)).result
    most = builder.insert(arith.MuliOp(step, _number(builder, block))).result
    is_long = builder.insert(arith.CmpiOp(length, most, "sgt")).result
    long, short = Block(), Block([copy := loop.clone()])
    short.add_op(scf.YieldOp(*copy.results))
    types = [result.type for result in loop.results]
    branch = scf.IfOp(is_long, types, Region(long), Region(short))
    branch.location = loop.location
    builder.insert(branch)
    _stand_for(loop, branch)
    loop.detach()  # type: ignore[no-untyped-call]
    long.add_op(loop)
    long.add_op(scf.YieldOp(*loop.results))
    return loop


def _cut(loop: scf.ForOp, sums: Mapping[int, Path], block: int) -> scf.ForOp:
    """Replace a loop by one over blocks of so many iterations, in which it sums from 0; the loop over blocks.

    What it carries besides goes through both. A sum that is scaled on its way has the product of its factors carried
    beside it, and what came before the block is scaled by that.
    """
    builder = Builder(InsertPoint.before(loop))
    span = _times(builder, loop.step, block)
    body = Block(arg_types=[i64, *(value.type for value in loop.iter_args)])
    outer = scf.ForOp(loop.lb, loop.ub, span, loop.iter_args, body)
    outer.location = loop.location
    builder.insert(outer)
    _stand_for(loop, outer)
    loop.detach()  # type: ignore[no-untyped-call]

    builder = Builder(InsertPoint.at_end(body))
    begin, *before = body.args
    end = builder.insert(arith.AddiOp(begin, span)).result
    end = builder.insert(arith.MinSIOp(end, loop.ub)).result
    first = [_filled(builder, value.type, 0) if n in sums else value for n, value in enumerate(before)]
    scaled = {number: _unbroadcast(path.factor) for number, path in sums.items() if path.factor is not None}
    products = [_carry_product(loop.body.block, factor) for factor in scaled.values()]
    first += [_filled(builder, product.type, 1) for product in products]
    inner = scf.ForOp(begin, end, loop.step, first, loop.detach_region(loop.body))
    inner.location = loop.location
    loop.erase()
    builder.insert(inner)
    made = list(inner.results[: len(before)])
    scales = dict(zip(scaled, inner.results[len(before) :], strict=True))
    for number in sums:
        total: SSAValue = before[number]
        if number in scales:
            scale = _broadcast(builder, scales[number], total.type)
            rescale = arith.MulfOp(total, scale)
            rescale.attributes[RESCALED_ATTRIBUTE] = UnitAttr()
            total = builder.insert(rescale).result
        made[number] = builder.insert(arith.AddfOp(total, made[number])).result
    builder.insert(scf.YieldOp(*made))
    return outer


def _stand_for(loop: scf.ForOp, made: Operation) -> None:
    """Let the first results of an operation stand for a loop's."""
    for old, new in zip(loop.results, made.results[: len(loop.results)], strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)


def _carry_product(block: Block, factor: SSAValue) -> SSAValue:
    """Let a loop's body carry the product of all that a factor is; the argument that holds it."""
    product = block.insert_arg(factor.type, len(block.args))
    last = block.last_op
    assert last is not None
    step = arith.MulfOp(product, factor)
    block.insert_op_before(step, last)
    last.operands = [*last.operands, step.result]
    return product


def _compensate(loop: scf.ForOp, sums: Iterable[int]) -> scf.ForOp:
    """Let a loop that adds once an iteration carry what its additions have rounded away, and take it off the next.

    `sums`: which of the carried values; the loop that replaces this one.
    """
    block, last = loop.body.block, loop.body.block.last_op
    assert last is not None
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
    _stand_for(loop, made)
    loop.detach()  # type: ignore[no-untyped-call]
    loop.erase()
    return made


def _compensate_one(last: Operation, number: int, carried: SSAValue, error: SSAValue) -> SSAValue:
    """Take the last addition's error off what is added; the error of this one, which may be made under a mask."""
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
    added = _rounded(builder, arith.SubfOp(new, scaled))
    reached = _rounded(builder, arith.AddfOp(total, added))
    made = _rounding_error(builder, total, added, reached)
    addition.result.replace_all_uses_with(reached)
    addition.detach()  # type: ignore[no-untyped-call]
    addition.erase()
    if isinstance(choice, arith.SelectOp):
        is_first = choice.lhs is reached
        builder = Builder(InsertPoint.before(last))
        sides = (made, error) if is_first else (error, made)
        made = builder.insert(arith.SelectOp(choice.cond, *sides)).result
    return made


def _rounding_error(builder: Builder, total: SSAValue, added: SSAValue, reached: SSAValue) -> SSAValue:
    """By how much `total + added` is too large; 0 where that is no number, as beyond infinity."""
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


def _times(builder: Builder, value: SSAValue, number: int) -> SSAValue:
    known = constant_of(value)
    if known is not None:
        return _number(builder, known * number)
    return builder.insert(arith.MuliOp(value, _number(builder, number))).result


def _number(builder: Builder, value: int) -> SSAValue:
    made = arith.ConstantOp.create(properties={"value": IntegerAttr(value, i64)}, result_types=[i64])
    return builder.insert(made).results[0]


def _filled(builder: Builder, type_: Attribute, value: float) -> SSAValue:
    """A tile or scalar of one float."""
    attribute: Attribute
    if isinstance(type_, TensorType):
        attribute = DenseIntOrFPElementsAttr.from_list(type_, [value])
    else:
        attribute = FloatAttr(value, cast(AnyFloat, type_))
    made = arith.ConstantOp.create(properties={"value": attribute}, result_types=[type_])
    return builder.insert(made).results[0]


def _unbroadcast(value: SSAValue) -> SSAValue:
    """What is broadcast to give a value; itself where nothing is."""
    return value.owner.source if isinstance(value.owner, BroadcastOp) else value


def _broadcast(builder: Builder, value: SSAValue, type_: Attribute) -> SSAValue:
    if value.type == type_:
        return value
    return builder.insert(BroadcastOp.create(operands=[value], result_types=[type_])).result
