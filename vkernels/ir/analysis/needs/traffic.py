"""What phases move and compute, in total over all programs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from xdsl.dialects.builtin import TensorType, i8
from xdsl.ir import Operation, OpResult, SSAValue

from ...dialect import (
    AccessOp,
    BelowOp,
    BroadcastOp,
    DotOp,
    PhaseOp,
    PositionOp,
    ScanByOp,
    ScratchOp,
    TensorArgumentType,
    WriteOp,
    arith,
    axes_of,
    element_of,
)
from ...dialect.blocks import terminator
from ...dialect.scans import body_operations
from ..scaled_operands import scaled_sides
from .algebra import ONE, ZERO, Expr, either, fits, least, most, number, pieces, product, symbol, total
from .flow import Flow, axes_touched, trips_of
from .records import SUMS
from .spaces import element_in, width

CACHE_SECTOR = 32
"""The smallest number of bytes that a cache moves: shorter contiguous runs waste the rest."""
LEAST_SIDE = 16
"""The fewest elements of each side of a dot on tensor cores (`ir/lowering/ttir/dots.py`); see `least_depth`."""

UNCOUNTED_OPERATIONS = (BroadcastOp, PositionOp, BelowOp, arith.ConstantOp, AccessOp, ScratchOp)
OPERATION_COUNTS = {
    "arith.divf": 8, "arith.divsi": 16, "arith.remsi": 16, "arith.divui": 16, "arith.remui": 16,
    "math.exp": 8, "math.exp2": 4, "math.log": 12,
    "math.sqrt": 8, "math.rsqrt": 8, "math.tanh": 16, "math.erf": 16, "math.sin": 16, "math.cos": 16, "math.powf": 24,
    "vk.scan": 2,
}  # fmt: skip
"""How many plain sums or products take about as long, by the polynomials of `expand-math`. Others count as 1."""

SourceOf = Callable[[SSAValue], SSAValue]
TrafficTerms = dict[str, list[Expr]]
"""The terms of each sum, by its name in `PhaseQuantities`."""


def traffic_of(flow: Flow, phase: PhaseOp) -> dict[str, Expr]:
    """What a phase moves and computes: its members as often as the loops around it run."""
    found: TrafficTerms = defaultdict(list)
    flow, trips = flow.in_launch_of(phase), flow.trips(phase)
    for item, weight in flow.members[phase].items():
        for op, times in walk(item, weight * trips):
            _count(flow, found, op, times)
    _count_homes(flow, found, phase, trips)
    return {name: total(found[name]) for name in SUMS}


def walk(op: Operation, times: Expr) -> Iterator[tuple[Operation, Expr]]:
    """An operation and those in its regions, each with how often it runs."""
    yield op, times
    inside = times * trips_of(op)
    for inner in (inner for region in op.regions for block in region.blocks for inner in block.ops):
        yield from walk(inner, inside)


def _count(flow: Flow, found: TrafficTerms, op: Operation, times: Expr) -> None:
    if (dot := flow.scaled.dots.get(op)) is not None:
        inside = on_tensor_cores(flow, dot)
        if op in flow.scaled.scales:  # one a block
            times *= 1 - inside + inside / number(flow.scaled.scales[op])
        elif not isinstance(op, AccessOp):
            times *= 1 - inside
    if isinstance(op, AccessOp):
        _count_access(flow, found, op, times)
    elif isinstance(op, DotOp):
        count = 2 * times * elements(flow, axes_touched(op))
        inside = on_tensor_cores(flow, op)
        found["tensor_operations"].append(count * inside)
        found["operations"].append(count * (1 - inside))
    elif isinstance(op, ScanByOp):
        each = sum(OPERATION_COUNTS.get(inner.name, 1) for inner in body_operations(op))
        found["operations"].append(2 * each * times * elements(flow, axes_touched(op)))
    elif not isinstance(op, UNCOUNTED_OPERATIONS) and not op.regions and axes_touched(op):
        found["operations"].append(OPERATION_COUNTS.get(op.name, 1) * times * elements(flow, axes_touched(op)))


def elements(flow: Flow, axes: tuple[str, ...], exact: bool = False) -> Expr:
    """Elements of a tile in all programs and chunks, including those out of range unless `exact`.

    Every program of the launch repeats what does not depend on its tile axes or on a split axis.
    """
    factors = []
    for name, axis in flow.analysis.axes.items():
        size, extent = flow.sizes[name], flow.extents[name]
        count = pieces(extent, size)
        if name in axes:
            factors.append(extent if exact else count * size)
        elif axis.is_tile:
            factors += [count] if name in flow.tiles else []
        else:
            factors.append(symbol(f"split.{name}"))
    return product(factors)


def is_a_dot(flow: Flow, op: DotOp) -> Expr:
    """1 where a dot is large enough for Triton's dot; smaller ones multiply and add."""
    if operand_bytes(op) > 4:
        return ZERO
    left, right, axis = set(axes_of(op.left)), set(axes_of(op.right)), op.axis.data
    sides = [product(flow.sizes[a] for a in side) for side in (sorted(left - right), sorted(right - left))]
    scaled = scaled_sides(op)  # whole instructions of mxfp8 are as long as those of fp4
    depth = number(least_depth(operand_bytes(op)) * (2 if scaled and not scaled[0].half else 1))
    return product([*(fits(side, number(LEAST_SIDE)) for side in sides), fits(flow.sizes[axis], depth)])


def least_depth(operand_bytes: int) -> int:
    """The fewest elements of the contracted axis that tensor cores take: 32 of one byte, else as of other sides."""
    return 2 * LEAST_SIDE if operand_bytes == 1 else LEAST_SIDE


def on_tensor_cores(flow: Flow, op: DotOp) -> Expr:
    """1 where a dot is on tensor cores, which do not take exact f32: homes keep what was extended to that."""
    is_exact = op.precision.data == "ieee"
    if operand_bytes(op) == 4 and is_exact:
        return ZERO
    found = is_a_dot(flow, op) * symbol("device.tensor_cores")
    for value in map(yielded, (op.left, op.right)) if is_exact else ():
        if value in flow.crossing and narrow(value) is not value:
            found = found * (1 - flow.chunked(value) * flow.has_home(value))
    return found


def yielded(value: SSAValue) -> SSAValue:
    """The value that a phase yields for its result; of another value, the value itself."""
    while isinstance(value, OpResult) and isinstance(value.op, PhaseOp):
        value = terminator(value.op.body.block).operands[value.index]
    return value


def operand_bytes(op: DotOp, source: SourceOf = yielded) -> int:
    """Bytes of an element of a dot's operands, before it was extended."""
    return max(width(taken(op, value, source).type) for value in (op.left, op.right))


def taken(op: DotOp, side: SSAValue, source: SourceOf = yielded) -> SSAValue:
    """What tensor cores take for a side of a dot: a scaled operand as memory holds it, or a value before it was
    extended."""
    sides = scaled_sides(op)
    if sides is None:
        return narrow(side, source)
    return sides[0 if side is op.left else 1].source


def narrow(value: SSAValue, source: SourceOf = yielded) -> SSAValue:
    """A value before it was extended, as tensor cores take it. `source`: where a phase's result comes from."""
    owner = source(value).owner
    if isinstance(owner, arith.ExtUIOp):
        return source(owner.input) if element_of(owner.input) == i8 else source(value)
    return source(owner.operands[0]) if isinstance(owner, arith.ExtFOp | arith.ExtSIOp) else source(value)


def _count_access(flow: Flow, found: TrafficTerms, op: AccessOp, times: Expr) -> None:
    moved = times * width(element_in(op.base)) * elements(flow, axes_of(op.tile), exact=True)
    if isinstance(op.base.type, TensorArgumentType):
        writes = isinstance(op, WriteOp)
        found["global_write_bytes" if writes else "global_read_bytes"].append(moved * _sector_waste(flow, op))
    else:
        in_memory = symbol(f"memory.{op.base.name_hint or 'scratch'}")
        found["shared_bytes_moved"].append(moved * (1 - in_memory))
        found["swap_bytes_moved"].append(moved * in_memory)


def _sector_waste(flow: Flow, op: AccessOp) -> Expr:
    """How many times its elements an access of a tensor moves, because cache sectors hold more than short runs."""
    if not len(op.index):
        return ONE
    last, size = op.index.data[-1], width(element_in(op.base))
    side = [axis for axis, coefficient in last.terms if coefficient == 1 and axis in axes_of(op.tile)]
    offset = op.offset_of(len(op.index) - 1)
    run = ONE if isinstance(getattr(offset, "type", None), TensorType) else product(flow.sizes[a] for a in side[:1])
    name = op.base.name_hint or ""
    elements = number(CACHE_SECTOR // size)
    skipped = [abs(coefficient) for axis, coefficient in last.terms if axis in axes_of(op.tile)]
    if not side and skipped and not isinstance(getattr(offset, "type", None), TensorType):  # x[2 * i]
        return least((number(min(skipped)), elements))
    return most((ONE, (1 - symbol(f"packed.{name}")) * elements / least((run, elements))))


def _count_homes(flow: Flow, found: TrafficTerms, phase: PhaseOp, trips: Expr) -> None:
    """Values with a home in shared memory or swap space: stored where they are computed, loaded where they are used."""
    members, of = flow.members[phase], flow.analysis.phase
    for value, label in flow.crossing.items():
        made = flow.analysis.phase_of(value)
        used = [members[user] for user, _ in flow.users(value) if user in members and of[user] is not made]
        for move in [*([ONE] if made is phase else []), *([either(used)] if used else [])]:
            count = move * trips * width(value.type) * elements(flow, axes_of(value)) * flow.chunked(value)
            found["shared_bytes_moved"].append(count * symbol(f"shared.{label}"))
            found["swap_bytes_moved"].append(count * symbol(f"memory.{label}"))
    for value, axis in flow.homed.items():  # each chunk along the axis is added to all of it
        label, (at, goes) = flow.crossing[value], flow.moved[value.owner]  # type: ignore[index]
        if at is phase:
            updates = 2 * pieces(flow.extents[axis], flow.sizes[axis]) * elements(flow, axes_of(value))
            count = goes * trips * width(value.type) * updates * flow.chunked(value)
            found["shared_bytes_moved"].append(count * symbol(f"shared.{label}"))
            found["swap_bytes_moved"].append(count * symbol(f"memory.{label}"))


def distinct_reads(flow: Flow) -> Expr:
    """Bytes of all tensors that are read, each element once."""
    types = {
        op.base: op.base.type
        for op in flow.kernel.walk()
        if isinstance(op, AccessOp) and isinstance(op.base.type, TensorArgumentType)
        and not isinstance(op, WriteOp)
    }  # fmt: skip
    return total(
        product([number(width(type_.element)), *(symbol(d) if isinstance(d, str) else number(d) for d in type_.shape)])
        for type_ in types.values()
    )
