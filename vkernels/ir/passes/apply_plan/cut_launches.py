"""A kernel cut into several launches: what crosses from one to a later one lies in buffers that outlast both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from xdsl.ir import Block, Operation, SSAValue

from ...dialect import (
    AccessOp,
    DotOp,
    KernelOp,
    LoadOp,
    PhaseOp,
    ReductionOp,
    ScanOp,
    ScratchOp,
    StoreOp,
    axes_of,
    element_of,
)
from ...errors import PlanError
from ...plan import Home, Plan
from ..accesses import inputs_of
from .access import value_in
from .barriers import Hazards
from .emit import emit_here
from .frames import Frame
from .launches import emit_launch
from .programs import buffer_for_programs, program_index
from .schedule import label_of
from .structure import emit_ops
from .work import Work


@dataclass
class _Part:
    """What one launch does: some of the kernel's block, named after the last phase, and what it takes from before.

    `kept`: values without chunked axes, which the launch that computes them stores. `again`: items that are sooner
    computed again. `homes`: of values with chunked axes. `scratchpads`: those that it accesses.
    """

    label: str
    ops: list[Operation]
    kept: set[SSAValue] = field(default_factory=set)
    again: set[Operation] = field(default_factory=set)
    homes: set[SSAValue] = field(default_factory=set)
    scratchpads: set[SSAValue] = field(default_factory=set)


def emit_cut(work: Work) -> None:
    """A launch for each part that the plan cuts the kernel into.

    Raises `PlanError` where a cut is not after a phase of the kernel's own block, or what crosses it cannot lie in
    memory.
    """
    parts = _parts(work.reading.kernel, work.plan)
    number_of = {op: number for number, part in enumerate(parts) for top in part.ops for op in top.walk()}
    for number in range(len(parts)):
        _read_crossing(work, parts, number, number_of)
    for pair in work.schedule.online:
        if number_of[pair.maximum] != number_of[pair.total]:
            name = label_of(pair.total.result)
            raise PlanError(f"{name} goes online with {label_of(pair.maximum.result)}: no launch begins between them")
    _hand_on_homes(work, parts)
    _hand_on_scratchpads(work, parts)
    buffers: dict[SSAValue, SSAValue] = {}
    for number, part in enumerate(parts):
        wanted = {value for later in parts[number + 1 :] for value in later.kept}
        made = [value for op in _results_in(part) for value in op.results if value in wanted]
        for value in made:
            sizes = [work.top.number(work.axes[axis].size) for axis in axes_of(value)]
            buffers[value] = buffer_for_programs(work, label_of(value), sizes, element_of(value))
        emit_launch(work, part.label, (), partial(_fill, work, part, made, buffers))


def _parts(kernel: KernelOp, plan: Plan) -> list[_Part]:
    cuts = {op: op.phase.data for op in kernel.body.block.ops if isinstance(op, PhaseOp)}
    for label in plan.launches:
        if label not in cuts.values():
            inside = label in {op.phase.data for op in kernel.walk() if isinstance(op, PhaseOp)}
            why = "lies in a loop or conditional, all of which one launch runs" if inside else "is none of its phases"
            raise PlanError(f"the plan begins a launch of {kernel.sym_name.data} after {label}, which {why}")
    parts = [_Part("", [])]
    for op in kernel.body.block.ops:
        parts[-1].ops.append(op)
        parts[-1].label = cuts.get(op, parts[-1].label)
        if cuts.get(op) in plan.launches:
            parts.append(_Part("", []))
    for part in parts:
        part.label = part.label or kernel.sym_name.data
    return [part for part in parts if any(op.regions for op in part.ops)]


def _owner(value: SSAValue) -> Operation:
    owner = value.owner
    found = owner.parent_op() if isinstance(owner, Block) else owner
    assert found is not None, "part of the kernel"
    return found


def _read_crossing(work: Work, parts: Sequence[_Part], number: int, number_of: dict[Operation, int]) -> None:
    """Find what a part takes from the parts before it, through what it computes again too."""
    reading, schedule, part = work.reading, work.schedule, parts[number]
    todo = [operand for top in part.ops for op in top.walk() for operand in op.operands]
    seen: set[SSAValue] = set()
    while todo:
        value = reading.source(todo.pop())
        owner = _owner(value)
        if isinstance(owner, ScratchOp):
            part.scratchpads.add(value)
            continue
        if value in seen or work.top.find(value) is not None or number_of[owner] >= number:
            continue
        seen.add(value)
        home = schedule.home_of(value)
        item = reading.item_of(owner)
        if home is not None:
            part.homes.add(home)
        elif reading.chunks_of_value(value):
            todo += inputs_of(item)
        elif item.regions or isinstance(item, AccessOp | ReductionOp | DotOp | ScanOp):
            part.kept.add(value)
        else:
            part.again.add(item)
            todo += inputs_of(item)


def _hand_on_homes(work: Work, parts: Sequence[_Part]) -> None:
    for home in dict.fromkeys(home for part in parts for home in part.homes):
        if work.schedule.homes[home] is Home.SHARED:
            raise PlanError(f"{label_of(home)} crosses launches, which shared memory does not outlast")
        work.lasting[home] = None


def _hand_on_scratchpads(work: Work, parts: Sequence[_Part]) -> None:
    """Scratchpads that several launches access lie in memory; not in two copies, which a loop swaps."""
    for op in work.reading.kernel.body.block.ops:
        if not isinstance(op, ScratchOp) or sum(op.result in part.scratchpads for part in parts) < 2:
            continue
        label = op.label.data
        if op.result in work.schedule.copies:
            raise PlanError(f"{label} is accessed in several launches: it cannot have two copies")
        if work.plan.homes.get(label) is Home.SHARED:
            raise PlanError(f"{label} is accessed in several launches, which shared memory does not outlast")
        work.lasting[op.result] = None


def _results_in(part: _Part) -> Iterator[Operation]:
    """What may compute values that leave a part: items of its phases, and operations beside them."""
    for op in part.ops:
        yield from op.body.block.ops if isinstance(op, PhaseOp) else (op,)


def _fill(
    work: Work, part: _Part, made: Sequence[SSAValue], buffers: Mapping[SSAValue, SSAValue], frame: Frame
) -> None:
    """The body of a launch: what it takes from before, its own work, what later ones take from it."""
    for value in buffers:
        if value in part.kept:
            frame.root().location = _owner(value).location
            load = LoadOp(buffers[value], _index(work, value), work.mapped_type(value.type))
            load.result.name_hint = value.name_hint
            frame.values[value] = frame.add(load)
    for op in sorted(part.again, key=work.reading.position.__getitem__):
        frame.root().location = op.location
        emit_here(work, frame, op)
    emit_ops(work, frame, part.ops, Hazards())
    for value in made:
        frame.block.add_op(StoreOp(value_in(work, frame, value), buffers[value], _index(work, value)))


def _index(work: Work, value: SSAValue) -> list[tuple[list[tuple[str, int]], SSAValue | None]]:
    return [*program_index(work), *(([(name, 1)], None) for name in axes_of(value))]
