"""Phases in order, and the loops and conditionals around them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import i64
from xdsl.ir import Block, Operation, Region, SSAValue

from ...dialect import PhaseOp, RangeOp, ScratchOp, SizeOp, TileOp, WholeOp, YieldOp
from ...errors import PlanError
from ...places import place_of
from .access import value_in
from .barriers import Hazards
from .emit import emit_here, open_block, ragged_position, ragged_steps, still_running
from .frames import Frame
from .nests import emit_nest
from .schedule import Nest
from .work import Work


def emit_block(work: Work, frame: Frame, block: Block, hazards: Hazards) -> None:
    """Everything in a block but its terminator."""
    emit_ops(work, frame, block.ops, hazards)
    _emit_edge(work, frame, block, hazards)


def emit_ops(work: Work, frame: Frame, ops: Iterable[Operation], hazards: Hazards) -> None:
    """Some operations of a block."""
    for op in ops:
        if isinstance(op, PhaseOp):
            emit_phase(work, frame, op, hazards, work.schedule.nests[op])
        elif isinstance(op, RangeOp) and work.reading.is_structural(op):
            _emit_range(work, frame, op, hazards)
        elif isinstance(op, scf.IfOp) and work.reading.is_structural(op):
            _emit_if(work, frame, op, hazards)
        elif isinstance(op, scf.WhileOp) and work.reading.is_structural(op):
            _emit_while(work, frame, op, hazards)
        else:
            emit_beside(work, frame, op)


def emit_beside(work: Work, frame: Frame, op: Operation) -> None:
    """Scalar work that stands beside phases; declarations have been dealt with."""
    if isinstance(op, SizeOp | TileOp | WholeOp | ScratchOp | YieldOp | scf.YieldOp | scf.ConditionOp):
        return
    if op.results and frame.find(op.results[0]) is not None:
        return
    frame.root().location = op.location
    emit_here(work, frame, op)


def emit_phase(work: Work, frame: Frame, phase: PhaseOp, hazards: Hazards, nests: Sequence[Nest]) -> None:
    """What needs no chunk loop first, then nests of the phase."""
    reading = work.reading
    for item in phase.body.block.ops:
        if isinstance(item, YieldOp) or reading.chunks(item):
            continue
        frame.root().location = item.location
        hazards.before_item(work, frame, item)
        emit_here(work, frame, item)
    for nest in nests:
        hazards.before_nest(work, frame, nest)
        emit_nest(work, frame, nest)


def _kept(work: Work, values: Sequence[SSAValue]) -> list[int]:
    """Which of a structural operation's values are registers: those without a home."""
    return [number for number, value in enumerate(values) if value not in work.schedule.homes]


def _emit_edge(work: Work, frame: Frame, key: Operation | Block, hazards: Hazards) -> None:
    """Put what a loop or conditional carries into its homes."""
    for nest in work.schedule.edges.get(key, ()):
        hazards.before_nest(work, frame, nest)
        emit_nest(work, frame, nest)


def _emit_range(work: Work, frame: Frame, op: RangeOp, hazards: Hazards) -> None:
    _emit_edge(work, frame, op, hazards)
    kept = _kept(work, op.results)
    start, stop = value_in(work, frame, op.start), value_in(work, frame, op.stop)
    initial = [value_in(work, frame, op.initial[n]) for n in kept]
    copies = [(base, *pair) for base, pair in _copies(work, frame, op).items()]
    swapped = [value for _, old, new in copies for value in (old, new)]
    block = Block(arg_types=[i64, *(v.type for v in initial), *(v.type for v in swapped)])
    inner = Frame(block, frame)
    arguments = block.args[1:]
    for n, argument in zip(kept, arguments, strict=False):
        argument.name_hint = op.carried[n].name_hint
        inner.values[op.carried[n]] = argument
    pairs = list(zip(arguments[len(kept) :: 2], arguments[len(kept) + 1 :: 2], strict=True))
    for (base, old, new), (reads, writes) in zip(copies, pairs, strict=True):
        reads.name_hint, writes.name_hint = old.name_hint, new.name_hint
        inner.values[base], inner.written[base] = reads, writes
    low, high = _open_positions(work, frame, inner, op, start, stop)
    with hazards.looping(inner):
        emit_block(work, inner, op.body.block, hazards)
        hazards.swap(base for base, _, _ in copies)
    last = op.body.block.last_op
    assert isinstance(last, YieldOp)
    values = [still_running(work, inner, op, last.values[n], op.carried[n]) for n in kept]
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
    work: Work, frame: Frame, inner: Frame, op: RangeOp, start: SSAValue, stop: SSAValue
) -> tuple[SSAValue, SSAValue]:
    """The bounds of the loop, and the position in its body."""
    step = inner.block.args[0]
    step.name_hint = op.position.name_hint
    if not op.is_ragged:
        inner.values[op.position] = step
        return start, stop
    steps = ragged_steps(work, frame, op, start, stop)
    ragged_position(work, inner, op, start, stop, step)
    return frame.number(0), steps


def _copies(work: Work, frame: Frame, op: RangeOp) -> dict[SSAValue, tuple[SSAValue, SSAValue]]:
    """The two copies of each scratchpad that this loop swaps: the one that is read first, the one that is written."""
    found: dict[SSAValue, tuple[SSAValue, SSAValue]] = {}
    for base, loop in work.schedule.copies.items():
        if loop is op:
            old, new = frame.find(base), work.second[base]
            assert old is not None
            found[base] = (old, new)
    return found


def _emit_if(work: Work, frame: Frame, op: scf.IfOp, hazards: Hazards) -> None:
    kept = _kept(work, op.results)
    condition = value_in(work, frame, op.cond)
    regions = []
    with hazards.branching() as branch:
        for region in op.regions:
            if not region.blocks:
                regions.append(Region())
                continue
            inner = Frame(Block(), frame)
            with branch():
                emit_block(work, inner, region.block, hazards)
            last = region.block.last_op
            operands = () if last is None else last.operands
            inner.block.add_op(scf.YieldOp.create(operands=[value_in(work, inner, operands[n]) for n in kept]))
            regions.append(Region(inner.block))
    made = scf.IfOp.create(
        operands=[condition],
        result_types=[work.mapped_type(op.results[n].type) for n in kept],
        regions=regions,
        location=op.location,
    )
    frame.block.add_op(made)
    for n, result in zip(kept, made.results, strict=True):
        frame.values[op.results[n]] = result


def _emit_while(work: Work, frame: Frame, op: scf.WhileOp, hazards: Hazards) -> None:
    _emit_edge(work, frame, op, hazards)
    kept = _kept(work, op.results)
    if any(value not in work.schedule.shares and len(op.arguments) != len(op.results) for value in op.arguments):
        raise PlanError("a while loop over phases must hand on all that it carries", place_of(op))
    initial = [value_in(work, frame, op.arguments[n]) for n in kept]
    before, after = (_while_frame(work, frame, region.block, kept) for region in op.regions)
    with hazards.looping(after):
        emit_block(work, before, op.before_region.block, hazards)
        condition = op.before_region.block.last_op
        assert isinstance(condition, scf.ConditionOp)
        handed = [value_in(work, before, condition.args[n]) for n in kept]
        before.block.add_op(scf.ConditionOp.create(operands=[value_in(work, before, condition.condition), *handed]))
        emit_block(work, after, op.after_region.block, hazards)
    last = op.after_region.block.last_op
    assert last is not None
    after.block.add_op(scf.YieldOp.create(operands=[value_in(work, after, last.operands[n]) for n in kept]))
    made = scf.WhileOp.create(
        operands=initial,
        result_types=[value.type for value in initial],
        regions=[Region(before.block), Region(after.block)],
        location=op.location,
    )
    frame.block.add_op(made)
    for n, result in zip(kept, made.results, strict=True):
        frame.values[op.results[n]] = result


def _while_frame(work: Work, frame: Frame, block: Block, kept: Sequence[int]) -> Frame:
    mapped = open_block(work, block)
    inner = Frame(Block(arg_types=[mapped.args[n].type for n in kept]), frame)
    inner.values.update((block.args[n], argument) for n, argument in zip(kept, inner.block.args, strict=True))
    return inner
