"""Operations of a kernel made anew, with constant sizes, in a given frame."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerType, i64
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
    YieldOp,
    arith,
    axes_of,
    element_of,
    sizes_of,
    tile_type,
)
from .access import active_mask, emit_access, excess_mask, value_in
from .combining import neutral_of
from .frames import LoopFrame, below, both, broadcast, filled, select
from .mapping_state import MappingState
from .packs import load_panel

_I1 = IntegerType(1)
_DIVISIONS = (
    arith.DivSIOp, arith.DivUIOp, arith.RemSIOp, arith.RemUIOp,
    arith.FloorDivSIOp, arith.CeilDivSIOp, arith.CeilDivUIOp,
)  # fmt: skip


def emit_here(state: MappingState, frame: LoopFrame, op: Operation) -> None:
    """Make an operation in this very frame."""
    if op.results and op.results[0] in state.packed:
        frame.values[op.results[0]] = load_panel(state, frame, op)
    elif isinstance(op, AccessOp):
        emit_access(state, frame, op)
    elif isinstance(op, PositionOp):
        frame.values[op.result] = _position(state, frame, op)
    elif isinstance(op, BelowOp):
        span = frame.span(op.axis.data)
        count = value_in(state, frame, op.count)
        count = count if span.base is None else frame.combined(arith.SubiOp, count, span.base)
        made = BelowOp.create(
            operands=[count],
            properties=op.properties,
            result_types=[state.mapped_type(op.result.type)],
            location=op.location,
        )
        frame.values[op.result] = frame.add(made)
    elif isinstance(op, ReductionOp):
        _whole_reduction(state, frame, op)
    elif isinstance(op, RangeOp) and op.is_ragged:
        emit_ragged(state, frame, op)
    elif op.regions:
        _emit_control(state, frame, op)
    else:
        operands = [value_in(state, frame, operand) for operand in op.operands]
        _emit_plain(state, frame, op, operands)


def _emit_plain(state: MappingState, frame: LoopFrame, op: Operation, operands: list[SSAValue]) -> None:
    if isinstance(op, arith.ExtFOp) and element_of(operands[0]) == element_of(op.result):
        frame.values[op.result] = operands[0]  # packed as f32 already
        return
    if isinstance(op, _DIVISIONS):
        operands[1] = _nonzero(state, frame, operands[1])
    elif isinstance(op, DotOp):
        operands[0] = zeroed(state, frame, op.left, operands[0], op.axis.data)
        operands[1] = zeroed(state, frame, op.right, operands[1], op.axis.data)
    elif isinstance(op, AssertOp):
        operands[0] = _satisfied(state, frame, op, operands[0])
    made = type(op).create(
        operands=operands,
        result_types=[state.mapped_type(result.type) for result in op.results],
        properties=op.properties,
        attributes=op.attributes,
        location=op.location,
    )
    frame.block.add_op(made)
    for old, new in zip(op.results, made.results, strict=True):
        new.name_hint = old.name_hint
        frame.values[old] = new


def _position(state: MappingState, frame: LoopFrame, op: PositionOp) -> SSAValue:
    axis = op.axis.data
    at = frame.holding(axis)
    found = at.cache.get(("position", axis))
    if found is None:
        type_ = state.mapped_type(op.result.type)
        found = at.add(PositionOp.create(properties=op.properties, result_types=[type_]))
        base = at.spans[axis].base
        if base is not None:
            found = at.add(arith.AddiOp.create(operands=[found, broadcast(at, base, type_)], result_types=[type_]))
        at.cache["position", axis] = found
    return found


def _whole_reduction(state: MappingState, frame: LoopFrame, op: ReductionOp) -> None:
    """A reduction along an axis that is held: at once, without the positions in excess."""
    axis = state.axes[op.axis.data]
    tile = value_in(state, frame, op.tile)
    mask = below(frame, axis.name, axis.size, tile.type)
    if mask is not None:
        tile = select(frame, mask, tile, filled(frame, tile.type, neutral_of(op, element_of(tile))))
    made = type(op).create(
        operands=[tile],
        properties=op.properties,
        result_types=[state.mapped_type(op.result.type)],
        location=op.location,
    )
    made.results[0].name_hint = op.result.name_hint
    frame.values[op.result] = frame.add(made)


def _nonzero(state: MappingState, frame: LoopFrame, divisor: SSAValue) -> SSAValue:
    """A divisor that is 1 wherever positions are in excess: their elements may be 0."""
    mask = excess_mask(state, frame, divisor.type)
    return divisor if mask is None else select(frame, mask, divisor, filled(frame, divisor.type, 1))


def _satisfied(state: MappingState, frame: LoopFrame, op: AssertOp, condition: SSAValue) -> SSAValue:
    mask = both(frame, [excess_mask(state, frame, condition.type), active_mask(state, frame, op, condition.type)])
    return condition if mask is None else select(frame, mask, condition, filled(frame, condition.type, 1))


def zeroed(state: MappingState, frame: LoopFrame, written: SSAValue, value: SSAValue, axis: str) -> SSAValue:
    """An operand of a dot with zeros at the positions in excess along the contracted axis."""
    mask = None if _is_zero_outside(state, written) else below(frame, axis, state.axes[axis].size, value.type)
    return value if mask is None else select(frame, mask, value, filled(frame, value.type, 0))


def _is_zero_outside(state: MappingState, value: SSAValue) -> bool:
    """Whether inactive elements of a value are 0 without further ado: loaded, and converted at most."""
    owner = state.analysis.source(value).owner
    if isinstance(owner, arith.ExtFOp | arith.ExtSIOp | arith.ExtUIOp | arith.SIToFPOp | arith.UIToFPOp):
        return _is_zero_outside(state, owner.operands[0])
    return isinstance(owner, AccessOp)


# Loops and conditionals inside a phase.


def _emit_control(state: MappingState, frame: LoopFrame, op: Operation) -> None:
    operands = [value_in(state, frame, operand) for operand in op.operands]
    regions = [emit_region(state, frame, region) for region in op.regions]
    types = [state.mapped_type(result.type) for result in op.results]
    if isinstance(op, RangeOp):
        made: Operation = scf.ForOp.create(
            operands=[operands[0], operands[1], frame.number(1), *operands[2:]],
            result_types=types,
            regions=regions,
            location=op.location,
        )
    else:
        made = type(op).create(
            operands=operands, result_types=types, regions=regions,
            properties=op.properties, attributes=op.attributes, location=op.location,
        )  # fmt: skip
    frame.block.add_op(made)
    for old, new in zip(op.results, made.results, strict=True):
        new.name_hint = old.name_hint
        frame.values[old] = new


def emit_region(state: MappingState, frame: LoopFrame, region: Region) -> Region:
    """A region's operations with constant sizes; all of them stay in it."""
    made = Region()
    for block in region.blocks:
        inner = LoopFrame(open_block(state, block), frame)
        inner.values.update(zip(block.args, inner.block.args, strict=True))
        made.add_block(inner.block)
        emit_ops(state, inner, block)
    return made


def open_block(state: MappingState, block: Block) -> Block:
    """An empty block with a block's arguments, their types mapped."""
    made = Block(arg_types=[state.mapped_type(argument.type) for argument in block.args])
    for old, new in zip(block.args, made.args, strict=True):
        new.name_hint = old.name_hint
    return made


def emit_ops(state: MappingState, frame: LoopFrame, block: Block) -> None:
    """All operations of a block in the frame, terminator included."""
    for op in block.ops:
        if isinstance(op, YieldOp):
            values = [value_in(state, frame, value) for value in op.values]
            frame.block.add_op(scf.YieldOp.create(operands=values, location=op.location))
        else:
            emit_here(state, frame, op)


# Ragged ranges: as many steps as the longest element makes; those that have finished are inactive.


def emit_ragged(state: MappingState, frame: LoopFrame, op: RangeOp) -> None:
    """A ragged range as a loop over steps."""
    start, stop = value_in(state, frame, op.start), value_in(state, frame, op.stop)
    initial = [value_in(state, frame, value) for value in op.initial]
    steps = ragged_steps(state, frame, op, start, stop)
    inner = LoopFrame(Block(arg_types=[i64, *(value.type for value in initial)]), frame)
    inner.values.update(zip(op.carried, inner.block.args[1:], strict=True))
    ragged_position(state, inner, op, start, stop, inner.block.args[0])
    for one in op.body.block.ops:
        if isinstance(one, YieldOp):
            values = [
                still_running(state, inner, op, new, old) for new, old in zip(one.values, op.carried, strict=True)
            ]
            inner.block.add_op(scf.YieldOp.create(operands=values, location=one.location))
        else:
            emit_here(state, inner, one)
    loop = scf.ForOp.create(
        operands=[frame.number(0), steps, frame.number(1), *initial],
        result_types=[value.type for value in initial],
        regions=[Region(inner.block)],
        location=op.location,
    )
    frame.block.add_op(loop)
    frame.values.update(zip(op.results, loop.results, strict=True))


def ragged_steps(state: MappingState, frame: LoopFrame, op: RangeOp, start: SSAValue, stop: SSAValue) -> SSAValue:
    """The most steps that any element of a ragged range makes."""
    type_ = start.type
    steps = frame.add(arith.SubiOp.create(operands=[stop, start], result_types=[type_]))
    mask = both(frame, [excess_mask(state, frame, type_), active_mask(state, frame, op, type_)])
    if mask is not None:
        steps = select(frame, mask, steps, filled(frame, type_, 0))
    for axis in axes_of(type_):
        steps = frame.add(MaxOp(steps, axis))
    return steps


def ragged_position(
    state: MappingState, inner: LoopFrame, op: RangeOp, start: SSAValue, stop: SSAValue, step: SSAValue
) -> None:
    """In the body: every element's own position, and which elements are still running."""
    type_ = start.type
    position = inner.add(arith.AddiOp.create(operands=[start, broadcast(inner, step, type_)], result_types=[type_]))
    position.name_hint = op.position.name_hint
    inner.values[op.position] = position
    inner.cache["running", op] = inner.add(arith.CmpiOp(position, stop, "slt"))


def still_running(state: MappingState, inner: LoopFrame, op: RangeOp, new: SSAValue, old: SSAValue) -> SSAValue:
    """A carried value after a step: elements of a ragged range that have finished keep what they had."""
    made, kept = value_in(state, inner, new), value_in(state, inner, old)
    if not op.is_ragged:
        return made
    mask = inner.cache["running", op]
    wanted = tile_type(_I1, axes_of(made), sizes_of(made).values())
    return select(inner, broadcast(inner, mask, wanted), made, kept)
