"""On-chip memory: scratchpads and shared homes, and what Triton allocates besides.

Triton reuses its own allocations, so the worst point of a phase counts (`ModuleAllocation` in Triton's
`lib/Analysis/Allocation.cpp`):
- a reduction stores each warp's part for the others: results × warps along the axis (`ReduceOpHelper`);
- a layout conversion passes a tile through it, in parts;
- operands of dots are kept there, once for every pipeline stage but one, or for all; where a persistent program's loop
  goes on to the next program's, also while results are converted.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import SSAValue

from ...dialect import (
    AccessOp,
    DotOp,
    PhaseOp,
    RangeOp,
    ReductionOp,
    ScratchOp,
    ScratchType,
    TensorArgumentType,
    WriteOp,
    axes_of,
)
from ..dot_orientation import prefers_turned
from .algebra import ONE, ZERO, Expr, either, fits, least, most, number, pieces, product, symbol, total
from .flow import Flow
from .loop_operands import IS_AMD, PIPED, computed_operands, loop_operands, passing_operands, results_of_dots
from .registers import AHEAD, FROM_SHARED, PERSISTENT, STAGES, by_four_warps
from .spaces import THREADS, Spaces, element_in, largest_spaces, space_for, width
from .traffic import is_a_dot, on_tensor_cores, taken

IN_MEMORY, ON_CHIP = number(32), number(128)
"""Bytes that each thread stores at a time during a layout conversion: between two layouts of memory accesses, and from
one of them to a scratchpad's. Observed in binaries."""
IS_CPU = symbol("device.is_cpu")


def shared_bytes(flow: Flow, spaces: Spaces, phase: PhaseOp) -> Expr:
    """What Triton allocates at the worst point of a phase."""
    needs: list[Expr] = []
    plain: list[Expr] = []
    inside = largest_spaces(flow.members[phase])
    for item, weight in flow.members[phase].items():
        for op in item.walk():
            if isinstance(op, ReductionOp):
                needs.append(weight * _reduction(flow, spaces, op, inside))
            elif isinstance(op, DotOp):
                taken = weight * _plain_operands(flow, op)
                computed = weight * computed_operands(flow, op)
                needs.append(loop_operands(flow, {op: weight}) + computed)
                needs.append(loop_operands(flow, _in_loop_of(flow, phase, op)) + (1 - PIPED) * computed)
                needs += [taken, weight * passing_operands(flow, op)]
                plain.append(taken)
    # On plain units all dots of a loop have as many copies; on tensor cores they share the stages.
    needs.append((AHEAD + IS_AMD) * fits(STAGES, number(2)) * total(plain))
    needs += [_in_range(flow, phase), _online(flow, phase), *_stored_results(flow, phase)]
    return most([*needs, *_conversions(flow, phase, inside)]) + _beside(flow, phase)


def _stored_results(flow: Flow, phase: PhaseOp) -> Iterator[Expr]:
    """Results of dots that AMD's GPUs bring into a tensor's shape before they store them. A matrix that a dot gives as
    it is stored needs nothing."""
    for op in (op for item in flow.members[phase] for op in item.walk() if isinstance(op, WriteOp)):
        axes = axes_of(op.tile)
        for dot in results_of_dots(op.tile) if isinstance(op.base.type, TensorArgumentType) else ():
            if axes and (len(axes) > 2 or prefers_turned(dot)) and set(axes) == set(axes_of(dot.result)):
                size = number(width(element_in(op.base))) * product(flow.sizes[axis] for axis in axes)
                yield IS_AMD * on_tensor_cores(flow, dot) * size


def _beside(flow: Flow, phase: PhaseOp) -> Expr:
    """Results of dots on their way to the layout in which they are stored, while operands of the next program's are
    there: as much as binaries take of sm_80 and sm_90, and up to four times what those of sm_100 do."""
    dots = [op for item in flow.members[phase] for op in item.walk() if isinstance(op, DotOp)]
    results = [4 * product(flow.sizes[axis] for axis in axes_of(op.result)) for op in dots]
    if not results:
        return ZERO
    return PERSISTENT * fits(STAGES, number(2)) * (1 - IS_CPU) * least((most(results), THREADS * ON_CHIP))


def _same_range(flow: Flow, phase: PhaseOp, other: PhaseOp) -> bool:
    """Whether two phases are in one range, with none further in: compilers pipeline it as one loop."""
    around = flow.analysis.structures
    return any(isinstance(op, RangeOp) for op in around[phase]) and around[phase] == around[other]


def _in_loop_of(flow: Flow, phase: PhaseOp, op: DotOp) -> dict[DotOp, Expr]:
    """The dots of the chunk loop of a dot, itself included: those of which it takes results, where other axes are held.
    Units that take no operands from shared memory copy none ahead for them (sm_80)."""
    found = {}
    for item, weight in flow.members[phase].items():
        for other in (each for each in item.walk() if isinstance(each, DotOp)):
            if other is op:
                found[op] = weight
            elif op.axis.data in flow.analysis.chunks(other) and flow.analysis.phase[item] is not phase:
                inner = sorted(flow.analysis.chunks(other) - {op.axis.data})
                there = by_four_warps(flow, op) * FROM_SHARED + IS_AMD
                found[other] = there * weight * product(symbol(f"held.{axis}") for axis in inner)
    return found


def _in_range(flow: Flow, phase: PhaseOp) -> Expr:
    """Operands of the own dots of all phases of the range around a phase."""
    phases = [other for other in flow.phases if _same_range(flow, phase, other)]
    dots = [op for other in phases for item in flow.members[other] if flow.analysis.phase[item] is other
            for op in item.walk() if isinstance(op, DotOp)]  # fmt: skip
    return loop_operands(flow, dict.fromkeys(dots, ONE))


def _online(flow: Flow, phase: PhaseOp) -> Expr:
    """Loaded operands of all dots in one loop over chunks that goes online."""
    moved = {op: weight for op, (at, weight) in flow.moved.items() if at is phase and isinstance(op, DotOp)}
    if not moved:
        return ZERO
    along = {op.axis.data for op in moved}
    dots = {}
    for op, weight in flow.members[phase].items():
        if isinstance(op, DotOp):
            inner = sorted(flow.analysis.chunks(op) - along)
            dots[op] = moved.get(op, weight) * product(symbol(f"held.{axis}") for axis in inner)
    return either(moved.values()) * loop_operands(flow, dots)


def _reduction(flow: Flow, spaces: Spaces, op: ReductionOp, inside: list[frozenset[str]]) -> Expr:
    axis = op.axis.data
    axes = axes_of(op.tile)
    warps = spaces.warps_along(axis, space_for(frozenset(axes), inside))
    results = product(flow.sizes[a] for a in axes if a != axis)
    return fits(warps, number(2)) * number(width(op.tile.type)) * results * warps


def _plain_operands(flow: Flow, op: DotOp) -> Expr:
    """Both operands of a dot on plain units, as 4 bytes an element, for every stage but one if they come from memory as
    they are; without stages AMD stores one after the other."""
    outside, in_turn = (1 - on_tensor_cores(flow, op)) * is_a_dot(flow, op), (1 - PIPED) * IS_AMD
    sizes = []
    for side in (op.left, op.right):
        owner = taken(op, side).owner
        is_loaded = isinstance(owner, AccessOp) and isinstance(owner.base.type, TensorArgumentType)
        copies = most((ONE, STAGES - 1)) if is_loaded else ONE
        sizes.append(copies * product(flow.sizes[axis] for axis in axes_of(side)))
    return 4 * outside * ((1 - in_turn) * total(sizes) + in_turn * most(sizes))


def _conversions(flow: Flow, phase: PhaseOp, inside: list[frozenset[str]]) -> list[Expr]:
    """Tiles whose accesses need different layouts: of other element widths, of scratchpads, of swap space; and results
    of reductions, which keep the layout of the reduced tile."""
    accesses = [op for item in flow.members[phase] for op in item.walk() if isinstance(op, AccessOp)]
    found: list[Expr] = []
    for axes in dict.fromkeys(axes_of(op.tile) for op in accesses):
        mine = [op for op in accesses if axes_of(op.tile) == axes]
        size = number(max(width(op.tile.type) for op in mine)) * product(flow.sizes[a] for a in axes)
        widths = {width(element_in(op.base)) for op in mine if isinstance(op.base.type, TensorArgumentType)}
        pads = any(isinstance(op.base.type, ScratchType) for op in mine)
        homes = [label for value, label in flow.crossing.items() if axes_of(value) == axes]
        homes = [h for h in homes if any(_touches(flow, phase, v) for v, label in flow.crossing.items() if label == h)]
        partial = bool(axes) and frozenset(axes) not in inside
        remade = ONE if len(widths) > 1 or partial else either(symbol(f"memory.{label}") for label in homes)
        padded = ONE if pads else either(symbol(f"shared.{label}") for label in homes)
        for used, bytes_ in ((remade, IN_MEMORY), (padded, ON_CHIP)):
            found.append(used * (1 - IS_CPU) * least((size, THREADS * bytes_)))
    return found


def _touches(flow: Flow, phase: PhaseOp, value: SSAValue) -> bool:
    members = flow.members[phase]
    return any(user in members for user, _ in flow.users(value)) or value.owner in members


def scratch_bytes(flow: Flow) -> tuple[Expr, Expr]:
    """Bytes of scratchpads and shared homes of a program, and of its swap space, rounded as lowering does."""
    shared: list[Expr] = []
    swap: list[Expr] = []
    for op in flow.kernel.body.block.ops:
        if isinstance(op, ScratchOp):
            label = op.label.data
            size = number(width(op.result.type.element)) * product(_capacity(flow, d) for d in op.result.type.shape)
            size = size * (1 + symbol(f"copies.{label}"))
            shared.append(size * (1 - symbol(f"memory.{label}")))
            swap.append(size * symbol(f"memory.{label}"))
    for value, label in flow.crossing.items():
        size = number(width(value.type)) * product(_capacity(flow, axis) for axis in axes_of(value))
        if value in flow.homed:
            size = size * (1 + symbol(f"sums.{label}"))
        shared.append(size * symbol(f"shared.{label}") * flow.chunked(value))
        swap.append(size * symbol(f"memory.{label}") * flow.chunked(value))
    return total(shared), total(swap)


def _capacity(flow: Flow, dimension: str | int) -> Expr:
    """Elements of memory along an axis, in whole chunks: one at least, also of an empty axis."""
    if isinstance(dimension, int):
        return number(dimension)
    size = flow.sizes[dimension]
    if flow.analysis.axes[dimension].is_tile:
        return size
    return most((ONE, pieces(flow.extents[dimension], size))) * size
