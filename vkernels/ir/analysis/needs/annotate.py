"""From a kernel in phases to its needs."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from ...dialect import DotOp, KernelOp, LoadOp, PhaseOp, ReductionOp, ScanOp, ScratchOp, TensorArgumentType, axes_of
from ...errors import PlanError
from ...facts import Facts
from ...plan import Home, Plan
from ..effects import EFFECTS
from ..schedule.find_copies import find_copies
from ..schedule.make_schedule import make_schedule
from .algebra import ONE, ZERO, Expr, most, symbol, total
from .flow import Flow, read_flow
from .kinds import AxisNeed, Crossing, Dot, PhaseNeeds, Reduction, Scratchpad
from .needs import Needs
from .registers import TENSOR_MEMORY, address_registers, by_four_warps, dot_bytes, live_bytes
from .shared import scratch_bytes, shared_bytes
from .spaces import THREADS, Spaces, spaces_of, width
from .traffic import TrafficTerms, count_item, distinct_reads, on_tensor_cores, operand_bytes, traffic_of, walk


def needs_of(kernel: KernelOp) -> Needs:
    """The needs of a kernel that is split into phases. Raises `UnsupportedError` where they cannot be read."""
    flow = read_flow(kernel)
    spaces = spaces_of(kernel, flow.sizes)
    scratch, swap = scratch_bytes(flow)
    return Needs(
        kernel.sym_name.data,
        tuple(AxisNeed(a.name, a.is_tile, flow.extents[a.name]) for a in flow.analysis.axes.values()),
        tuple(_phase(flow, spaces, phase) for phase in flow.phases),
        tuple(_crossing(flow)),
        tuple(_scratchpads(flow)),
        tuple(_dot(flow, op) for op in kernel.walk() if isinstance(op, DotOp)),
        tuple(_reduction(flow, op) for op in kernel.walk() if isinstance(op, ReductionOp | ScanOp)),
        _packable(flow),
        _splittable(flow),
        scratch,
        swap,
        distinct_reads(flow),
    )


def _phase(flow: Flow, spaces: Spaces, phase: PhaseOp) -> PhaseNeeds:
    traffic = traffic_of(flow, phase)
    alive, waiting = live_bytes(flow, spaces, phase)
    addresses = symbol("fit.address") * address_registers(flow, spaces, phase)
    base, slope = symbol("fit.base"), symbol("fit.alive") / 4
    axes = {axis for op in phase.body.block.ops for axis in flow.analysis.axes if axis in _axes_in(op)}
    return PhaseNeeds(
        phase.phase.data,
        tuple(axis for axis in flow.analysis.axes if axis in axes),
        register_bytes=THREADS * alive,
        registers_a_thread=base + slope * alive + addresses,
        shared_bytes=shared_bytes(flow, spaces, phase),
        tensor_memory_columns=_tensor_memory(flow, phase),
        global_read_bytes=total(traffic.reads),
        global_write_bytes=total(traffic.writes),
        shared_bytes_moved=total(traffic.shared),
        swap_bytes_moved=total(traffic.swap),
        operations=total(traffic.operations),
        tensor_operations=total(traffic.tensor_operations),
        registers_at_least=base + slope * waiting + (addresses if waiting is alive else ZERO),
    )


def _axes_in(op: Operation) -> set[str]:
    inner = [op, *(x for region in op.regions for x in region.walk())]
    return {axis for x in inner for value in (*x.operands, *x.results) for axis in axes_of(value)}


def _tensor_memory(flow: Flow, phase: PhaseOp) -> Expr:
    """Columns of 128 rows of 4 bytes."""
    columns = [
        on_tensor_cores(flow, op) * by_four_warps(flow, op) * TENSOR_MEMORY * dot_bytes(flow, op) * THREADS / 512
        for item in flow.members[phase]
        for op, _ in walk(flow, item, ONE)
        if isinstance(op, DotOp)
    ]
    return most(columns)


# What a planner decides


def _crossing(flow: Flow) -> list[Crossing]:
    forced, carried = _forced(flow, ()), _carried(flow)
    copyable = tuple(pad.label for pad in _scratchpads(flow) if pad.can_copy)
    freed = forced - _forced(flow, copyable) if forced and copyable else set()
    found = []
    for value, label in flow.crossing.items():
        homes = (Home.MEMORY, Home.SHARED)
        if value not in forced and value not in carried:
            homes = (Home.RECOMPUTE, Home.SHARED, Home.MEMORY)  # type: ignore[assignment]
        operations, reads = _cost(flow, value)
        used = dict.fromkeys(flow.analysis.phase[user].phase.data for user, crosses in flow.users(value) if crosses)
        found.append(
            Crossing(
                label, axes_of(value), tuple(a for a in axes_of(value) if not flow.analysis.axes[a].is_tile),
                width(value.type), homes, _made_in(flow, value), tuple(used), operations, reads,
                copyable if value in freed else (),
            )
        )  # fmt: skip
    return found


def _made_in(flow: Flow, value: SSAValue) -> str:
    phase = flow.analysis.phase.get(value.owner) if isinstance(value.owner, Operation) else None
    return phase.phase.data if phase is not None else ""


def _forced(flow: Flow, copies: tuple[str, ...]) -> set[SSAValue]:
    """Values that computing again would get wrong, where some scratchpads have two copies."""
    plan = Plan(copies=copies)
    try:
        return set(make_schedule(flow.analysis, plan, Facts(distinct=True), find_copies(flow.analysis, plan)).homes)
    except PlanError:
        return set()


def _carried(flow: Flow) -> set[SSAValue]:
    return {r for op in flow.analysis.structures if not isinstance(op, PhaseOp) for r in op.results}


def _cost(flow: Flow, value: SSAValue) -> tuple[Expr, Expr]:
    """Operations and bytes read for computing a value again, from what is in registers."""
    cost = TrafficTerms()
    items = flow.analysis.sliced([value], lambda v: not flow.analysis.chunks_of_value(v))
    for item in items:
        count_item(flow, cost, item, ONE)
    return total([*cost.operations, *cost.tensor_operations]), total(cost.reads)


def _scratchpads(flow: Flow) -> list[Scratchpad]:
    return [
        Scratchpad(op.label.data, op.result.type.shape, width(op.result.type.element), _can_copy(flow, op.label.data))
        for op in flow.kernel.body.block.ops
        if isinstance(op, ScratchOp)
    ]  # fmt: skip


def _can_copy(flow: Flow, label: str) -> bool:
    try:
        return bool(find_copies(flow.analysis, Plan(copies=(label,))))
    except PlanError:
        return False


def _phase_name(op: Operation) -> str:
    parent: Operation | None = op
    while parent is not None and not isinstance(parent, PhaseOp):
        parent = parent.parent_op()
    return "" if parent is None else parent.phase.data


def _dot(flow: Flow, op: DotOp) -> Dot:
    left, right, axis = axes_of(op.left), axes_of(op.right), op.axis.data
    return Dot(
        _phase_name(op), tuple(a for a in left if a in right and a != axis), tuple(a for a in left if a not in right),
        tuple(a for a in right if a not in left), axis, operand_bytes(op),
    )  # fmt: skip


def _reduction(flow: Flow, op: ReductionOp | ScanOp) -> Reduction:
    kind = "scan" if isinstance(op, ScanOp) else op.name.removeprefix("vk.")
    return Reduction(_phase_name(op), kind, op.axis.data, axes_of(op.tile), width(op.tile.type))


def _packable(flow: Flow) -> dict[str, tuple[str, str]]:
    """Tensors that are loaded once, at one tile axis and one whole axis: those two (`apply_plan/packs.py`)."""
    found = {}
    for name, argument in zip(flow.kernel.parameters, flow.kernel.body.block.args, strict=True):
        users = [use.operation for use in argument.uses]
        if not isinstance(argument.type, TensorArgumentType) or len(users) != 1 or not isinstance(users[0], LoadOp):
            continue
        load = users[0]
        axes = [index.terms[0][0] for index in load.index if index.terms == ((index.terms or (("", 0),))[0],)]
        plain = all(len(i.terms) == 1 and i.terms[0][1] == 1 for i in load.index) and not load.offsets
        tiles = [a for a in axes if flow.analysis.axes[a].is_tile]
        wholes = [a for a in axes if not flow.analysis.axes[a].is_tile]
        if plain and len(tiles) == len(wholes) == 1 and load.mask is None and not load.within.data:
            found[name.data] = tiles[0], wholes[0]
    return found


def _splittable(flow: Flow) -> dict[str, tuple[bool, ...]]:
    """Whole axes that programs may share, and for each the launches that come of it (`apply_plan/split_axes.py`)."""
    if any(not isinstance(op, PhaseOp) for op in flow.analysis.structures) or list(_scratchpads(flow)):
        return {}
    found = {}
    scanned = {op.axis.data for op in flow.kernel.walk() if isinstance(op, ScanOp)}  # needs all that comes before
    for axis in flow.analysis.axes.values():
        if axis.is_tile or axis.name in scanned:
            continue
        launches: list[bool] = []
        for phase in flow.phases:
            along = [axis.name in _axes_in(op) for op in phase.body.block.ops if _counts(op)]
            launches += [shares for shares in (True, False) if shares in along]
        found[axis.name] = tuple(launches)
    return found


def _counts(op: Operation) -> bool:
    if isinstance(op, ReductionOp | DotOp):
        return True
    return any(isinstance(x, EFFECTS) for x in (op, *(x for region in op.regions for x in region.walk())))
