"""What phases move and compute, all programs together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.dialects.builtin import TensorType, i8
from xdsl.ir import Operation, SSAValue

from ...dialect import (
    AccessOp,
    BelowOp,
    BroadcastOp,
    DotOp,
    PhaseOp,
    PositionOp,
    ScatterOp,
    ScratchOp,
    StoreOp,
    TensorArgumentType,
    arith,
    axes_of,
    element_of,
)
from .algebra import ONE, ZERO, Expr, either, fits, least, most, number, pieces, product, symbol, total
from .flow import Flow, axes_touched
from .spaces import element_in, width

CACHE_SECTOR = 32
"""Bytes that a cache moves at least: of shorter runs side by side, the rest is moved in vain."""
LEAST_SIDE = 16
"""Elements that each side of a dot on tensor cores has at least (`ir/lowering/ttir/dots.py`)."""

UNCOUNTED_OPERATIONS = (BroadcastOp, PositionOp, BelowOp, arith.ConstantOp, AccessOp, ScratchOp)
OPERATION_COUNTS = {
    "arith.divf": 8, "arith.divsi": 16, "arith.remsi": 16, "arith.divui": 16, "arith.remui": 16,
    "math.exp": 8, "math.exp2": 4, "math.log": 12,
    "math.sqrt": 8, "math.rsqrt": 8, "math.tanh": 16, "math.erf": 16, "math.sin": 16, "math.cos": 16, "math.powf": 24,
    "vk.scan": 2,
}  # fmt: skip
"""Plain sums or products that take as long, about: by the polynomials of `expand-math`. Others count as 1."""


@dataclass
class TrafficTerms:
    """Terms of each sum (see `PhaseUse`)."""

    reads: list[Expr] = field(default_factory=list)
    writes: list[Expr] = field(default_factory=list)
    shared: list[Expr] = field(default_factory=list)
    swap: list[Expr] = field(default_factory=list)
    operations: list[Expr] = field(default_factory=list)
    tensor_operations: list[Expr] = field(default_factory=list)


def traffic_of(flow: Flow, phase: PhaseOp) -> TrafficTerms:
    """What a phase moves and does: its members as often as the loops around it run."""
    found = TrafficTerms()
    trips = flow.trips(phase)
    for item, weight in flow.members[phase].items():
        count_item(flow, found, item, weight * trips)
    _count_homes(flow, found, phase, trips)
    return found


def count_item(flow: Flow, found: TrafficTerms, item: Operation, times: Expr) -> None:
    """Add what an item moves and does."""
    for op, often in walk(flow, item, times):
        _count(flow, found, op, often)


def walk(flow: Flow, op: Operation, times: Expr) -> Iterator[tuple[Operation, Expr]]:
    """An operation and those in its regions, each with how often it runs."""
    yield op, times
    inside = times * flow.trips_of(op)
    for region in op.regions:
        for inner in (inner for block in region.blocks for inner in block.ops):
            yield from walk(flow, inner, inside)


def _count(flow: Flow, found: TrafficTerms, op: Operation, times: Expr) -> None:
    if isinstance(op, AccessOp):
        _count_access(flow, found, op, times)
    elif isinstance(op, DotOp):
        count = 2 * times * elements(flow, axes_touched(op))
        inside = on_tensor_cores(flow, op)
        found.tensor_operations.append(count * inside)
        found.operations.append(count * (1 - inside))
    elif not isinstance(op, UNCOUNTED_OPERATIONS) and not op.regions and axes_touched(op):
        found.operations.append(_weight(op) * times * elements(flow, axes_touched(op)))


def _weight(op: Operation) -> int:
    return OPERATION_COUNTS.get(op.name, 1)


def elements(flow: Flow, axes: tuple[str, ...], exact: bool = False) -> Expr:
    """Elements of a tile in all programs and chunks: those in excess too, unless `exact`.

    A program computes for itself what has no part in its tile axes, and in an axis that is split.
    """
    factors = []
    for name, axis in flow.analysis.axes.items():
        size, extent = flow.sizes[name], flow.extents[name]
        count = pieces(extent, size)
        if name in axes:
            factors.append(extent if exact else count * size)
        elif axis.is_tile:
            factors.append(count)
        else:
            factors.append(symbol(f"split.{name}"))
    return product(factors)


def is_a_dot(flow: Flow, op: DotOp) -> Expr:
    """1 where a dot is large enough to be one of Triton's; else it is products that are added up."""
    if operand_bytes(op) > 4:
        return ZERO
    left, right, axis = set(axes_of(op.left)), set(axes_of(op.right)), op.axis.data
    sides = [product(flow.sizes[a] for a in side) for side in (sorted(left - right), sorted(right - left))]
    return product(fits(side, number(LEAST_SIDE)) for side in (*sides, flow.sizes[axis]))


def on_tensor_cores(flow: Flow, op: DotOp) -> Expr:
    """1 where a dot is on tensor cores, which take no f32 as it is."""
    if operand_bytes(op) == 4 and op.precision.data == "ieee":
        return ZERO
    return is_a_dot(flow, op) * symbol("device.tensor_cores")


def operand_bytes(op: DotOp) -> int:
    """Bytes of an element as a dot takes it: before it was extended."""
    return max(width(narrow(value).type) for value in (op.left, op.right))


def narrow(value: SSAValue) -> SSAValue:
    """A value before it was extended: what tensor cores take of it."""
    owner = value.owner
    if isinstance(owner, arith.ExtUIOp):
        return owner.input if element_of(owner.input) == i8 else value
    return owner.operands[0] if isinstance(owner, arith.ExtFOp | arith.ExtSIOp) else value


def _count_access(flow: Flow, found: TrafficTerms, op: AccessOp, times: Expr) -> None:
    moved = times * width(element_in(op.base)) * elements(flow, axes_of(op.tile), exact=True)
    if isinstance(op.base.type, TensorArgumentType):
        writes = isinstance(op, StoreOp | ScatterOp)
        (found.writes if writes else found.reads).append(moved * in_vain(flow, op))
    else:
        label = op.base.name_hint or "scratch"
        in_memory = symbol(f"memory.{label}")
        found.shared.append(moved * (1 - in_memory))
        found.swap.append(moved * in_memory)


def in_vain(flow: Flow, op: AccessOp) -> Expr:
    """How many times more than its elements an access of a tensor moves, where few lie side by side."""
    if not len(op.index):
        return ONE
    last, size = op.index.data[-1], width(element_in(op.base))
    side = [axis for axis, coefficient in last.terms if coefficient == 1 and axis in axes_of(op.tile)]
    offset = op.offset_of(len(op.index) - 1)
    run = ONE if isinstance(getattr(offset, "type", None), TensorType) else product(flow.sizes[a] for a in side[:1])
    name = op.base.name_hint or ""
    elements = number(CACHE_SECTOR // size)
    return most((ONE, (1 - symbol(f"packed.{name}")) * elements / least((run, elements))))


def _count_homes(flow: Flow, found: TrafficTerms, phase: PhaseOp, trips: Expr) -> None:
    """Values that have a home in shared memory or swap space: stored where they are made, loaded where used."""
    members = flow.members[phase]
    for value, label in flow.crossing.items():
        used = [members[user] for user, _ in flow.users(value) if user in members and not _is_made(flow, value, user)]
        moves = list(used[:0])
        if flow.analysis.phase.get(value.owner) is phase:  # type: ignore[arg-type]
            moves.append(ONE)
        if used:
            moves.append(either(used))
        for move in moves:
            count = move * trips * width(value.type) * elements(flow, axes_of(value)) * flow.chunked(value)
            found.shared.append(count * symbol(f"shared.{label}"))
            found.swap.append(count * symbol(f"memory.{label}"))


def _is_made(flow: Flow, value: SSAValue, user: Operation) -> bool:
    """Whether a user is in the phase that makes a value, and so finds it at hand."""
    owner = value.owner
    return isinstance(owner, Operation) and flow.analysis.phase.get(owner) is flow.analysis.phase.get(user)


def distinct_reads(flow: Flow) -> Expr:
    """Bytes of all tensors that are read, each element once."""
    bases = {
        op.base: op
        for op in flow.kernel.walk()
        if isinstance(op, AccessOp) and isinstance(op.base.type, TensorArgumentType)
        and not isinstance(op, StoreOp | ScatterOp)
    }  # fmt: skip
    return total(
        product([number(width(base.type.element)), *(_dimension(d) for d in base.type.shape)])  # type: ignore[attr-defined]
        for base in bases
    )


def _dimension(dimension: str | int) -> Expr:
    return symbol(dimension) if isinstance(dimension, str) else number(dimension)
