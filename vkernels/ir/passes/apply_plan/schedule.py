"""Which loop nests each phase becomes, and which values need a home between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import scf
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from ...dialect import DotOp, PhaseOp, RangeOp, ReductionOp, ScanOp, TensorArgumentType, YieldOp
from ...errors import PlanError
from ...facts import Facts
from ...plan import Home, Plan
from ..accesses import Access, clash, elementwise, inputs_of
from .reading import Reading


@dataclass(eq=False)
class Nest:
    """Loops over chunks of `axes`, outermost first, that reduce, run effects, and store values into their homes.

    `reductions` have no chunked axis left; they run along the only axis of their nest. `stores` are pairs
    of a value and the value that names its home (not the same where a loop carries values).
    """

    axes: tuple[str, ...]
    reductions: list[Operation] = field(default_factory=list)
    effects: list[Operation] = field(default_factory=list)
    stores: list[tuple[SSAValue, SSAValue]] = field(default_factory=list)

    def roots(self) -> Iterator[SSAValue]:
        """The values that the nest is there to compute."""
        for op in self.reductions:
            yield from operands_along(op)
        for op in self.effects:
            yield from inputs_of(op)
        for value, _ in self.stores:
            yield value


def operands_along(op: Operation) -> tuple[SSAValue, ...]:
    """The operands of a reduction that have the reduced axis."""
    if isinstance(op, DotOp):
        return (op.left, op.right)
    assert isinstance(op, ReductionOp)
    return (op.tile,)


@dataclass
class Schedule:
    """The nests of every phase and of every edge of a structural operation, and the homes.

    `edges` are keyed by the block that ends, or by the structural operation before which initial values are stored.
    `homes` maps a value to its kind of memory; a loop's carried values and results share the home of the
    loop's result, which `home_of` finds.
    """

    reading: Reading
    homes: dict[SSAValue, Home] = field(default_factory=dict)
    shares: dict[SSAValue, SSAValue] = field(default_factory=dict)
    nests: dict[PhaseOp, list[Nest]] = field(default_factory=dict)
    edges: dict[Operation | Block, Nest | None] = field(default_factory=dict)
    copies: dict[SSAValue, Operation] = field(default_factory=dict)
    """Scratchpads kept in two copies, and the loop that swaps them."""

    def home_of(self, value: SSAValue) -> SSAValue | None:
        """The value whose home holds `value`, if it has one."""
        owner = self.shares.get(value, value)
        return owner if owner in self.homes else None


def make_schedule(reading: Reading, plan: Plan, facts: Facts, copies: dict[SSAValue, Operation]) -> Schedule:
    """Group each phase's work into nests; give homes where the plan says so or computing again would be wrong.

    Raises `PlanError` where the plan asks for what would be wrong.
    """
    schedule = Schedule(reading, copies=copies)
    _home_carried(schedule, plan)
    _home_as_planned(schedule, plan)
    while True:
        _group(schedule, plan)
        cut = _first_wrong(schedule, facts)
        if cut is None:
            return schedule
        if plan.homes.get(_label(cut)) is Home.RECOMPUTE:
            raise PlanError(f"{_label(cut)} cannot be computed again: what it is computed from is overwritten before")
        schedule.homes[cut] = Home.MEMORY


def _label(value: SSAValue) -> str:
    return value.name_hint or "value"


def _home_as_planned(schedule: Schedule, plan: Plan) -> None:
    reading = schedule.reading
    labels = set(plan.homes)
    for phase in dict.fromkeys(reading.phase.values()):
        for result in phase.results_:
            home = plan.homes.get(_label(result))
            labels.discard(_label(result))
            if home is None or not reading.chunks_of_value(result):
                continue
            if home is Home.REGISTERS:
                raise PlanError(f"{_label(result)} is processed in chunks, so registers cannot hold it between phases")
            if home is not Home.RECOMPUTE:
                schedule.homes[reading.source(result)] = home
    for value in schedule.homes:
        labels.discard(_label(value))
    if labels:
        raise PlanError(f"the plan gives homes to {', '.join(sorted(labels))}, which cross no phase")


def _home_carried(schedule: Schedule, plan: Plan) -> None:
    """Tiles with chunked axes that structural loops and conditionals carry live in memory."""
    reading = schedule.reading
    for op in reading.structures:
        if isinstance(op, PhaseOp):
            continue
        for number, result in enumerate(op.results):
            if not reading.chunks_of_value(result):
                continue
            home = plan.homes.get(_label(result), Home.MEMORY)
            if home not in (Home.MEMORY, Home.SHARED):
                raise PlanError(f"{_label(result)} is carried in chunks: its home is shared or memory, not {home}")
            schedule.homes[result] = home
            for argument in carried_arguments(op, number):
                schedule.shares[argument] = result


def carried_arguments(op: Operation, number: int) -> list[BlockArgument]:
    """The block arguments that hold a structural operation's carried value between its edges."""
    if isinstance(op, RangeOp):
        return [op.carried[number]]
    if isinstance(op, scf.WhileOp):
        condition = op.before_region.block.last_op
        assert isinstance(condition, scf.ConditionOp)
        if condition.args[number] is not op.before_region.block.args[number]:
            raise PlanError("a while loop over phases must hand its carried values on as they are")
        return [op.before_region.block.args[number], op.after_region.block.args[number]]
    return []


def _group(schedule: Schedule, plan: Plan) -> None:
    reading = schedule.reading
    members: dict[PhaseOp, list[Operation]] = {phase: [] for phase in reading.structures if isinstance(phase, PhaseOp)}
    for item, phase in reading.phase.items():
        members[phase].append(item)
    schedule.nests = {phase: _nests_of(schedule, items, plan) for phase, items in members.items()}
    for op in reading.structures:
        if not isinstance(op, PhaseOp):
            schedule.edges.update(_edges_of(schedule, op, plan))


def _nests_of(schedule: Schedule, items: Sequence[Operation], plan: Plan) -> list[Nest]:
    reading = schedule.reading
    nests: list[Nest] = []
    for item in items:
        if isinstance(item, YieldOp) or not (chunks := reading.chunks(item)):
            continue
        if reading.has_effect(item):
            _nest_for(schedule, nests, chunks, item).effects.append(item)
        elif reading.is_chunk_reduction(item) and chunks == {item.axis.data}:  # type: ignore[attr-defined]
            _nest_for(schedule, nests, chunks, item).reductions.append(item)
        for result in item.results:
            if result in schedule.homes:
                of_value = reading.chunks_of_value(result)
                _nest_for(schedule, nests, of_value, item).stores.append((result, result))
    for nest in nests:
        nest.axes = _ordered(schedule, nest, plan)
    return nests


def _nest_for(schedule: Schedule, nests: list[Nest], chunks: frozenset[str], item: Operation) -> Nest:
    """The nest over these axes that an item may join: no nest after it must have run before the item."""
    reading = schedule.reading
    late: list[Nest] = []
    for nest in reversed(nests):
        if frozenset(nest.axes) == chunks and not any(_depends(schedule, item, other) for other in late):
            return nest
        late.append(nest)
    nests.append(Nest(tuple(axis for axis in reading.axes if axis in chunks)))
    return nests[-1]


def _depends(schedule: Schedule, item: Operation, nest: Nest) -> bool:
    """Whether an item, or what it is computed from, meets memory or homes that a nest writes or reads."""
    reading = schedule.reading
    inputs = [item, *slice_for(schedule, inputs_of(item))]
    mine = [access for op in inputs for access in reading.accesses(op)]
    theirs = [access for op in nest.effects for access in reading.accesses(op)]
    theirs += [a for op in slice_for(schedule, nest.roots()) for a in reading.accesses(op) if not a.writes]
    homed = {home for _, home in nest.stores}
    used = {schedule.home_of(reading.source(v)) for op in inputs for v in inputs_of(op)}
    return bool(homed & used) or any(clash(one, other) for one in mine for other in theirs)


def slice_for(schedule: Schedule, values: Iterator[SSAValue]) -> list[Operation]:
    """The items that a nest computes: back to values in registers and in homes."""
    reading = schedule.reading
    return reading.sliced(
        values, lambda value: not reading.chunks_of_value(value) or schedule.home_of(value) is not None
    )


def _ordered(schedule: Schedule, nest: Nest, plan: Plan) -> tuple[str, ...]:
    """Loop order: reductions of inner loops depend on few axes, so those outside; scans run along the innermost."""
    if len(nest.axes) < 2:
        return nest.axes
    reading = schedule.reading
    scanned: dict[str, int] = {}
    reduced: dict[str, int] = {}
    for item in slice_for(schedule, nest.roots()):
        if isinstance(item, ScanOp) and item.axis.data in reading.chunked:
            scanned[item.axis.data] = 1
        elif reading.is_chunk_reduction(item):
            for result in item.results:
                reduced.update(dict.fromkeys(reading.chunks_of_value(result), -1))
    declared = list(reading.axes)

    def rank(axis: str) -> tuple[int, int, bool, int]:
        return scanned.get(axis, 0), reduced.get(axis, 0), axis == plan.lanes, declared.index(axis)

    axes = tuple(sorted(nest.axes, key=rank))
    _check_scans(schedule, nest, axes)
    return axes


def _check_scans(schedule: Schedule, nest: Nest, axes: tuple[str, ...]) -> None:
    reading = schedule.reading
    for item in slice_for(schedule, nest.roots()):
        if isinstance(item, ScanOp) and item.axis.data in reading.chunked:
            inner = axes[axes.index(item.axis.data) + 1 :]
            if reading.chunks_of_value(item.result).intersection(inner):
                raise PlanError(
                    f"scans along {item.axis.data} and {inner[-1]} cannot both run in chunks: hold one of them"
                )


def _edges_of(schedule: Schedule, op: Operation, plan: Plan) -> dict[Operation | Block, Nest | None]:
    """Initial values are stored before a loop, new ones at the end of its body; a conditional's by each branch."""
    results = op.results
    edges: dict[Operation | Block, Nest | None] = {}
    if isinstance(op, RangeOp | scf.WhileOp):
        initial = op.initial if isinstance(op, RangeOp) else op.arguments
        edges[op] = _edge(schedule, list(zip(initial, results, strict=True)), plan)
        body = op.body.block if isinstance(op, RangeOp) else op.after_region.block
        edges[body] = _edge(schedule, list(zip(_yielded(body), results, strict=True)), plan)
    elif isinstance(op, scf.IfOp):
        for region in op.regions:
            for block in region.blocks:
                edges[block] = _edge(schedule, list(zip(_yielded(block), results, strict=True)), plan)
    return edges


def _yielded(block: Block) -> Sequence[SSAValue]:
    last = block.last_op
    return () if last is None else last.operands


def _edge(schedule: Schedule, pairs: list[tuple[SSAValue, SSAValue]], plan: Plan) -> Nest | None:
    """One nest that stores values into homes; what is in its home already is left there."""
    reading = schedule.reading
    stores = [
        (reading.source(value), home)
        for value, home in pairs
        if home in schedule.homes and schedule.home_of(reading.source(value)) is not home
    ]
    if not stores:
        return None
    axes = frozenset(axis for value, _ in stores for axis in reading.chunks_of_value(value))
    if any(reading.chunks_of_value(value) != axes for value, _ in stores):
        raise PlanError(f"{_label(stores[0][1])} and {_label(stores[-1][1])} are carried in chunks of different axes")
    nest = Nest(tuple(axis for axis in reading.axes if axis in axes), stores=stores)
    nest.axes = _ordered(schedule, nest, plan)
    return nest


# Is it right to compute values again? Loads that a nest repeats must still find what they found as written.


@dataclass(frozen=True, eq=False)
class _Write:
    access: Access
    nest: Nest | None
    order: float
    position: int
    around: tuple[Operation, ...]


def _first_wrong(schedule: Schedule, facts: Facts) -> SSAValue | None:
    """A value that must have a home: computing it where it is used would read what has been overwritten."""
    reading = schedule.reading
    order = {nest: number for number, (_, nest, _) in enumerate(in_order(schedule))}
    writes = _writes(schedule, order)
    for _, nest, around in in_order(schedule):
        if (cut := _first_inner_home(schedule, nest)) is not None:
            return cut
        for path in _paths(schedule, nest):
            for load in (a for a in reading.accesses(path.item) if not a.writes):
                for write in writes:
                    if _spoils(schedule, write, load, path, nest, order[nest], around, facts):
                        return _cut(schedule, path, load, write)
    return None


def in_order(schedule: Schedule) -> Iterator[tuple[Operation | Block, Nest, tuple[Operation, ...]]]:
    """Every nest in the order it runs, with what it belongs to and the structural operations around it."""
    yield from _in_order(schedule, schedule.reading.kernel.body.block, ())


def _in_order(
    schedule: Schedule, block: Block, around: tuple[Operation, ...]
) -> Iterator[tuple[Operation | Block, Nest, tuple[Operation, ...]]]:
    for op in block.ops:
        if isinstance(op, PhaseOp):
            for nest in schedule.nests[op]:
                yield op, nest, around
        elif op in schedule.reading.structures:
            if (before := schedule.edges.get(op)) is not None:
                yield op, before, around
            for region in op.regions:
                for inner in region.blocks:
                    yield from _in_order(schedule, inner, (*around, op))
    if (last := schedule.edges.get(block)) is not None:
        yield block, last, around


def _writes(schedule: Schedule, order: dict[Nest, int]) -> list[_Write]:
    reading = schedule.reading
    writes: list[_Write] = []
    nest_of = {op: nest for _, nest, _ in in_order(schedule) for op in nest.effects}
    for item, phase in reading.phase.items():
        if not reading.has_effect(item):
            continue
        nest = nest_of.get(item)
        at = order[nest] if nest is not None else _before(schedule, phase, order)
        writes += [
            _Write(access, nest, at, reading.position[item], reading.structures[phase])
            for access in reading.accesses(item)
            if access.writes
        ]
    return writes


def _before(schedule: Schedule, phase: PhaseOp, order: dict[Nest, int]) -> float:
    """An order for what a phase does before its first nest: after every nest of earlier phases."""
    position = schedule.reading.position
    earlier = [
        order[nest]
        for key, nest, _ in in_order(schedule)
        if isinstance(key, PhaseOp) and position[key] < position[phase]
    ]
    return max(earlier, default=-1) + 0.5


@dataclass(frozen=True, eq=False)
class _Path:
    """How a nest comes to compute an item: over which crossing value, and whether inside a reduction's own loop."""

    item: Operation
    through: SSAValue | None
    inner: Operation | None


def _cut(schedule: Schedule, path: _Path, load: Access, write: _Write) -> SSAValue:
    """The value to give a home, so that a load is not repeated after a write."""
    for value in (path.through, *path.item.results):
        if value is not None and value not in schedule.homes and schedule.reading.chunks_of_value(value):
            return value
    read, written = _label(load.base), _label(write.access.base)
    if read != written:
        raise PlanError(f"{written} may be the same tensor as {read}, and is written before {read} is read everywhere")
    raise PlanError(f"{read} is written before it is read everywhere under this plan; larger chunks may help")


def _paths(schedule: Schedule, nest: Nest) -> Iterator[_Path]:
    """Every item that a nest computes, inner reductions' loops included."""
    reading = schedule.reading
    seen: set[Operation] = set()
    todo: list[tuple[SSAValue, SSAValue | None, Operation | None]] = [(v, None, None) for v in nest.roots()]
    stored = {value for value, home in nest.stores if value is home}
    while todo:
        value, through, inner = todo.pop()
        source = reading.source(value)
        if source is not value:
            through = source
        value = source
        at_hand = not reading.chunks_of_value(value) or (schedule.home_of(value) is not None and value not in stored)
        if at_hand or not isinstance(value.owner, Operation):
            continue
        item = reading.item_of(value.owner)
        if item in seen:
            continue
        seen.add(item)
        yield _Path(item, through, inner)
        within = item if reading.is_chunk_reduction(item) else inner
        todo += [(v, through, within) for v in inputs_of(item)]
    for op in nest.effects:
        if any(not access.writes for access in reading.accesses(op)):
            yield _Path(op, None, None)


def _first_inner_home(schedule: Schedule, nest: Nest) -> SSAValue | None:
    """A reduction that would read, in a loop of its own, a home that the same nest overwrites."""
    written = {home for _, home in nest.stores}
    for path in _paths(schedule, nest):
        within = path.item if schedule.reading.is_chunk_reduction(path.item) else path.inner
        if within is not None:
            homes = {schedule.home_of(schedule.reading.source(v)) for v in inputs_of(path.item)}
            if homes & written and within.results[0] not in schedule.homes:
                return within.results[0]
    return None


def _spoils(
    schedule: Schedule,
    write: _Write,
    load: Access,
    path: _Path,
    nest: Nest,
    at: int,
    around: tuple[Operation, ...],
    facts: Facts,
) -> bool:
    """Whether a write may change what a load finds in a nest, as against what it found as written."""
    reading = schedule.reading
    if not _may_alias(write.access, load, facts):
        return False
    position = reading.position[path.item]
    home = reading.structures[reading.phase[path.item]] if path.item in reading.phase else ()
    swap = schedule.copies.get(load.base)
    if swap is not None and swap in write.around and swap in home and swap in around:
        return False  # reads find the old copy, writes go to the new one
    if write.nest is nest:
        return path.inner is not None or not elementwise(write.access, load)
    if any(op in around and op not in home for op in write.around):
        return True  # an earlier iteration of a loop that the load is not part of
    return (position < write.position) == (write.order < at)


def _may_alias(write: Access, load: Access, facts: Facts) -> bool:
    if write.base is load.base:
        return True
    one, other = write.base.type, load.base.type
    return (
        not facts.distinct
        and isinstance(one, TensorArgumentType)
        and isinstance(other, TensorArgumentType)
        and one == other
    )
