"""The loop nests of each phase, and the homes of values between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from ...dialect import (
    BroadcastOp,
    DotOp,
    FetchOp,
    PhaseOp,
    RangeOp,
    ReadOp,
    ReductionOp,
    ScanByOp,
    ScanOp,
    arith,
    axes_of,
)
from ...dialect.blocks import terminator
from ...errors import PlanError
from ...locations import place_of
from ...plan import Home, Plan
from ..accesses import inputs_of
from ..kernel_analysis import ChunkedItem, KernelAnalysis
from ..meeting import clash
from ..words import EXTENSIONS, narrow_dot, narrow_dots_along
from .find_online import Online

CHEAP = (
    ReadOp, BroadcastOp, arith.ConstantOp, *EXTENSIONS, arith.MulfOp, arith.AddfOp, arith.SubfOp, arith.MuliOp,
    arith.AddiOp, arith.SubiOp,
)  # fmt: skip
MOST_CHEAP = 8
"""What a cheap sum is made of, at most: it may be computed twice, apart from a dot that needs some of it, too."""


@dataclass(eq=False)
class Nest:
    """Loops over chunks of `axes`, outermost first, that reduce, run effects, and store values into their homes.

    `reductions` have no chunked axis left; they run along the only axis of their nest. `stores` are pairs
    of a value and the value that names its home (which differ where a loop carries values). `scanned`: axes that the
    nest scans; its innermost loop is over one. `online`: groups whose maximum is among the reductions and whose sums
    the same loop carries.
    """

    axes: tuple[str, ...]
    reductions: list[ReductionOp | DotOp] = field(default_factory=list)
    effects: list[Operation] = field(default_factory=list)
    stores: list[tuple[SSAValue, SSAValue]] = field(default_factory=list)
    scanned: frozenset[str] = frozenset()
    online: list[Online] = field(default_factory=list)

    def roots(self) -> Iterator[SSAValue]:
        """The values that the nest computes."""
        yield from chain.from_iterable(map(operands_along, self.reductions))
        yield from (value for group in self.online for value in group.inputs)
        yield from chain.from_iterable(map(inputs_of, self.effects))
        yield from (value for value, _ in self.stores)


def operands_along(op: ReductionOp | DotOp) -> tuple[SSAValue, ...]:
    """The operands of a reduction that have the reduced axis."""
    return (op.left, op.right) if isinstance(op, DotOp) else (op.tile,)


@dataclass
class NestSchedule:
    """The nests of every phase and of every edge of a structural operation, and the homes.

    `edges` are keyed by the block that ends, or by the structural operation before which initial values are stored.
    `homes` maps a value to its kind of memory; a loop's carried values and results share the home of the
    loop's result, which `home_of` finds. `copies`: scratchpads in two copies, with the loop that swaps them. `online`:
    groups of a maximum and sums of exponentials that the loop of the maximum computes. `for_units`: dots that a CPU's
    unit may take share no nest with cheap sums of what they load. These take elements one by one, and depend on one
    side of the dot alone, so that programs along the other may share them.
    """

    analysis: KernelAnalysis
    homes: dict[SSAValue, Home] = field(default_factory=dict)
    shares: dict[SSAValue, SSAValue] = field(default_factory=dict)
    nests: dict[PhaseOp, list[Nest]] = field(default_factory=dict)
    edges: dict[Operation | Block, list[Nest]] = field(default_factory=dict)
    copies: dict[SSAValue, Operation] = field(default_factory=dict)
    online: list[Online] = field(default_factory=list)
    for_units: bool = False

    def home_of(self, value: SSAValue) -> SSAValue | None:
        """The value whose home holds `value`, if it has one."""
        owner = self.shares.get(value, value)
        return owner if owner in self.homes else None


def label_of(value: SSAValue) -> str:
    """The name of a value in messages and homes."""
    return value.name_hint or "value"


def group_nests(schedule: NestSchedule, plan: Plan) -> None:
    """Group the work of every phase and edge into nests."""
    analysis = schedule.analysis
    homed = {value.owner for value in schedule.homes}
    schedule.nests = {phase: _nests_of(schedule, work, homed, plan) for phase, work in analysis.work.items()}
    for op in analysis.structures:
        if not isinstance(op, PhaseOp):
            schedule.edges.update(_edges_of(schedule, op, plan))


def _nests_of(
    schedule: NestSchedule, work: Sequence[ChunkedItem], homed: set[Operation | Block], plan: Plan
) -> list[Nest]:
    analysis = schedule.analysis
    nests: list[Nest] = []
    carried_along = {total for group in schedule.online for total in group.totals}
    for item, chunks, has_effect, reduction in work:
        if has_effect:
            nest = _nest_of_fetch(nests, item) or _nest_for(schedule, nests, chunks, item)
            nest.effects.append(item)
        elif item in carried_along:
            continue
        elif reduction is not None:
            nest = _nest_for(schedule, nests, chunks, item, reduction)
            nest.reductions.append(reduction)
            nest.online += _groups_of(schedule, item)
        for result in item.results if item in homed else ():
            if result in schedule.homes:
                _nest_for(schedule, nests, analysis.chunks_of_value(result), item).stores.append((result, result))
    for nest in nests:
        nest.axes = _ordered(schedule, nest, plan)
    return nests


def _nest_of_fetch(nests: Sequence[Nest], item: Operation) -> Nest | None:
    """The nest of the fetch whose result an item stores: another would fetch again."""
    fetches = {value.owner for value in item.operands if isinstance(value.owner, FetchOp)}
    return next((nest for nest in nests if not fetches.isdisjoint(nest.effects)), None)


def _groups_of(schedule: NestSchedule, item: Operation) -> list[Online]:
    """The groups whose sums are computed with an item, their maximum."""
    return [group for group in schedule.online if group.maximum is item]


def _inputs_of(schedule: NestSchedule, item: Operation) -> Iterator[SSAValue]:
    """What an item's nest needs for it; of a maximum, for the sums beside it too."""
    yield from schedule.analysis.inputs(item)
    yield from (value for group in _groups_of(schedule, item) for value in group.inputs)


def _nest_for(
    schedule: NestSchedule,
    nests: list[Nest],
    chunks: frozenset[str],
    item: Operation,
    reduction: ReductionOp | DotOp | None = None,
) -> Nest:
    """The nest over these axes that an item may join: the item must not depend on a nest after it."""
    late: list[Nest] = []
    scanned = _scanned(schedule, item)
    for nest in reversed(nests):
        joins = frozenset(nest.axes) == chunks and len(scanned | nest.scanned) <= 1
        joins = joins and not (reduction is not None and _are_apart(schedule, nest, reduction))
        if joins and not any(_depends(schedule, item, other) for other in late):
            nest.scanned |= scanned
            return nest
        late.append(nest)
    nests.append(Nest(tuple(axis for axis in schedule.analysis.axes if axis in chunks), scanned=scanned))
    return nests[-1]


def _are_apart(schedule: NestSchedule, nest: Nest, reduction: ReductionOp | DotOp) -> bool:
    """Whether a nest has a dot that units take and a cheap sum beside it, or two cheap sums of either side of one."""
    if not schedule.for_units or not nest.reductions or not narrow_dots_along(reduction):
        return False
    if narrow_dot(reduction) is not None:
        return any(_is_cheap(schedule, other) for other in nest.reductions)
    beside = [
        each
        for each in nest.reductions
        if narrow_dot(each) is not None or axes_of(each.result) != axes_of(reduction.result)
    ]
    return bool(beside) and _is_cheap(schedule, reduction)


def _is_cheap(schedule: NestSchedule, reduction: ReductionOp | DotOp) -> bool:
    """Whether it reduces what is loaded, or made of that by a few sums and products."""
    if isinstance(reduction, DotOp):
        return False
    made = slice_for(schedule, [reduction.tile])
    return len(made) <= MOST_CHEAP and all(isinstance(op, CHEAP) for op in made)


def _scanned(schedule: NestSchedule, item: Operation) -> frozenset[str]:
    """The axes that an item and its inputs scan in chunks: only one of them can be a nest's innermost."""
    analysis = schedule.analysis
    if not analysis.scans:
        return frozenset()
    items = [item, *slice_for(schedule, _inputs_of(schedule, item))]
    return frozenset(op.axis.data for op in items if isinstance(op, ScanOp | ScanByOp)) & analysis.chunked


def _depends(schedule: NestSchedule, item: Operation, nest: Nest) -> bool:
    """Whether an item or its inputs conflict with memory or homes that a nest writes or reads."""
    analysis = schedule.analysis
    inputs = [item, *slice_for(schedule, _inputs_of(schedule, item))]
    mine = [access for op in inputs for access in analysis.accesses(op)]
    theirs = [access for op in nest.effects for access in analysis.accesses(op)]
    theirs += [a for op in slice_for(schedule, nest.roots()) for a in analysis.accesses(op) if not a.writes]
    homed = {home for _, home in nest.stores}
    used = {schedule.home_of(analysis.source(v)) for op in inputs for v in _inputs_of(schedule, op)}
    return bool(homed & used) or any(clash(one, other) for one in mine for other in theirs)


def slice_for(schedule: NestSchedule, values: Iterable[SSAValue]) -> list[Operation]:
    """The items that a nest computes, from values in registers and in homes."""
    shares, homes = schedule.shares, schedule.homes
    return schedule.analysis.in_chunks(values, lambda value: shares.get(value, value) in homes)


def _ordered(schedule: NestSchedule, nest: Nest, plan: Plan) -> tuple[str, ...]:
    """Loop order: outermost the few axes of the results of inner reductions; innermost the scanned axis, of
    several that of the scan in most loops."""
    if len(nest.axes) < 2:
        return nest.axes
    analysis = schedule.analysis
    scanned = dict.fromkeys(nest.scanned, 1)
    reduced: dict[str, int] = {}
    for item in slice_for(schedule, nest.roots()):
        if isinstance(item, ScanOp | ScanByOp) and item.axis.data in analysis.chunked:
            scanned[item.axis.data] = max(scanned.get(item.axis.data, 0), len(analysis.chunks(item)))
        elif analysis.is_chunk_reduction(item):
            for result in item.results:
                reduced.update(dict.fromkeys(analysis.chunks_of_value(result), -1))
    declared = list(analysis.axes)

    def rank(axis: str) -> tuple[int, int, bool, int]:
        return scanned.get(axis, 0), reduced.get(axis, 0), axis == plan.lanes, declared.index(axis)

    return tuple(sorted(nest.axes, key=rank))


def _edges_of(schedule: NestSchedule, op: Operation, plan: Plan) -> dict[Operation | Block, list[Nest]]:
    """Initial values are stored before a loop, new ones at the end of its body; a conditional's by each branch."""
    edges: dict[Operation | Block, Sequence[SSAValue]] = {}
    if isinstance(op, RangeOp | scf.WhileOp):
        edges[op] = op.initial if isinstance(op, RangeOp) else op.arguments
        body = op.body.block if isinstance(op, RangeOp) else op.after_region.block
        edges[body] = terminator(body).operands
    elif isinstance(op, scf.IfOp):
        edges.update((block, terminator(block).operands) for region in op.regions for block in region.blocks)
    return {at: _edge(schedule, zip(values, op.results, strict=True), plan) for at, values in edges.items()}


def _edge(schedule: NestSchedule, pairs: Iterable[tuple[SSAValue, SSAValue]], plan: Plan) -> list[Nest]:
    """Nests that store values into homes, except values that are in their home already.

    A nest that reads a home runs before the nest that writes it.
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
    written = {nest: {home for _, home in nest.stores} for nest in waiting}
    read = {nest: homes_read(schedule, nest) for nest in waiting if len(waiting) > 1}
    while waiting:
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
    """The homes that a nest loads from, including those of its reductions' loops."""
    analysis = schedule.analysis
    values = [*nest.roots(), *(value for item in all_items(schedule, nest) for value in analysis.inputs(item))]
    homes = {schedule.home_of(analysis.source(value)) for value in values}
    return {home for home in homes if home is not None}


def all_items(schedule: NestSchedule, nest: Nest) -> list[Operation]:
    """The items of a nest, including those of reductions in loops of their own."""
    found: dict[Operation, None] = {}
    todo = slice_for(schedule, nest.roots())
    while todo:
        item = todo.pop()
        if item not in found:
            found[item] = None
            if schedule.analysis.is_chunk_reduction(item):
                todo += slice_for(schedule, iter(item.operands))
    return list(found)


def in_order(
    schedule: NestSchedule, block: Block | None = None, around: tuple[Operation, ...] = ()
) -> Iterator[tuple[Operation | Block, Nest, tuple[Operation, ...]]]:
    """Every nest of a block or the kernel in execution order, with its owner and the structures around it."""
    block = schedule.analysis.kernel.body.block if block is None else block
    for op in block.ops:
        nests = schedule.nests[op] if isinstance(op, PhaseOp) else schedule.edges.get(op, ())
        yield from ((op, nest, around) for nest in nests)
        regions = op.regions if schedule.analysis.is_structural(op) else ()
        for inner in (inner for region in regions for inner in region.blocks):
            yield from in_order(schedule, inner, (*around, op))
    yield from ((block, nest, around) for nest in schedule.edges.get(block, ()))
