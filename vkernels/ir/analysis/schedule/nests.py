"""Which loop nests each phase becomes, and which values need a home between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from ...dialect import DotOp, PhaseOp, RangeOp, ReductionOp, ScanOp, YieldOp
from ...errors import PlanError
from ...locations import place_of
from ...plan import Home, Plan
from ..accesses import clash, inputs_of
from ..kernel_analysis import KernelAnalysis
from .find_online import Online


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
    scanned: frozenset[str] = frozenset()
    """Axes that it scans; the last of its loops is over it."""
    online: list[Online] = field(default_factory=list)
    """Pairs whose maximum is among the reductions, and whose sum is carried along."""

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
class NestSchedule:
    """The nests of every phase and of every edge of a structural operation, and the homes.

    `edges` are keyed by the block that ends, or by the structural operation before which initial values are stored.
    `homes` maps a value to its kind of memory; a loop's carried values and results share the home of the
    loop's result, which `home_of` finds.
    """

    analysis: KernelAnalysis
    homes: dict[SSAValue, Home] = field(default_factory=dict)
    shares: dict[SSAValue, SSAValue] = field(default_factory=dict)
    nests: dict[PhaseOp, list[Nest]] = field(default_factory=dict)
    edges: dict[Operation | Block, list[Nest]] = field(default_factory=dict)
    copies: dict[SSAValue, Operation] = field(default_factory=dict)
    """Scratchpads kept in two copies, and the loop that swaps them."""
    online: list[Online] = field(default_factory=list)
    """A maximum and a sum of exponentials that one loop computes, that of the maximum."""

    def home_of(self, value: SSAValue) -> SSAValue | None:
        """The value whose home holds `value`, if it has one."""
        owner = self.shares.get(value, value)
        return owner if owner in self.homes else None


def label_of(value: SSAValue) -> str:
    """What messages and homes call a value."""
    return value.name_hint or "value"


def group_nests(schedule: NestSchedule, plan: Plan) -> None:
    analysis = schedule.analysis
    members: dict[PhaseOp, list[Operation]] = {phase: [] for phase in analysis.structures if isinstance(phase, PhaseOp)}
    for item, phase in analysis.phase.items():
        members[phase].append(item)
    schedule.nests = {phase: _nests_of(schedule, items, plan) for phase, items in members.items()}
    for op in analysis.structures:
        if not isinstance(op, PhaseOp):
            schedule.edges.update(_edges_of(schedule, op, plan))


def _nests_of(schedule: NestSchedule, items: Sequence[Operation], plan: Plan) -> list[Nest]:
    analysis = schedule.analysis
    nests: list[Nest] = []
    carried_along = {pair.total for pair in schedule.online}
    for item in items:
        if isinstance(item, YieldOp) or not (chunks := analysis.chunks(item)):
            continue
        if analysis.has_effect(item):
            _nest_for(schedule, nests, chunks, item).effects.append(item)
        elif item in carried_along:
            continue
        elif analysis.is_chunk_reduction(item) and chunks == {item.axis.data}:  # type: ignore[attr-defined]
            _nest_for(schedule, nests, chunks, item).reductions.append(item)
        for result in item.results:
            if result in schedule.homes:
                of_value = analysis.chunks_of_value(result)
                _nest_for(schedule, nests, of_value, item).stores.append((result, result))
    for nest in nests:
        nest.axes = _ordered(schedule, nest, plan)
        nest.online = [pair for pair in schedule.online if pair.maximum in nest.reductions]
    return nests


def _nest_for(schedule: NestSchedule, nests: list[Nest], chunks: frozenset[str], item: Operation) -> Nest:
    """The nest over these axes that an item may join: no nest after it must have run before the item."""
    analysis = schedule.analysis
    late: list[Nest] = []
    scanned = _scanned(schedule, item)
    for nest in reversed(nests):
        joins = frozenset(nest.axes) == chunks and len(scanned | nest.scanned) <= 1
        if joins and not any(_depends(schedule, item, other) for other in late):
            nest.scanned |= scanned
            return nest
        late.append(nest)
    nests.append(Nest(tuple(axis for axis in analysis.axes if axis in chunks), scanned=scanned))
    return nests[-1]


def _scanned(schedule: NestSchedule, item: Operation) -> frozenset[str]:
    """The axes that an item, and what it is computed from, scan in chunks: of a nest, only one can be the innermost."""
    analysis = schedule.analysis
    if not analysis.scans:
        return frozenset()
    items = [item, *slice_for(schedule, inputs_of(item))]
    return frozenset(op.axis.data for op in items if isinstance(op, ScanOp)) & analysis.chunked


def _depends(schedule: NestSchedule, item: Operation, nest: Nest) -> bool:
    """Whether an item, or what it is computed from, meets memory or homes that a nest writes or reads."""
    analysis = schedule.analysis
    inputs = [item, *slice_for(schedule, inputs_of(item))]
    mine = [access for op in inputs for access in analysis.accesses(op)]
    theirs = [access for op in nest.effects for access in analysis.accesses(op)]
    theirs += [a for op in slice_for(schedule, nest.roots()) for a in analysis.accesses(op) if not a.writes]
    homed = {home for _, home in nest.stores}
    used = {schedule.home_of(analysis.source(v)) for op in inputs for v in inputs_of(op)}
    return bool(homed & used) or any(clash(one, other) for one in mine for other in theirs)


def slice_for(schedule: NestSchedule, values: Iterator[SSAValue]) -> list[Operation]:
    """The items that a nest computes: back to values in registers and in homes."""
    analysis = schedule.analysis
    return analysis.sliced(
        values, lambda value: not analysis.chunks_of_value(value) or schedule.home_of(value) is not None
    )


def _ordered(schedule: NestSchedule, nest: Nest, plan: Plan) -> tuple[str, ...]:
    """Loop order: reductions of inner loops depend on few axes, so those outside; scans run along the innermost."""
    if len(nest.axes) < 2:
        return nest.axes
    analysis = schedule.analysis
    scanned = dict.fromkeys(nest.scanned, 1)
    reduced: dict[str, int] = {}
    for item in slice_for(schedule, nest.roots()):
        if isinstance(item, ScanOp) and item.axis.data in analysis.chunked:
            scanned[item.axis.data] = 1
        elif analysis.is_chunk_reduction(item):
            for result in item.results:
                reduced.update(dict.fromkeys(analysis.chunks_of_value(result), -1))
    declared = list(analysis.axes)

    def rank(axis: str) -> tuple[int, int, bool, int]:
        return scanned.get(axis, 0), reduced.get(axis, 0), axis == plan.lanes, declared.index(axis)

    return tuple(sorted(nest.axes, key=rank))


def _edges_of(schedule: NestSchedule, op: Operation, plan: Plan) -> dict[Operation | Block, list[Nest]]:
    """Initial values are stored before a loop, new ones at the end of its body; a conditional's by each branch."""
    results = op.results
    edges: dict[Operation | Block, list[Nest]] = {}
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


def _edge(schedule: NestSchedule, pairs: list[tuple[SSAValue, SSAValue]], plan: Plan) -> list[Nest]:
    """Nests that store values into homes; what is in its home already is left there.

    A nest that reads a home runs before the one that writes it.
    """
    analysis = schedule.analysis
    by_axes: dict[frozenset[str], Nest] = {}
    for value, home in ((analysis.source(value), home) for value, home in pairs if home in schedule.homes):
        if schedule.home_of(value) is not home:
            axes = analysis.chunks_of_value(value)
            nest = by_axes.setdefault(axes, Nest(tuple(axis for axis in analysis.axes if axis in axes)))
            nest.stores.append((value, home))
    waiting, nests = list(by_axes.values()), []
    for nest in waiting:
        nest.axes = _ordered(schedule, nest, plan)
    while waiting:
        written = {nest: {home for _, home in nest.stores} for nest in waiting}
        read = {nest: homes_read(schedule, nest) for nest in waiting}
        free = [n for n in waiting if not any(written[n] & read[other] for other in waiting if other is not n)]
        if not free:
            stuck = [home for nest in waiting for _, home in nest.stores]
            names, owner = ", ".join(map(label_of, stuck)), stuck[0].owner
            raise PlanError(
                f"{names} are carried in chunks of different axes and computed from one another",
                place_of(owner) if isinstance(owner, Operation) else None,
            )
        nests.append(free[0])
        waiting.remove(free[0])
    return nests


def homes_read(schedule: NestSchedule, nest: Nest) -> set[SSAValue]:
    """The homes that a nest loads from, the loops of its reductions included."""
    values = [*nest.roots(), *(value for item in all_items(schedule, nest) for value in inputs_of(item))]
    homes = {schedule.home_of(schedule.analysis.source(value)) for value in values}
    return {home for home in homes if home is not None}


def all_items(schedule: NestSchedule, nest: Nest) -> list[Operation]:
    """Items of a nest, those of reductions in loops of their own included."""
    found: dict[Operation, None] = {}
    todo = slice_for(schedule, nest.roots())
    while todo:
        item = todo.pop()
        if item not in found:
            found[item] = None
            if schedule.analysis.is_chunk_reduction(item):
                todo += slice_for(schedule, iter(item.operands))
    return list(found)


def in_order(schedule: NestSchedule) -> Iterator[tuple[Operation | Block, Nest, tuple[Operation, ...]]]:
    """Every nest in the order it runs, with what it belongs to and the structural operations around it."""
    yield from _in_order(schedule, schedule.analysis.kernel.body.block, ())


def _in_order(
    schedule: NestSchedule, block: Block, around: tuple[Operation, ...]
) -> Iterator[tuple[Operation | Block, Nest, tuple[Operation, ...]]]:
    for op in block.ops:
        if isinstance(op, PhaseOp):
            for nest in schedule.nests[op]:
                yield op, nest, around
        elif op in schedule.analysis.structures:
            for nest in schedule.edges.get(op, ()):
                yield op, nest, around
            for region in op.regions:
                for inner in region.blocks:
                    yield from _in_order(schedule, inner, (*around, op))
    for nest in schedule.edges.get(block, ()):
        yield block, nest, around
