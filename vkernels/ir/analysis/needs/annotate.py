"""From a kernel in phases to its needs."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from ...dialect import (
    SCANS,
    DotOp,
    KernelOp,
    PhaseOp,
    ReductionOp,
    ScanByOp,
    ScratchOp,
    axes_of,
)
from ...errors import PlanError
from ...facts import Facts
from ...plan import Home, Plan
from ..accesses import has_effect
from ..k_major import Contracted, contracted_by_dots
from ..launch_axes import launch_axes
from ..packable import packable_places
from ..parallel_axes import parallel_axes
from ..schedule.find_copies import find_copies
from ..schedule.make_schedule import make_schedule
from ..split_scans import scans_by_depth
from .algebra import ONE, ZERO, Expr, fits, most, number, symbol
from .flow import Flow, read_flow
from .needs import Needs
from .records import AxisNeed, Crossing, Dot, PhaseNeeds, Scratchpad
from .registers import PERSISTENT, STAGES, TENSOR_MEMORY, address_registers, by_four_warps, dot_bytes, live_bytes
from .shared import scratch_bytes, shared_bytes
from .spaces import THREADS, Spaces, spaces_of, width
from .traffic import distinct_reads, on_tensor_cores, traffic_of, walk


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
        tuple(_dot(op) for op in kernel.walk() if isinstance(op, DotOp)),
        _packable(flow),
        _contracted(flow),
        _splittable(flow),
        _scanned(kernel),
        launch_axes(kernel),
        parallel_axes(kernel),
        scratch,
        swap,
        distinct_reads(flow),
    )


def _phase(flow: Flow, spaces: Spaces, phase: PhaseOp) -> PhaseNeeds:
    alive, waiting = live_bytes(flow, spaces, phase)
    addresses = symbol("fit.address") * address_registers(flow, spaces, phase)
    base, slope = symbol("fit.base"), symbol("fit.alive") / 4
    axes = {axis for op in phase.body.block.ops for axis in flow.analysis.axes if axis in _axes_in(op)}
    has_dots = any(isinstance(op, DotOp) for item in flow.members[phase] for op in item.walk())
    if has_dots:
        addresses = addresses + symbol("fit.going_on") * PERSISTENT * fits(STAGES, number(2))
    return PhaseNeeds(
        phase.phase.data,
        register_bytes=THREADS * alive,
        registers_a_thread=base + slope * alive + addresses,
        shared_bytes=shared_bytes(flow, spaces, phase),
        tensor_memory_columns=_tensor_memory(flow, phase),
        registers_at_least=base + slope * waiting + (addresses if waiting is alive else ZERO),
        axes=tuple(axis for axis in flow.analysis.axes if axis in axes),
        **traffic_of(flow, phase),
    )


def _axes_in(op: Operation) -> set[str]:
    return {axis for inner in op.walk() for value in (*inner.operands, *inner.results) for axis in axes_of(value)}


def _tensor_memory(flow: Flow, phase: PhaseOp) -> Expr:
    """Columns of 128 rows of 4 bytes."""
    columns = [
        on_tensor_cores(flow, op) * by_four_warps(flow, op) * TENSOR_MEMORY * dot_bytes(flow, op) * THREADS / 512
        for item in flow.members[phase]
        for op, _ in walk(item, ONE)
        if isinstance(op, DotOp)
    ]
    return most(columns)


# What a planner decides


def _crossing(flow: Flow) -> list[Crossing]:
    forced = _forced(flow, ())
    carried = {r for op in flow.analysis.structures if not isinstance(op, PhaseOp) for r in op.results}
    copyable = tuple(pad.label for pad in _scratchpads(flow) if pad.can_copy)
    freed = forced - _forced(flow, copyable) if forced and copyable else set()
    found = []
    for value, label in flow.crossing.items():
        homes: tuple[Home, ...] = (Home.MEMORY, Home.SHARED)
        if value not in forced and value not in carried:
            homes = (Home.RECOMPUTE, Home.SHARED, Home.MEMORY)
        made = flow.analysis.phase_of(value)
        used = dict.fromkeys(flow.analysis.phase[user].phase.data for user, crosses in flow.users(value) if crosses)
        found.append(
            Crossing(
                label, axes_of(value), tuple(a for a in axes_of(value) if not flow.analysis.axes[a].is_tile),
                width(value.type), homes, made.phase.data if made else "", tuple(used),
                copyable if value in freed else (), flow.homed.get(value, ""),
            )
        )  # fmt: skip
    return found


def _forced(flow: Flow, copies: tuple[str, ...]) -> set[SSAValue]:
    """Values that cannot be recomputed if these scratchpads have two copies."""
    plan = Plan(copies=copies)
    try:
        return set(make_schedule(flow.analysis, plan, Facts(distinct=True), find_copies(flow.analysis, plan)).homes)
    except PlanError:
        return set()


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


def _dot(op: DotOp) -> Dot:
    left, right, axis = axes_of(op.left), axes_of(op.right), op.axis.data
    batch = tuple(a for a in left if a in right and a != axis)
    return Dot(batch, tuple(a for a in left if a not in right), tuple(a for a in right if a not in left), axis)


def _packable(flow: Flow) -> dict[str, tuple[tuple[tuple[str, ...], str], ...]]:
    """Tensors that can be packed, with the tile axes and the whole axis of each place (`apply_plan/packs.py`)."""
    found = {}
    for name, argument in zip(flow.kernel.parameters, flow.kernel.body.block.args, strict=True):
        try:
            places = packable_places(name.data, argument, lambda axis: flow.analysis.axes[axis].is_tile)
        except PlanError:
            continue
        found[name.data] = tuple((place.tiles, place.whole) for place in places)
    return found


def _contracted(flow: Flow) -> dict[str, Contracted]:
    """Tensors that dots alone take, along a whole axis (`apply_plan/k_major.py`)."""
    tensors = zip(flow.kernel.parameters, flow.kernel.body.block.args, strict=True)
    found = {name.data: contracted_by_dots(tensor) for name, tensor in tensors}
    axes = flow.analysis.axes
    return {name: each for name, each in found.items() if each is not None and not axes[each.axis].is_tile}


def _splittable(flow: Flow) -> dict[str, tuple[bool, ...]]:
    """Whole axes that programs may share: for each launch, whether programs share it (`apply_plan/split_axes.py`)."""
    if any(not isinstance(op, PhaseOp) for op in flow.analysis.structures) or _scratchpads(flow):
        return {}
    found = {}
    for axis in flow.analysis.axes.values():
        scans = [group for group, _ in scans_by_depth(flow.kernel, axis.name)]
        if axis.is_tile or not all(_starts_anywhere(flow, op) for group in scans for op in group):
            continue
        along = [[axis.name in _axes_in(op) for op in phase.body.block.ops if _counts(op)] for phase in flow.phases]
        shared = tuple(shares for phase in along for shares in (True, False) if shares in phase)
        found[axis.name] = (*[True] * len(scans), *shared)
    return found


def _scanned(kernel: KernelOp) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for op in kernel.walk():
        if isinstance(op, SCANS):
            found[op.axis.data] = found.get(op.axis.data, False) or isinstance(op, ScanByOp)
    return found


def _starts_anywhere(flow: Flow, op: Operation) -> bool:
    """Whether parts of a scan can be scanned apart: nothing else goes chunk by chunk beside it, or repeats it."""
    return op in flow.analysis.phase and len(flow.analysis.chunks(op)) == 1


def _counts(op: Operation) -> bool:
    return isinstance(op, ReductionOp | DotOp) or has_effect(op)
