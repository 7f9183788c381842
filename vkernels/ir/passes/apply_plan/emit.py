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
from ...errors import PlanError
from .access import active_mask, emit_access, excess_mask, value_in
from .combining import neutral_of
from .frames import Frame, below, both, broadcast, filled, select
from .packs import load_panel
from .work import Work

_I1 = IntegerType(1)
_DIVISIONS = (
    arith.DivSIOp, arith.DivUIOp, arith.RemSIOp, arith.RemUIOp,
    arith.FloorDivSIOp, arith.CeilDivSIOp, arith.CeilDivUIOp,
)  # fmt: skip


def emit_here(work: Work, frame: Frame, op: Operation) -> None:
    """Make an operation in this very frame."""
    if op.results and op.results[0] in work.packed:
        frame.values[op.results[0]] = load_panel(work, frame, op)
    elif isinstance(op, AccessOp):
        emit_access(work, frame, op)
    elif isinstance(op, PositionOp):
        frame.values[op.result] = _position(work, frame, op)
    elif isinstance(op, BelowOp):
        span = frame.span(op.axis.data)
        count = value_in(work, frame, op.count)
        count = count if span.base is None else frame.combined(arith.SubiOp, count, span.base)
        made = BelowOp.create(
            operands=[count],
            properties=op.properties,
            result_types=[work.mapped_type(op.result.type)],
            location=op.location,
        )
        frame.values[op.result] = frame.add(made)
    elif isinstance(op, ReductionOp):
        _whole_reduction(work, frame, op)
    elif isinstance(op, RangeOp) and op.is_ragged:
        emit_ragged(work, frame, op)
    elif op.regions:
        _emit_control(work, frame, op)
    else:
        operands = [value_in(work, frame, operand) for operand in op.operands]
        _emit_plain(work, frame, op, operands)


def _emit_plain(work: Work, frame: Frame, op: Operation, operands: list[SSAValue]) -> None:
    if isinstance(op, arith.ExtFOp) and element_of(operands[0]) == element_of(op.result):
        frame.values[op.result] = operands[0]  # packed as f32 already
        return
    if isinstance(op, _DIVISIONS):
        operands[1] = _nonzero(work, frame, operands[1])
    elif isinstance(op, DotOp):
        operands[0] = zeroed(work, frame, op.left, operands[0], op.axis.data)
        operands[1] = zeroed(work, frame, op.right, operands[1], op.axis.data)
    elif isinstance(op, AssertOp):
        operands[0] = _satisfied(work, frame, op, operands[0])
    made = type(op).create(
        operands=operands,
        result_types=[work.mapped_type(result.type) for result in op.results],
        properties=op.properties,
        attributes=op.attributes,
        location=op.location,
    )
    frame.block.add_op(made)
    for old, new in zip(op.results, made.results, strict=True):
        new.name_hint = old.name_hint
        frame.values[old] = new


def _position(work: Work, frame: Frame, op: PositionOp) -> SSAValue:
    axis = op.axis.data
    at = frame.holding(axis)
    found = at.cache.get(("position", axis))
    if found is None:
        type_ = work.mapped_type(op.result.type)
        found = at.add(PositionOp.create(properties=op.properties, result_types=[type_]))
        base = at.spans[axis].base
        if base is not None:
            found = at.add(arith.AddiOp.create(operands=[found, broadcast(at, base, type_)], result_types=[type_]))
        at.cache["position", axis] = found
    return found


def _whole_reduction(work: Work, frame: Frame, op: ReductionOp) -> None:
    """A reduction along an axis that is held: at once, without the positions in excess."""
    axis = work.axes[op.axis.data]
    if axis.is_tile:
        raise PlanError(
            f"{op.name} along {axis.name}: a tile axis is split over programs and cannot be reduced; make it whole"
        )
    tile = value_in(work, frame, op.tile)
    mask = below(frame, axis.name, axis.size, tile.type)
    if mask is not None:
        tile = select(frame, mask, tile, filled(frame, tile.type, neutral_of(op, element_of(tile))))
    made = type(op).create(
        operands=[tile], properties=op.properties, result_types=[work.mapped_type(op.result.type)], location=op.location
    )
    made.results[0].name_hint = op.result.name_hint
    frame.values[op.result] = frame.add(made)


def _nonzero(work: Work, frame: Frame, divisor: SSAValue) -> SSAValue:
    """A divisor that is 1 wherever positions are in excess: their elements may be 0."""
    mask = excess_mask(work, frame, divisor.type)
    return divisor if mask is None else select(frame, mask, divisor, filled(frame, divisor.type, 1))


def _satisfied(work: Work, frame: Frame, op: AssertOp, condition: SSAValue) -> SSAValue:
    mask = both(frame, [excess_mask(work, frame, condition.type), active_mask(work, frame, op, condition.type)])
    return condition if mask is None else select(frame, mask, condition, filled(frame, condition.type, 1))


def zeroed(work: Work, frame: Frame, written: SSAValue, value: SSAValue, axis: str) -> SSAValue:
    """An operand of a dot with zeros at the positions in excess along the contracted axis."""
    mask = None if _is_zero_outside(work, written) else below(frame, axis, work.axes[axis].size, value.type)
    return value if mask is None else select(frame, mask, value, filled(frame, value.type, 0))


def _is_zero_outside(work: Work, value: SSAValue) -> bool:
    """Whether inactive elements of a value are 0 without further ado: loaded, and converted at most."""
    owner = work.reading.source(value).owner
    if isinstance(owner, arith.ExtFOp | arith.ExtSIOp | arith.ExtUIOp | arith.SIToFPOp | arith.UIToFPOp):
        return _is_zero_outside(work, owner.operands[0])
    return isinstance(owner, AccessOp)


# Loops and conditionals inside a phase.


def _emit_control(work: Work, frame: Frame, op: Operation) -> None:
    operands = [value_in(work, frame, operand) for operand in op.operands]
    regions = [emit_region(work, frame, region) for region in op.regions]
    types = [work.mapped_type(result.type) for result in op.results]
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


def emit_region(work: Work, frame: Frame, region: Region) -> Region:
    """A region's operations with constant sizes; all of them stay in it."""
    made = Region()
    for block in region.blocks:
        inner = Frame(open_block(work, block), frame)
        inner.values.update(zip(block.args, inner.block.args, strict=True))
        made.add_block(inner.block)
        emit_ops(work, inner, block)
    return made


def open_block(work: Work, block: Block) -> Block:
    """An empty block with a block's arguments, their types mapped."""
    made = Block(arg_types=[work.mapped_type(argument.type) for argument in block.args])
    for old, new in zip(block.args, made.args, strict=True):
        new.name_hint = old.name_hint
    return made


def emit_ops(work: Work, frame: Frame, block: Block) -> None:
    """All operations of a block in the frame, terminator included."""
    for op in block.ops:
        if isinstance(op, YieldOp):
            values = [value_in(work, frame, value) for value in op.values]
            frame.block.add_op(scf.YieldOp.create(operands=values, location=op.location))
        else:
            emit_here(work, frame, op)


# Ragged ranges: as many steps as the longest element makes; those that have finished are inactive.


def emit_ragged(work: Work, frame: Frame, op: RangeOp) -> None:
    """A ragged range as a loop over steps."""
    start, stop = value_in(work, frame, op.start), value_in(work, frame, op.stop)
    initial = [value_in(work, frame, value) for value in op.initial]
    steps = ragged_steps(work, frame, op, start, stop)
    inner = Frame(Block(arg_types=[i64, *(value.type for value in initial)]), frame)
    inner.values.update(zip(op.carried, inner.block.args[1:], strict=True))
    ragged_position(work, inner, op, start, stop, inner.block.args[0])
    for one in op.body.block.ops:
        if isinstance(one, YieldOp):
            values = [still_running(work, inner, op, new, old) for new, old in zip(one.values, op.carried, strict=True)]
            inner.block.add_op(scf.YieldOp.create(operands=values, location=one.location))
        else:
            emit_here(work, inner, one)
    loop = scf.ForOp.create(
        operands=[frame.number(0), steps, frame.number(1), *initial],
        result_types=[value.type for value in initial],
        regions=[Region(inner.block)],
        location=op.location,
    )
    frame.block.add_op(loop)
    frame.values.update(zip(op.results, loop.results, strict=True))


def ragged_steps(work: Work, frame: Frame, op: RangeOp, start: SSAValue, stop: SSAValue) -> SSAValue:
    """The most steps that any element of a ragged range makes."""
    type_ = start.type
    steps = frame.add(arith.SubiOp.create(operands=[stop, start], result_types=[type_]))
    mask = both(frame, [excess_mask(work, frame, type_), active_mask(work, frame, op, type_)])
    if mask is not None:
        steps = select(frame, mask, steps, filled(frame, type_, 0))
    for axis in axes_of(type_):
        steps = frame.add(MaxOp(steps, axis))
    return steps


def ragged_position(work: Work, inner: Frame, op: RangeOp, start: SSAValue, stop: SSAValue, step: SSAValue) -> None:
    """In the body: every element's own position, and which elements are still running."""
    type_ = start.type
    position = inner.add(arith.AddiOp.create(operands=[start, broadcast(inner, step, type_)], result_types=[type_]))
    position.name_hint = op.position.name_hint
    inner.values[op.position] = position
    inner.cache["running", op] = inner.add(arith.CmpiOp(position, stop, "slt"))


def still_running(work: Work, inner: Frame, op: RangeOp, new: SSAValue, old: SSAValue) -> SSAValue:
    """A carried value after a step: elements of a ragged range that have finished keep what they had."""
    made, kept = value_in(work, inner, new), value_in(work, inner, old)
    if not op.is_ragged:
        return made
    mask = inner.cache["running", op]
    wanted = tile_type(_I1, axes_of(made), sizes_of(made).values())
    return select(inner, broadcast(inner, mask, wanted), made, kept)
