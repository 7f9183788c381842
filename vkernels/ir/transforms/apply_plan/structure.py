"""Emit phases in order, and the loops and conditionals around them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import i64
from xdsl.ir import Block, Operation, Region, SSAValue

from ...analysis.schedule.nests import Nest
from ...dialect import PhaseOp, RangeOp, ScratchOp, SizeOp, TileOp, WholeOp, YieldOp
from ...dialect.blocks import terminator
from .access import value_in
from .barriers import Hazards
from .emit import emit_here, open_block, ragged_position, ragged_steps, still_running
from .frames import LoopFrame
from .mapping_state import MappingState
from .nests import emit_nest


def emit_block(state: MappingState, frame: LoopFrame, block: Block, hazards: Hazards) -> None:
    """Emit a block without its terminator."""
    emit_ops(state, frame, block.ops, hazards)
    _emit_edge(state, frame, block, hazards)


def emit_ops(state: MappingState, frame: LoopFrame, ops: Iterable[Operation], hazards: Hazards) -> None:
    """Emit some operations of a block."""
    for op in ops:
        if isinstance(op, PhaseOp):
            emit_phase(state, frame, op, hazards, state.schedule.nests[op])
        elif isinstance(op, RangeOp) and state.analysis.is_structural(op):
            _emit_range(state, frame, op, hazards)
        elif isinstance(op, scf.IfOp) and state.analysis.is_structural(op):
            _emit_if(state, frame, op, hazards)
        elif isinstance(op, scf.WhileOp) and state.analysis.is_structural(op):
            _emit_while(state, frame, op, hazards)
        else:
            emit_beside(state, frame, op)


def emit_beside(state: MappingState, frame: LoopFrame, op: Operation) -> None:
    """Emit scalar work beside phases, unless it exists. Declarations and terminators are handled elsewhere."""
    is_declared = isinstance(op, SizeOp | TileOp | WholeOp | ScratchOp | YieldOp | scf.YieldOp | scf.ConditionOp)
    if not is_declared and not (op.results and frame.find(op.results[0]) is not None):
        frame.root().location = op.location
        emit_here(state, frame, op)


def emit_phase(state: MappingState, frame: LoopFrame, phase: PhaseOp, hazards: Hazards, nests: Sequence[Nest]) -> None:
    """Emit items that need no chunk loop, then nests of the phase."""
    for item in phase.body.block.ops:
        if not isinstance(item, YieldOp) and not state.analysis.chunks(item):
            frame.root().location = item.location
            hazards.before_item(state, frame, item)
            emit_here(state, frame, item)
    emit_nests(state, frame, nests, hazards)


def emit_nests(state: MappingState, frame: LoopFrame, nests: Iterable[Nest], hazards: Hazards) -> None:
    """Emit nests one after another, with the barriers between them."""
    for nest in nests:
        hazards.before_nest(state, frame, nest)
        emit_nest(state, frame, nest)


def _kept(state: MappingState, values: Sequence[SSAValue]) -> list[int]:
    """Which values of a structural operation are in registers: those without a home."""
    return [number for number, value in enumerate(values) if value not in state.schedule.homes]


def _emit_edge(state: MappingState, frame: LoopFrame, key: Operation | Block, hazards: Hazards) -> None:
    """Store the values that a loop or conditional carries in their homes."""
    emit_nests(state, frame, state.schedule.edges.get(key, ()), hazards)


def _in_registers(state: MappingState, frame: LoopFrame, values: Sequence[SSAValue], kept: list[int]) -> list[SSAValue]:
    return [value_in(state, frame, values[n]) for n in kept]


def _emit_range(state: MappingState, frame: LoopFrame, op: RangeOp, hazards: Hazards) -> None:
    _emit_edge(state, frame, op, hazards)
    kept = _kept(state, op.results)
    start, stop = value_in(state, frame, op.start), value_in(state, frame, op.stop)
    initial = _in_registers(state, frame, op.initial, kept)
    bases = [base for base, loop in state.schedule.copies.items() if loop is op]
    copies = {base: (value_in(state, frame, base), state.second[base]) for base in bases}  # read, written
    swapped = [value for pair in copies.values() for value in pair]
    block = Block(arg_types=[i64, *(v.type for v in initial), *(v.type for v in swapped)])
    inner = LoopFrame(block, frame)
    carried, others = block.args[1 : len(kept) + 1], block.args[len(kept) + 1 :]
    for n, argument in zip(kept, carried, strict=True):
        argument.name_hint = op.carried[n].name_hint
        inner.values[op.carried[n]] = argument
    for argument, value in zip(others, swapped, strict=True):
        argument.name_hint = value.name_hint
    inner.values.update(zip(copies, others[::2], strict=True))
    inner.written.update(zip(copies, others[1::2], strict=True))
    low, high = _open_positions(state, frame, inner, op, start, stop)
    with hazards.looping(inner, op):
        emit_block(state, inner, op.body.block, hazards)
        hazards.swap(copies)
    last = terminator(op.body.block)
    values = [still_running(state, inner, op, last.operands[n], op.carried[n]) for n in kept]
    values += [value for pair in zip(others[1::2], others[::2], strict=True) for value in pair]
    block.add_op(scf.YieldOp.create(operands=values))
    results = frame.loop((low, high, frame.number(1)), [*initial, *swapped], block, op.location)
    for n, result in zip(kept, results, strict=False):
        result.name_hint = op.results[n].name_hint
        frame.values[op.results[n]] = result
    frame.values.update(zip(copies, results[len(kept) :: 2], strict=True))


def _open_positions(
    state: MappingState, frame: LoopFrame, inner: LoopFrame, op: RangeOp, start: SSAValue, stop: SSAValue
) -> tuple[SSAValue, SSAValue]:
    """The bounds of the loop, and the position in its body."""
    step = inner.block.args[0]
    step.name_hint = op.position.name_hint
    if not op.is_ragged:
        inner.values[op.position] = step
        return start, stop
    steps = ragged_steps(state, frame, op, start, stop)
    ragged_position(state, inner, op, start, stop, step)
    return frame.number(0), steps


def _emit_if(state: MappingState, frame: LoopFrame, op: scf.IfOp, hazards: Hazards) -> None:
    kept = _kept(state, op.results)
    condition = value_in(state, frame, op.cond)
    regions = []
    with hazards.branching() as branch:
        for region in op.regions:
            if not region.blocks:
                regions.append(Region())
                continue
            inner = LoopFrame(Block(), frame)
            with branch():
                emit_block(state, inner, region.block, hazards)
            values = _in_registers(state, inner, terminator(region.block).operands, kept)
            inner.block.add_op(scf.YieldOp.create(operands=values))
            regions.append(Region(inner.block))
    made = scf.IfOp.create(
        operands=[condition],
        result_types=[state.mapped_type(op.results[n].type) for n in kept],
        regions=regions,
        location=op.location,
    )
    frame.block.add_op(made)
    frame.values.update(zip([op.results[n] for n in kept], made.results, strict=True))


def _emit_while(state: MappingState, frame: LoopFrame, op: scf.WhileOp, hazards: Hazards) -> None:
    _emit_edge(state, frame, op, hazards)
    kept = _kept(state, op.results)
    initial = _in_registers(state, frame, op.arguments, kept)
    before, after = (_while_frame(state, frame, region.block, kept) for region in op.regions)
    with hazards.looping(after):
        emit_block(state, before, op.before_region.block, hazards)
        condition, *carried = terminator(op.before_region.block).operands
        values = _in_registers(state, before, carried, kept)
        before.block.add_op(scf.ConditionOp.create(operands=[value_in(state, before, condition), *values]))
        emit_block(state, after, op.after_region.block, hazards)
    values = _in_registers(state, after, terminator(op.after_region.block).operands, kept)
    after.block.add_op(scf.YieldOp.create(operands=values))
    made = scf.WhileOp.create(
        operands=initial,
        result_types=[value.type for value in initial],
        regions=[Region(before.block), Region(after.block)],
        location=op.location,
    )
    frame.block.add_op(made)
    frame.values.update(zip([op.results[n] for n in kept], made.results, strict=True))


def _while_frame(state: MappingState, frame: LoopFrame, block: Block, kept: Sequence[int]) -> LoopFrame:
    mapped = open_block(state, block)
    inner = LoopFrame(Block(arg_types=[mapped.args[n].type for n in kept]), frame)
    inner.values.update((block.args[n], argument) for n, argument in zip(kept, inner.block.args, strict=True))
    return inner
