"""Registers per thread: the tiles that are alive at the worst point of a phase.

Elementwise work is computed element by element, so only values that must wait count. A value waits from where it is
computed to its last use; loads are issued together, as early as possible; partial results of reductions, accumulators
of dots and values that loops carry wait for as long as their loop runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import BlockArgument, Operation, SSAValue

from ...dialect import (
    SCANS,
    AccessOp,
    BelowOp,
    BroadcastOp,
    DotOp,
    LoadOp,
    PhaseOp,
    PositionOp,
    RangeOp,
    ReductionOp,
    ScanOp,
    TensorArgumentType,
    arith,
    axes_of,
    element_of,
)
from ...dialect.scaled import FLOAT8
from ..ahead import loads_ahead
from ..dot_orientation import LEAST_ROWS, prefers_turned
from .algebra import HALF, ONE, ZERO, Expr, fits, most, number, product, symbol, total
from .along_dots import along_dots
from .flow import Flow
from .spaces import THREADS, WARP, Spaces, contiguous_axis, largest_spaces, space_for, width
from .traffic import is_a_dot, narrow, on_tensor_cores, operand_bytes

BETWEEN = symbol("fit.between")
STAGES, PERSISTENT = symbol("plan.stages"), symbol("plan.persistent")
AHEAD, FROM_SHARED, TENSOR_MEMORY = (
    symbol(f"device.{name}") for name in ("copies_ahead", "dots_from_shared", "tensor_memory")
)
UNROLLED_ITERATIONS, OPERANDS, PIPED_OPERANDS = (symbol(f"fit.{name}") for name in ("unrolled", "operands", "piped"))

_EXTENSIONS = (arith.ExtFOp, arith.ExtSIOp)
"""Conversions of operands of dots that tensor cores take as they were before."""
_NOTHING = (BroadcastOp, PositionOp, BelowOp, arith.ConstantOp)
"""Operations that are repeated where they are used, or share their operand's registers."""


@dataclass(frozen=True)
class LiveRange:
    """Bytes per thread that are alive from one item (its number) to another. `origin`: what computes the value."""

    bytes: Expr
    first: int
    last: int
    origin: Operation
    is_load: bool = False


@dataclass
class _Phase:
    flow: Flow
    spaces: Spaces
    phase: PhaseOp

    def __post_init__(self) -> None:
        self.members = self.flow.members[self.phase]
        self.number = {op: n for n, op in enumerate(self.members)}
        self.largest = largest_spaces(self.members)

    def held(self, value: SSAValue, axes: Iterable[str] | None = None) -> Expr:
        """Bytes per thread of a value, or of a tile of its elements with other axes."""
        if not isinstance(value.type, TensorType) or _is_mask(value):
            return ZERO
        mine = tuple(axes_of(value)) if axes is None else tuple(axes)
        space = space_for(frozenset(mine), self.largest)
        return number(max(width(value.type), 2)) * self.spaces.per_thread(mine, space)

    def held_along_dots(self, value: SSAValue) -> Expr:
        """The same of a value that waits or was loaded, of which a thread needs what its results of a dot do."""
        return along_dots(self.flow, value, self.held(value))


def _is_mask(value: SSAValue) -> bool:
    element = element_of(value)
    return isinstance(element, IntegerType) and element.width.data == 1


def live_bytes(flow: Flow, spaces: Spaces, phase: PhaseOp) -> tuple[Expr, Expr]:
    """Bytes per thread at the worst point of a phase: with the order of compilers that have enough registers, and the
    least in any order. Where no operation needs a whole tile, tiles may be loaded one after another.
    """
    state, spans = _Phase(flow, spaces, phase), live_ranges(flow, spaces, phase)
    alive = _worst(spans)
    needs_whole = any(isinstance(op, ReductionOp | ScanOp | DotOp) or op.regions for op in state.members)
    return alive, alive if needs_whole else _worst(spans, one_load=True)


def live_ranges(flow: Flow, spaces: Spaces, phase: PhaseOp) -> list[LiveRange]:
    """All values that wait in a phase."""
    state = _Phase(flow, spaces, phase)
    return [*_values(state), *_carried(state), *_around(state), *_from_homes(state), *_ahead(state)]


def _worst(spans: list[LiveRange], one_load: bool = False) -> Expr:
    """Bytes at the worst point, but for points at which no more is alive than at another."""
    alive = [
        frozenset(n for n, span in enumerate(spans) if span.first <= point <= span.last)
        for point in sorted({span.first for span in spans})
    ]
    largest = [here for here in dict.fromkeys(alive) if not any(here < other for other in alive)]
    return _worst_of(spans, largest, one_load) if largest else ZERO


def _worst_of(spans: list[LiveRange], alive: list[frozenset[int]], one_load: bool) -> Expr:
    """Bytes at the worst of some points by what is alive there. What is alive at all of them is added once, and what
    is so at half of them: neighbours have most in common, so that expressions stay short."""
    shared = frozenset(n for n in frozenset.intersection(*alive) if not (one_load and spans[n].is_load))
    rest, half = [here - shared for here in alive], len(alive) // 2
    if half:
        worst = most([_worst_of(spans, rest[:half], one_load), _worst_of(spans, rest[half:], one_load)])
    else:
        worst = most(spans[n].bytes for n in sorted(rest[0]))
    return total([*(spans[n].bytes for n in sorted(shared)), worst])


def _values(state: _Phase) -> Iterable[LiveRange]:
    """The results of members. Loads of tensors begin with the first of them; others wait only in part.

    `_around` handles values that stay in registers until a later phase.
    """
    loads = [n for op, n in state.number.items() if _is_load(op)]
    for op, n in state.number.items():
        if isinstance(op, (*_NOTHING, DotOp)):
            continue
        for result in op.results:
            users = _users(state, result)
            last = max((state.number[user] for user in users), default=n)
            first, part = (loads[0], ONE) if _is_load(op) else (n, ONE if isinstance(op, SCANS) else BETWEEN)
            if any(crosses for _, crosses in state.flow.users(result)) and state.flow.analysis.phase[op] is state.phase:
                part = part * state.flow.chunked(result)
            # A result may reuse the register of an operand that dies there, except in a scan, which takes steps.
            weight = state.members[op] * part * _operand_part(state, op, users)
            scanned = any(isinstance(user, SCANS) and state.number[user] == last for user in users)
            held = state.held_along_dots(result) if _is_load(op) else state.held(result)
            yield LiveRange(weight * held, first, last if scanned else max(first, n, last - 1), op, _is_load(op))
        yield from _inside(state, op, n)


def _operand_part(state: _Phase, op: Operation, users: list[Operation]) -> Expr:
    """The part of a value that is in registers: none of a dot's operand on tensor cores that is converted from
    narrower elements, or that loads copy without registers."""
    dots = [user for user in users if isinstance(user, DotOp)]
    scaled = state.flow.scaled
    if op in scaled.dots and (op in scaled.scales or not _is_load(op)):
        return 1 - on_tensor_cores(state.flow, scaled.dots[op])
    if _is_load(op):
        extended = [next(iter(_users(state, u.results[0])), u) for u in users if isinstance(u, _EXTENSIONS)]
        dots = [user for user in (*users, *extended) if isinstance(user, DotOp)]
        dots += [scaled.dots[op]] if op in scaled.dots else []
        if dots:
            piped = fits(STAGES, number(2))
            return 1 - on_tensor_cores(state.flow, dots[0]) * (AHEAD * piped + (1 - piped) * HALF)
    elif (dot := _rescaled_for(op, users)) is not None:
        there = by_four_warps(state.flow, dot) * FROM_SHARED + symbol("device.is_amd")
        return 1 - on_tensor_cores(state.flow, dot) * there
    elif dots and isinstance(op, _EXTENSIONS):  # integers are unpacked in registers, where dots take them from there
        free = ONE if isinstance(op, arith.ExtFOp) else by_four_warps(state.flow, dots[0]) * FROM_SHARED
        return 1 - on_tensor_cores(state.flow, dots[0]) * free
    return ONE


def _rescaled_for(op: Operation, users: list[Operation]) -> DotOp | None:
    """The dot that adds to what an operation makes of a carried value, and of it alone: in the value's registers, which
    are the dot's accumulators."""
    if len(users) != 1 or not isinstance(dot := users[0], DotOp) or dot.sum is not op.results[0]:
        return None
    carried = [each for each in op.operands if isinstance(each, BlockArgument) and each.has_one_use()]
    return dot if any(each.type == dot.sum.type for each in carried) else None


def _inside(state: _Phase, op: Operation, n: int) -> Iterable[LiveRange]:
    """Values that loops inside a member load, for later iterations too, and carry."""
    if op.regions:
        loaded = [state.held(x.results[0]) for x in op.walk() if isinstance(x, AccessOp) and x.results]
        carried = [state.held(a) for x in op.walk() if isinstance(x, RangeOp) for a in x.carried]
        carried += [state.held(v) for x in op.walk() if isinstance(x, scf.WhileOp) for v in x.results]
        found = loads_ahead(state.flow.kernel)
        ahead = [state.held(x.results[0]) for x in op.walk() if isinstance(x, LoadOp) and found.get(x)]
        held = UNROLLED_ITERATIONS * total(loaded) + (STAGES - 1) * total(ahead) + total(carried)
        yield LiveRange(state.members[op] * held, n, n, op)


def _is_load(op: Operation) -> bool:
    return isinstance(op, AccessOp) and bool(op.results) and isinstance(op.base.type, TensorArgumentType)


def _users(state: _Phase, value: SSAValue) -> list[Operation]:
    """Members that use a value, directly or through operations that share its registers."""
    found: list[Operation] = []
    for user in (user for user, _ in state.flow.users(value) if user in state.members):
        found += _users(state, user.results[0]) if isinstance(user, _NOTHING) and user.results else [user]
    return found


def _carried(state: _Phase) -> Iterable[LiveRange]:
    """Partial results of reductions in chunk loops, and accumulators of dots, alive throughout the phase; those in
    tensor memory are read at its end."""
    last = len(state.number)
    for op, weight in state.members.items():
        if isinstance(op, ReductionOp) and not state.flow.analysis.axes[op.axis.data].is_tile:
            complete = state.flow.complete.get(op, ZERO)
            partial = complete * state.held(op.result) + (1 - complete) * state.held(op.tile)
            yield LiveRange(weight * state.flow.chunked(op.tile) * partial, 0, last, op)
        elif isinstance(op, DotOp):
            if op in state.flow.scaled.upper:  # part of the dot of the lower halves
                weight *= 1 - on_tensor_cores(state.flow, op)
            whole = _summed_at_once(state, op)
            users = _users(state, op.result)
            used = max((state.number[user] for user in users), default=last)
            ends = used
            takers = (DotOp, ReductionOp, *SCANS)
            if not any(isinstance(user, takers) and state.number[user] == used for user in users):
                ends = max(state.number[op], used - 1)  # the last user takes its registers; not so AMD's compiler
            (sums, step), is_amd = _dot(state, op), symbol("device.is_amd")
            yield LiveRange(weight * (1 - whole) * (sums + step), 0, last, op)
            yield LiveRange(weight * whole * (sums + is_amd * step), state.number[op], ends, op)
            yield LiveRange(weight * whole * (1 - is_amd) * step, state.number[op], state.number[op], op)
            if ends < used:
                yield LiveRange(is_amd * weight * whole * (sums + step), used, used, op)
            yield LiveRange(weight * _in_tensor_memory(state.flow, op) * dot_bytes(state.flow, op), last, last, op)
            yield LiveRange(weight * _plain_operands(state.flow, op), state.number[op], state.number[op], op)


def _summed_at_once(state: _Phase, op: DotOp) -> Expr:
    """1 where no loop over chunks carries a dot's sums: it has all of the axis at once, and begins anew."""
    axis, begins = op.axis.data, isinstance(op.sum.owner, BroadcastOp | arith.ConstantOp)
    return symbol(f"held.{axis}") if begins and not state.flow.analysis.axes[axis].is_tile else ZERO


def _dot(state: _Phase, op: DotOp) -> tuple[Expr, Expr]:
    """Accumulators, unless they are in tensor memory, and the parts of operands that one of its steps uses. Sums of f8
    in fewer bits than f32 has (sm_90) are beside those that they are added to."""
    flow = state.flow
    inside, wide = on_tensor_cores(flow, op), by_four_warps(flow, op)
    step = number(16 * min(operand_bytes(op), 4)) / WARP * total(_sides(flow, op)) / symbol("plan.warps") ** HALF
    is_added = op.precision.data == "tf32" and isinstance(element_of(narrow(op.left)), FLOAT8)
    twice = inside * wide * FROM_SHARED if is_added else ZERO
    accumulators = (1 - _in_tensor_memory(flow, op)) * (1 + twice) * dot_bytes(flow, op)
    wholes = [axis.name for axis in flow.analysis.axes.values() if not axis.is_tile]
    plain = inside * (1 - total(symbol(f"online.{axis}") for axis in wholes))  # others are rescaled between
    accumulators = accumulators * (1 - plain * (1 - symbol("fit.sums")))
    return accumulators, inside * (1 - wide * FROM_SHARED) * step


def _in_tensor_memory(flow: Flow, op: DotOp) -> Expr:
    return on_tensor_cores(flow, op) * by_four_warps(flow, op) * TENSOR_MEMORY


def _plain_operands(flow: Flow, op: DotOp) -> Expr:
    """Bytes per thread of the operands of a dot on plain units, while it multiplies: compilers load a part at a time,
    a larger one between the copies of a pipelined loop."""
    here = (1 - on_tensor_cores(flow, op)) * is_a_dot(flow, op)
    part = OPERANDS + PIPED_OPERANDS * fits(STAGES, number(2))
    return here * part * 4 * flow.sizes[op.axis.data] * total(_sides(flow, op)) / THREADS**HALF


def by_four_warps(flow: Flow, op: DotOp) -> Expr:
    """1 where four or more warps multiply together, as sm_90 and sm_100 do for 64 rows or more; into tensor memory no
    more than eight. Columns that are as many are the rows of a dot that is turned."""
    warps = symbol("plan.warps")
    together = fits(warps, number(4)) * (1 - TENSOR_MEMORY * fits(warps, number(16)))
    rows, columns = _sides(flow, op)
    return fits(most((rows, columns)) if prefers_turned(op) else rows, number(LEAST_ROWS)) * together


def _sides(flow: Flow, op: DotOp) -> list[Expr]:
    """Rows and columns of the result."""
    both = set(axes_of(op.left)) & set(axes_of(op.right))
    return [product(flow.sizes[a] for a in axes_of(v) if a not in both) for v in (op.left, op.right)]


def dot_bytes(flow: Flow, op: DotOp) -> Expr:
    """Bytes per thread of a dot's accumulators, wherever they are."""
    elements = most((ONE, product(flow.sizes[axis] for axis in axes_of(op.result)) / THREADS))
    return number(width(op.result.type)) * elements


def _around(state: _Phase) -> Iterable[LiveRange]:
    """Values of other phases that stay in registers here, because they are held or have no whole axis."""
    flow, position = state.flow, state.flow.analysis.position
    here = position[state.phase]
    end = max((position[op] for op in state.phase.body.block.ops), default=here)
    for op in flow.items:
        if isinstance(op, _NOTHING):
            continue
        for result in op.results:
            users = [user for user, crosses in flow.users(result) if crosses]
            spans = [position[user] for user in users]
            if not spans or not isinstance(result.type, TensorType):
                continue
            last = len(state.number)
            if flow.analysis.phase[op] is state.phase:
                if not isinstance(op, DotOp):
                    yield LiveRange((1 - flow.chunked(result)) * state.held(result), state.number[op], last, op)
            elif (position[op] < here <= max(spans)) or _shares_loop(state, op, users):
                mine = [state.number[user] for user in users if user in state.number]
                if max(spans) <= end and mine and not _shares_loop(state, op, users):
                    last = max(mine) - 1
                yield LiveRange((1 - flow.chunked(result)) * _waiting(state, result, users), 0, last, op)


def _waiting(state: _Phase, value: SSAValue, users: list[Operation]) -> Expr:
    """Bytes per thread of a value that waits for a later phase. Operands of tensor cores do as they were before they
    were extended, and in shared memory where they are read from there."""
    taken, dots = narrow(value), [user for user in users if isinstance(user, DotOp)]
    if taken is value or len(dots) < len(users):
        return state.held_along_dots(value)
    inside, wide = on_tensor_cores(state.flow, dots[0]), by_four_warps(state.flow, dots[0])
    here = (1 - wide * FROM_SHARED) * (1 - _copied_in_loop(state, taken)) * state.held(taken)
    return (1 - inside) * state.held(value) + inside * here


def _copied_in_loop(state: _Phase, value: SSAValue) -> Expr:
    """1 where a loop copies a value to shared memory ahead: each dot reads its operand there again."""
    load, analysis = value.owner, state.flow.analysis
    around = analysis.structures[analysis.phase[load]] if isinstance(load, Operation) and _is_load(load) else ()
    return AHEAD * fits(STAGES, number(2)) if any(isinstance(op, RangeOp) for op in around) else ZERO


def _from_homes(state: _Phase) -> Iterable[LiveRange]:
    """Chunks of values that are loaded from their homes."""
    for value, label in state.flow.crossing.items():
        users = [state.number[user] for user in _users(state, value)]
        if users and state.flow.analysis.phase_of(value) is not state.phase:
            homed = (symbol(f"shared.{label}") + symbol(f"memory.{label}")) * state.flow.chunked(value)
            yield LiveRange(
                homed * state.held(value), min(users), max(min(users), max(users) - 1), _origin(value, state), True
            )


def _origin(value: SSAValue, state: _Phase) -> Operation:
    """The operation that computes a value; of one that a loop carries, the loop."""
    return value.owner if isinstance(value.owner, Operation) else value.owner.parent_op() or state.phase


def _ahead(state: _Phase) -> Iterable[LiveRange]:
    """What loads of a loop around the phase have loaded for later iterations."""
    flow = state.flow
    loops = [op for op in flow.analysis.structures[state.phase] if isinstance(op, RangeOp)]
    for load, moves in loads_ahead(flow.kernel).items():
        phase = flow.analysis.phase.get(load)
        if moves and phase is not None and loops and loops[-1] in flow.analysis.structures[phase]:
            value = load.results[0]
            yield LiveRange((STAGES - 1) * (1 - flow.chunked(value)) * state.held(value), 0, len(state.number), load)


def _shares_loop(state: _Phase, op: Operation, users: list[Operation]) -> bool:
    """Whether a value made before a loop around this phase is used again in its next iteration."""
    phase, around = state.flow.analysis.phase, state.flow.analysis.structures
    return any(
        loop not in around[phase[op]] and loop in around[phase[user]]
        for loop in around[state.phase]
        for user in users
        if user in phase
    )


def address_registers(flow: Flow, spaces: Spaces, phase: PhaseOp) -> Expr:
    """Registers per thread for the addresses of a phase's accesses: two for each row of contiguous elements, or for
    each element of an index tile."""
    state = _Phase(flow, spaces, phase)
    counts = []
    for op, weight in state.members.items():
        for inner in op.walk():
            if isinstance(inner, AccessOp) and isinstance(inner.tile.type, TensorType):
                axes = tuple(axes_of(inner.tile))
                fast = contiguous_axis(inner)
                tiles = [offset for offset in inner.offsets if isinstance(offset.type, TensorType)]
                scattered = {axis for offset in tiles for axis in axes_of(offset)}
                rows = [axis for axis in axes if axis != fast or axis in scattered]
                space = space_for(frozenset(axes), state.largest)
                each = 2 if isinstance(inner.base.type, TensorArgumentType) else 1
                own = fast if space == frozenset(axes) else None
                times = ONE if inner is op else UNROLLED_ITERATIONS
                counts.append(weight * times * each * spaces.per_thread(rows, space, own))
    return total(counts)
