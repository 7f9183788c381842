"""Emit single operations of a kernel, with constant sizes, into a given frame."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import i64
from xdsl.ir import Block, Operation, Region, SSAValue

from ...dialect import (
    AccessOp,
    AssertOp,
    BelowOp,
    DotOp,
    MaxOp,
    PositionOp,
    RangeOp,
    ReductionOp,
    ScanByOp,
    WordsOp,
    YieldOp,
    arith,
    axes_of,
    element_of,
)
from ...dialect.combining import neutral_of
from .access import active_mask, emit_access, excess_mask, from_start, has_one_element, value_in
from .frames import LoopFrame, below, both, broadcast, broadcast_mask, masked, select
from .mapping_state import MappingState
from .packs import is_packed_extended, load_panel
from .words import dot_step, first_sum, is_for_matrix, joined_along

_DIVISIONS = (
    arith.DivSIOp, arith.DivUIOp, arith.RemSIOp, arith.RemUIOp,
    arith.FloorDivSIOp, arith.CeilDivSIOp, arith.CeilDivUIOp,
)  # fmt: skip


def emit_here(state: MappingState, frame: LoopFrame, op: Operation) -> None:
    """Emit an operation into this frame."""
    if op.results and op.results[0] in state.packed:
        frame.values[op.results[0]] = load_panel(state, frame, op)
    elif isinstance(op, AccessOp):
        emit_access(state, frame, op)
    elif isinstance(op, PositionOp):
        frame.values[op.result] = _position(state, frame, op)
    elif isinstance(op, BelowOp):
        frame.values[op.result] = frame.add(_mapped(state, op, [from_start(state, frame, op.axis.data, op.count)]))
    elif isinstance(op, ReductionOp):
        frame.add_for(op.results, _mapped(state, op, [neutral_outside(state, frame, op)]))
    elif isinstance(op, ScanByOp):
        tiles = [value_in(state, frame, tile) for tile in op.tiles]
        frame.add_for(op.results, ScanByOp(tiles, [], op.axis.data, op.body.clone()))
    elif isinstance(op, RangeOp):
        _emit_range(state, frame, op)
    elif isinstance(op, DotOp):
        _emit_dot(state, frame, op)
    else:
        _emit_plain(state, frame, op)


def _mapped(state: MappingState, op: Operation, operands: list[SSAValue], regions: Sequence[Region] = ()) -> Operation:
    """A copy of an operation with other operands and regions, and with the plan's sizes."""
    return type(op).create(
        operands=operands, result_types=[state.mapped_type(result.type) for result in op.results], regions=regions,
        properties=op.properties, attributes=op.attributes, location=op.location,
    )  # fmt: skip


def _emit_plain(state: MappingState, frame: LoopFrame, op: Operation) -> None:
    """Emit an operation as written, with its regions, but with safe operands at positions out of range."""
    operands = [value_in(state, frame, operand) for operand in op.operands]
    if isinstance(op, arith.ExtFOp | arith.ExtSIOp | arith.ExtUIOp) and is_packed_extended(
        state, state.analysis.source(op.operands[0])
    ):
        frame.values[op.results[0]] = operands[0]
        return
    if (joined := joined_along(state, op)) is not None:
        narrow = state.analysis.source(op.operands[0])
        if narrow not in state.word_homes:  # several extensions are the same words, but on matrix units
            key = "words", narrow, joined, op if is_for_matrix(state, op) else None
            if key not in frame.cache:
                frame.cache[key] = as_words(state, frame, op.operands[0], *joined)
            operands[0] = frame.cache[key]
        frame.values[op.results[0]] = operands[0]
        return
    if isinstance(op, _DIVISIONS):
        operands[1] = masked(frame, excess_mask(state, frame, operands[1].type), operands[1], 1)
    elif isinstance(op, AssertOp):
        type_ = operands[0].type
        mask = both(frame, [excess_mask(state, frame, type_), active_mask(state, frame, op, type_)])
        operands[0] = masked(frame, mask, operands[0], 1)
    frame.add_for(op.results, _mapped(state, op, operands, [_region(state, frame, region) for region in op.regions]))


def _emit_dot(state: MappingState, frame: LoopFrame, op: DotOp) -> None:
    """Emit a dot whose contracted axis is all there."""
    left, right = (
        zeroed(state, frame, side, value_in(state, frame, side), op.axis.data) for side in (op.left, op.right)
    )
    frame.values[op.result] = made = dot_step(state, frame, op, left, right, first_sum(state, frame, op))
    made.name_hint = op.result.name_hint


def _position(state: MappingState, frame: LoopFrame, op: PositionOp) -> SSAValue:
    at = frame.holding(op.axis.data)
    key = ("position", op.axis.data)
    if key not in at.cache:
        type_ = state.mapped_type(op.result.type)
        found = at.add(PositionOp.create(properties=op.properties, result_types=[type_]))
        base = at.spans[op.axis.data].base
        at.cache[key] = found if base is None else at.make(arith.AddiOp, found, broadcast(at, base, type_))
    return at.cache[key]


def neutral_outside(state: MappingState, frame: LoopFrame, op: ReductionOp) -> SSAValue:
    """The operand of a reduction, with neutral elements at positions out of range along its axis."""
    axis, tile = state.axes[op.axis.data], value_in(state, frame, op.tile)
    return masked(frame, below(frame, axis.name, axis.size, tile.type), tile, neutral_of(op, element_of(tile)))


def zeroed(state: MappingState, frame: LoopFrame, written: SSAValue, value: SSAValue, axis: str) -> SSAValue:
    """An operand of a dot, with zeros at positions out of range along the contracted axis."""
    mask = None if _is_zero_outside(state, written) else below(frame, axis, state.axes[axis].size, value.type)
    return masked(frame, mask, value, 0)


def as_words(state: MappingState, frame: LoopFrame, value: SSAValue, axis: str, is_split: bool = False) -> SSAValue:
    """A value's elements joined to words along an axis that is contracted."""
    zeroed_outside = zeroed(state, frame, value, value_in(state, frame, value), axis)
    return frame.add(WordsOp(zeroed_outside, axis, is_split=is_split))


def _is_zero_outside(state: MappingState, value: SSAValue) -> bool:
    """Whether inactive elements of a value are 0 already: it is loaded, and at most converted."""
    owner = state.analysis.source(value).owner
    if isinstance(owner, Operation) and joined_along(state, owner) is not None:
        return True
    if isinstance(owner, arith.ExtFOp | arith.ExtSIOp | arith.ExtUIOp | arith.SIToFPOp | arith.UIToFPOp):
        return _is_zero_outside(state, owner.operands[0])
    return isinstance(owner, AccessOp)


# Loops and conditionals inside a phase.


def _region(state: MappingState, frame: LoopFrame, region: Region) -> Region:
    """A region's operations with constant sizes; all of them stay in it."""
    made = Region()
    for block in region.blocks:
        inner = LoopFrame(open_block(state, block), frame)
        inner.values.update(zip(block.args, inner.block.args, strict=True))
        made.add_block(inner.block)
        _emit_ops(state, inner, block)
    return made


def open_block(state: MappingState, block: Block) -> Block:
    """An empty block with a block's arguments, their types mapped."""
    made = Block(arg_types=[state.mapped_type(argument.type) for argument in block.args])
    for old, new in zip(block.args, made.args, strict=True):
        new.name_hint = old.name_hint
    return made


def _emit_ops(state: MappingState, frame: LoopFrame, block: Block) -> None:
    """Emit all operations of a block, including its terminator."""
    for op in block.ops:
        loop = op.parent_op()
        if isinstance(op, YieldOp) and isinstance(loop, RangeOp):
            values = [still_running(state, frame, loop, *pair) for pair in zip(op.values, loop.carried, strict=True)]
            frame.block.add_op(scf.YieldOp.create(operands=values, location=op.location))
        else:
            emit_here(state, frame, op)


def _emit_range(state: MappingState, frame: LoopFrame, op: RangeOp) -> None:
    """Emit a range as a loop. A ragged one runs until its longest element has finished; finished ones are inactive."""
    start, stop, *initial = [value_in(state, frame, operand) for operand in op.operands]
    inner = LoopFrame(Block(arg_types=[i64, *(value.type for value in initial)]), frame)
    inner.values.update(zip(op.body.block.args, inner.block.args, strict=True))
    if op.is_ragged:
        steps = ragged_steps(state, frame, op, start, stop)
        ragged_position(state, inner, op, start, stop, inner.block.args[0])
    _emit_ops(state, inner, op.body.block)
    low, high = (frame.number(0), steps) if op.is_ragged else (start, stop)
    results = frame.loop((low, high, frame.number(1)), initial, inner.block, op.location)
    frame.values.update(zip(op.results, results, strict=True))
    names = () if op.is_ragged else (*op.body.block.args, *op.results)
    for old, new in zip(names, (*inner.block.args, *results), strict=False):
        new.name_hint = old.name_hint


def ragged_steps(state: MappingState, frame: LoopFrame, op: RangeOp, start: SSAValue, stop: SSAValue) -> SSAValue:
    """The largest number of steps of any element of a ragged range."""
    type_ = start.type
    steps = frame.make(arith.SubiOp, stop, start)
    mask = both(frame, [excess_mask(state, frame, type_), active_mask(state, frame, op, type_)])
    steps = masked(frame, mask, steps, 0)
    for axis in axes_of(type_):
        steps = frame.add(MaxOp(steps, axis))
    return steps


def ragged_position(
    state: MappingState, inner: LoopFrame, op: RangeOp, start: SSAValue, stop: SSAValue, step: SSAValue
) -> None:
    """Emit, in the body, every element's own position, and which elements are still running."""
    position = inner.make(arith.AddiOp, start, broadcast(inner, step, start.type))
    position.name_hint = op.position.name_hint
    inner.values[op.position] = position
    inner.cache["running", op] = inner.add(arith.CmpiOp(position, stop, "slt"))


def still_running(state: MappingState, inner: LoopFrame, op: RangeOp, new: SSAValue, old: SSAValue) -> SSAValue:
    """A carried value after a step: elements of a ragged range that have finished keep what they had."""
    made, kept = value_in(state, inner, new), value_in(state, inner, old)
    if not op.is_ragged or has_one_element(state, op):
        return made
    return select(inner, broadcast_mask(inner, inner.cache["running", op], made.type), made, kept)
