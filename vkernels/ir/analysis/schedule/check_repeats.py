"""Check that values may be recomputed: loads that a nest repeats must find the values of the kernel as written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.ir import Block, Operation, SSAValue

from ...dialect import DotOp, PhaseOp, ReductionOp, ScanByOp, ScanOp, TensorArgumentType
from ...errors import PlanError
from ...facts import Facts
from ...locations import place_of
from ..accesses import MemoryAccess, may_alias
from ..kernel_analysis import Computed, KernelAnalysis
from ..meeting import elementwise, fixed_axes, never_meet
from .nests import Nest, NestSchedule, in_order, label_of


@dataclass(frozen=True, eq=False)
class _Write:
    access: MemoryAccess
    nest: Nest | None
    order: float
    position: int
    around: tuple[Operation, ...]


def first_wrong(schedule: NestSchedule, facts: Facts) -> SSAValue | None:
    """A value that must have a home, because recomputing it where it is used would read overwritten memory."""
    analysis = schedule.analysis
    nests = list(in_order(schedule))
    order = {nest: number for number, (_, nest, _) in enumerate(nests)}
    writes: list[_Write] = []
    for owner, nest, around in nests:
        paths = list(_paths(schedule, nest))
        for check in (_first_inner_home, _first_misplaced_scan, _first_misplaced_reduction):
            if (cut := check(schedule, nest, paths)) is not None:
                return cut
        for path in paths:
            for load in analysis.overwritten(path.item, facts.distinct):
                writes = writes or list(_writes(schedule, nests, order))
                for write in writes:
                    if not may_alias(write.access, load, facts.distinct):
                        continue
                    between = _comes_between(schedule, write, load, path, nest, order[nest], around)
                    between = between or _programs_meet(analysis, write.access, load, owner)
                    if between and not never_meet(write.access, load):  # which takes longest to tell
                        return _cut(schedule, path, load, write)
    return None


_Placed = tuple[Operation | Block, Nest, tuple[Operation, ...]]
"""A nest, what it belongs to, and the structural operations around it."""


def _writes(schedule: NestSchedule, nests: list[_Placed], order: dict[Nest, int]) -> Iterator[_Write]:
    analysis = schedule.analysis
    nest_of = {op: nest for _, nest, _ in nests for op in nest.effects}
    for item, phase in analysis.phase.items():
        if analysis.has_effect(item):
            nest = nest_of.get(item)
            at = order[nest] if nest is not None else _before(schedule, phase, nests, order)
            for access in (access for access in analysis.accesses(item) if access.writes):
                yield _Write(access, nest, at, analysis.position[item], analysis.structures[phase])


def _before(schedule: NestSchedule, phase: PhaseOp, nests: list[_Placed], order: dict[Nest, int]) -> float:
    """The order of a phase's work before its first nest: after every nest of earlier phases."""
    position = schedule.analysis.position
    earlier = [order[nest] for key, nest, _ in nests if isinstance(key, PhaseOp) and position[key] < position[phase]]
    return max(earlier, default=-1) + 0.5


@dataclass(frozen=True, eq=False)
class _Path:
    """Why a nest computes an item: for which crossing value, inside which reduction's loop, in which loops."""

    item: Operation
    through: SSAValue | None
    inner: Operation | None
    loops: tuple[str, ...]


def _cut(schedule: NestSchedule, path: _Path, load: MemoryAccess, write: _Write) -> SSAValue:
    """The value to give a home, so that a load is not repeated after a write."""
    for value in (path.through, *path.item.results):
        if value is not None and value not in schedule.homes and schedule.analysis.chunks_of_value(value):
            return value
    read, written = label_of(load.base), label_of(write.access.base)
    message = f"{written} may be the same tensor as {read}, and is written before {read} is read everywhere"
    if read == written:
        message = f"{read} is written before it is read everywhere under this plan; larger chunks may help"
    raise PlanError(message, place_of(write.access.op))


def _paths(schedule: NestSchedule, nest: Nest) -> Iterator[_Path]:
    """Every item that a nest computes, inner reductions' loops included."""
    analysis = schedule.analysis
    seen: set[int] = set()
    todo: list[tuple[Computed, SSAValue | None, Operation | None, tuple[str, ...]]]
    todo = [(each, None, None, nest.axes) for each in analysis.computed(nest.roots())]
    stored = {value for value, home in nest.stores if value is home}
    while todo:
        (value, item, position, crosses), through, inner, loops = todo.pop()
        if position in seen or (schedule.home_of(value) is not None and value not in stored):
            continue
        through = value if crosses else through
        seen.add(position)
        yield _Path(item, through, inner, loops)
        if analysis.is_chunk_reduction(item):
            inner, loops = item, _loops_of_reduction(analysis, item, loops)
        inputs = analysis.computed_inputs(item, position, through_reductions=True)
        todo += [(each, through, inner, loops) for each in inputs]
    for op in nest.effects:
        if any(not access.writes for access in analysis.accesses(op)):
            yield _Path(op, None, None, nest.axes)


def _loops_of_reduction(analysis: KernelAnalysis, op: ReductionOp | DotOp, loops: tuple[str, ...]) -> tuple[str, ...]:
    """The loops around the operands of a reduction: those open loops that its result needs, and its own."""
    axis = op.axis.data
    kept = analysis.chunks(op) - {axis}
    count = max((number + 1 for number, name in enumerate(loops) if name in kept), default=0)
    return (*loops[:count], axis)


def _first_misplaced_scan(schedule: NestSchedule, nest: Nest, paths: list[_Path]) -> SSAValue | None:
    """A scan along another axis than the innermost loop that it needs, so that it could not carry its result; where
    the nest stores that in its home, one that it reads along another axis."""
    analysis = schedule.analysis
    if not analysis.scans:
        return None
    scans = [path for path in paths if isinstance(path.item, ScanOp | ScanByOp)]
    for path in scans:
        along = _axis_scanned(path.item)
        if along not in analysis.chunked:
            continue
        needed = [axis for axis in path.loops if axis in analysis.chunks(path.item)]
        if needed[-1] != along:
            others = [other.item for other in scans if _axis_scanned(other.item) in analysis.chunked - {along}]
            missing = [result for op in (path.item, *others) for result in op.results if result not in schedule.homes]
            if not missing:
                raise PlanError(
                    f"{label_of(path.item.results[0])} cannot be scanned in chunks of {needed[-1]}",
                    place_of(path.item),
                    help=f"Hold all of `{needed[-1]}` in one chunk.",
                )
            return missing[0]
    return None


def _axis_scanned(op: Operation) -> str:
    assert isinstance(op, ScanOp | ScanByOp)
    return op.axis.data


def _first_misplaced_reduction(schedule: NestSchedule, nest: Nest, paths: list[_Path]) -> SSAValue | None:
    """A reduction that would be recomputed inside a loop over its own axis, where only one chunk is available."""
    for path in paths:
        if schedule.analysis.is_chunk_reduction(path.item):
            *around, axis = _loops_of_reduction(schedule.analysis, path.item, path.loops)
            if axis in around:
                return path.item.results[0]
    return None


def _first_inner_home(schedule: NestSchedule, nest: Nest, paths: list[_Path]) -> SSAValue | None:
    """A reduction that would read, in a loop of its own, a home that the same nest overwrites."""
    written = {home for _, home in nest.stores}
    for path in paths if written else ():
        within = path.item if schedule.analysis.is_chunk_reduction(path.item) else path.inner
        if within is not None:
            homes = {schedule.home_of(schedule.analysis.source(v)) for v in schedule.analysis.inputs(path.item)}
            if homes & written and within.results[0] not in schedule.homes:
                return within.results[0]
    return None


def _comes_between(
    schedule: NestSchedule,
    write: _Write,
    load: MemoryAccess,
    path: _Path,
    nest: Nest,
    at: int,
    around: tuple[Operation, ...],
) -> bool:
    """Whether a write to memory that a load in a nest may find comes before it instead of after, or the reverse."""
    analysis = schedule.analysis
    home = analysis.structures[analysis.phase[path.item]] if path.item in analysis.phase else ()
    swap = schedule.copies.get(load.base)
    if swap is not None and swap in write.around and swap in home and swap in around:
        return False  # reads find the old copy, writes go to the new one
    if write.nest is nest:
        return path.inner is not None or not elementwise(write.access, load)
    if any(op in around and op not in home for op in write.around):
        return True  # an earlier iteration of a loop that the load is not part of
    return (analysis.position[path.item] < write.position) == (write.order < at)


def _programs_meet(analysis: KernelAnalysis, write: MemoryAccess, load: MemoryAccess, owner: Operation | Block) -> bool:
    """Whether a load from before all programs waited would be repeated among writes of other programs to its place.

    Within a step of programs, `find_races` has ruled that out. `owner`: what the repeating nest belongs to.
    """
    step = analysis.step_of(write.op)
    op = owner.parent_op() if isinstance(owner, Block) else owner
    if analysis.step_of(load.op) == step or op is None or analysis.step_of(op) != step:
        return False
    if not isinstance(load.base.type, TensorArgumentType):
        return False  # scratchpad, of which each program has its own
    fixed = fixed_axes(write, load)
    shared = [axis.name for axis in analysis.axes.values() if axis.is_tile and not axis.has_one_program]
    return fixed is not None and not fixed.issuperset(shared)
