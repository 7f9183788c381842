"""Phases in order, and the loops and conditionals around them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import i64
from xdsl.ir import Block, Operation, Region, SSAValue

from ...analysis.schedule.nests import Nest
from ...dialect import PhaseOp, RangeOp, ScratchOp, SizeOp, TileOp, WholeOp, YieldOp
from .access import value_in
from .barriers import Hazards
from .emit import emit_here, open_block, ragged_position, ragged_steps, still_running
from .frames import LoopFrame
from .mapping_state import MappingState
from .nests import emit_nest


def emit_block(state: MappingState, frame: LoopFrame, block: Block, hazards: Hazards) -> None:
    """Everything in a block but its terminator."""
    emit_ops(state, frame, block.ops, hazards)
    _emit_edge(state, frame, block, hazards)


def emit_ops(state: MappingState, frame: LoopFrame, ops: Iterable[Operation], hazards: Hazards) -> None:
    """Some operations of a block."""
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
    """Scalar work that stands beside phases; declarations have been dealt with."""
    if isinstance(op, SizeOp | TileOp | WholeOp | ScratchOp | YieldOp | scf.YieldOp | scf.ConditionOp):
        return
    if op.results and frame.find(op.results[0]) is not None:
        return
    frame.root().location = op.location
    emit_here(state, frame, op)


def emit_phase(state: MappingState, frame: LoopFrame, phase: PhaseOp, hazards: Hazards, nests: Sequence[Nest]) -> None:
    """What needs no chunk loop first, then nests of the phase."""
    analysis = state.analysis
    for item in phase.body.block.ops:
        if isinstance(item, YieldOp) or analysis.chunks(item):
            continue
        frame.root().location = item.location
        hazards.before_item(state, frame, item)
        emit_here(state, frame, item)
    for nest in nests:
        hazards.before_nest(state, frame, nest)
        emit_nest(state, frame, nest)


def _kept(state: MappingState, values: Sequence[SSAValue]) -> list[int]:
    """Which of a structural operation's values are registers: those without a home."""
    return [number for number, value in enumerate(values) if value not in state.schedule.homes]


def _emit_edge(state: MappingState, frame: LoopFrame, key: Operation | Block, hazards: Hazards) -> None:
    """Put what a loop or conditional carries into its homes."""
    for nest in state.schedule.edges.get(key, ()):
        hazards.before_nest(state, frame, nest)
        emit_nest(state, frame, nest)


def _emit_range(state: MappingState, frame: LoopFrame, op: RangeOp, hazards: Hazards) -> None:
    _emit_edge(state, frame, op, hazards)
    kept = _kept(state, op.results)
    start, stop = value_in(state, frame, op.start), value_in(state, frame, op.stop)
    initial = [value_in(state, frame, op.initial[n]) for n in kept]
    copies = [(base, *pair) for base, pair in _copies(state, frame, op).items()]
    swapped = [value for _, old, new in copies for value in (old, new)]
    block = Block(arg_types=[i64, *(v.type for v in initial), *(v.type for v in swapped)])
    inner = LoopFrame(block, frame)
    arguments = block.args[1:]
    for n, argument in zip(kept, arguments, strict=False):
        argument.name_hint = op.carried[n].name_hint
        inner.values[op.carried[n]] = argument
    pairs = list(zip(arguments[len(kept) :: 2], arguments[len(kept) + 1 :: 2], strict=True))
    for (base, old, new), (reads, writes) in zip(copies, pairs, strict=True):
        reads.name_hint, writes.name_hint = old.name_hint, new.name_hint
        inner.values[base], inner.written[base] = reads, writes
    low, high = _open_positions(state, frame, inner, op, start, stop)
    with hazards.looping(inner):
        emit_block(state, inner, op.body.block, hazards)
        hazards.swap(base for base, _, _ in copies)
    last = op.body.block.last_op
    assert isinstance(last, YieldOp)
    values = [still_running(state, inner, op, last.values[n], op.carried[n]) for n in kept]
    values += [value for reads, writes in pairs for value in (writes, reads)]
    block.add_op(scf.YieldOp.create(operands=values))
    loop = scf.ForOp.create(
        operands=[low, high, frame.number(1), *initial, *swapped],
        result_types=[value.type for value in (*initial, *swapped)],
        regions=[Region(block)],
        location=op.location,
    )
    frame.block.add_op(loop)
    for n, result in zip(kept, loop.results, strict=False):
        result.name_hint = op.results[n].name_hint
        frame.values[op.results[n]] = result
    for number, (base, _, _) in enumerate(copies):
        frame.values[base] = loop.results[len(kept) + 2 * number]


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


def _copies(state: MappingState, frame: LoopFrame, op: RangeOp) -> dict[SSAValue, tuple[SSAValue, SSAValue]]:
    """The two copies of each scratchpad that this loop swaps: the one that is read first, the one that is written."""
    found: dict[SSAValue, tuple[SSAValue, SSAValue]] = {}
    for base, loop in state.schedule.copies.items():
        if loop is op:
            old, new = frame.find(base), state.second[base]
            assert old is not None
            found[base] = (old, new)
    return found


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
            last = region.block.last_op
            operands = () if last is None else last.operands
            inner.block.add_op(scf.YieldOp.create(operands=[value_in(state, inner, operands[n]) for n in kept]))
            regions.append(Region(inner.block))
    made = scf.IfOp.create(
        operands=[condition],
        result_types=[state.mapped_type(op.results[n].type) for n in kept],
        regions=regions,
        location=op.location,
    )
    frame.block.add_op(made)
    for n, result in zip(kept, made.results, strict=True):
        frame.values[op.results[n]] = result


def _emit_while(state: MappingState, frame: LoopFrame, op: scf.WhileOp, hazards: Hazards) -> None:
    _emit_edge(state, frame, op, hazards)
    kept = _kept(state, op.results)
    initial = [value_in(state, frame, op.arguments[n]) for n in kept]
    before, after = (_while_frame(state, frame, region.block, kept) for region in op.regions)
    with hazards.looping(after):
        emit_block(state, before, op.before_region.block, hazards)
        condition = op.before_region.block.last_op
        assert isinstance(condition, scf.ConditionOp)
        handed = [value_in(state, before, condition.args[n]) for n in kept]
        before.block.add_op(scf.ConditionOp.create(operands=[value_in(state, before, condition.condition), *handed]))
        emit_block(state, after, op.after_region.block, hazards)
    last = op.after_region.block.last_op
    assert last is not None
    after.block.add_op(scf.YieldOp.create(operands=[value_in(state, after, last.operands[n]) for n in kept]))
    made = scf.WhileOp.create(
        operands=initial,
        result_types=[value.type for value in initial],
        regions=[Region(before.block), Region(after.block)],
        location=op.location,
    )
    frame.block.add_op(made)
    for n, result in zip(kept, made.results, strict=True):
        frame.values[op.results[n]] = result


def _while_frame(state: MappingState, frame: LoopFrame, block: Block, kept: Sequence[int]) -> LoopFrame:
    mapped = open_block(state, block)
    inner = LoopFrame(Block(arg_types=[mapped.args[n].type for n in kept]), frame)
    inner.values.update((block.args[n], argument) for n, argument in zip(kept, inner.block.args, strict=True))
    return inner
