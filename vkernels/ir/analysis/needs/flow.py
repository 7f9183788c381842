"""What each phase computes if whole axes are chunked: its own operations, and those of earlier phases again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import truediv

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from ...dialect import DotOp, KernelOp, MaxOp, PhaseOp, RangeOp, TileOp, WholeOp, YieldOp, arith, axes_of
from ...errors import UnsupportedError
from ...facts import Facts
from ..accesses import has_effect, inputs_of
from ..axes import INTEGER_ARITHMETIC, Arithmetic, MappedAxis, evaluate
from ..kernel_analysis import KernelAnalysis
from ..launch_axes import launch_axes
from ..scaled_operands import ScaledParts, scaled_parts
from ..schedule.find_online import groups_along
from ..schedule.nests import label_of
from .algebra import ONE, ZERO, Expr, either, number, product, symbol


@dataclass
class Flow:
    """A kernel in phases, analysed as if every whole axis were chunked; symbols then say which are.

    `extents`, `sizes`: for each axis, its number of positions and the elements of a program's tile or of a chunk.
    `members`: for each phase, the operations that it may execute, with 1 where it does and 0 where not. `moved`: sums
    that the phase of a maximum computes if the plan goes online, with that phase and 1 where it does. `homed`: results
    of such dots that may be accumulated in their homes, with the axis that is summed. `complete`: maxima and sums of
    which such a loop carries no tile of partial results, with 1 where it does not. `tiles`: the tile axes that programs
    lie along.
    """

    kernel: KernelOp
    analysis: KernelAnalysis
    extents: dict[str, Expr]
    sizes: dict[str, Expr]
    members: dict[PhaseOp, dict[Operation, Expr]] = field(default_factory=dict)
    moved: dict[Operation, tuple[PhaseOp, Expr]] = field(default_factory=dict)
    homed: dict[SSAValue, str] = field(default_factory=dict)
    complete: dict[Operation, Expr] = field(default_factory=dict)
    tiles: frozenset[str] = frozenset()

    @cached_property
    def phases(self) -> list[PhaseOp]:
        return [op for op in self.analysis.structures if isinstance(op, PhaseOp)]

    @cached_property
    def items(self) -> list[Operation]:
        """The items of all phases, in program order."""
        return [op for op in self.analysis.phase if not isinstance(op, YieldOp)]

    @cached_property
    def scaled(self) -> ScaledParts:
        """The parts of scaled dots, which tensor cores do themselves."""
        return scaled_parts(self.kernel)

    @cached_property
    def crossing(self) -> dict[SSAValue, str]:
        """Values with a whole axis that phases yield, each by its source, or that loops over phases carry."""
        found: dict[SSAValue, str] = {}
        for op in self.analysis.structures:
            for result in op.results:
                if self.analysis.chunks_of_value(result):
                    source = self.analysis.source(result) if isinstance(op, PhaseOp) else result
                    found.setdefault(source, label_of(result))
        return found

    def in_launch_of(self, phase: PhaseOp) -> Flow:
        """The same with the programs that run a phase, where others do not."""
        tiles = launch_axes(self.kernel).of_phase(phase.phase.data)
        return self if tiles >= self.tiles else replace(self, tiles=tiles)

    def chunked(self, value: SSAValue) -> Expr:
        """1 where any axis of a value is processed in chunks."""
        held = [symbol(f"held.{axis}") for axis in sorted(self.analysis.chunks_of_value(value))]
        return 1 - product(held) if held else ZERO

    def has_home(self, value: SSAValue) -> Expr:
        """1 where a value that crosses phases is kept in memory."""
        label = self.crossing[value]
        return symbol(f"shared.{label}") + symbol(f"memory.{label}")

    def again(self, value: SSAValue, crosses: bool) -> Expr:
        """1 where a value must be recomputed for each use."""
        if not crosses or value not in self.crossing:
            return self.chunked(value)
        return self.chunked(value) * (1 - self.has_home(value))

    def users(self, value: SSAValue) -> Iterator[tuple[Operation, bool]]:
        """The items that use a value, and whether each is in another phase."""
        for use in value.uses:
            item = self.analysis.item_of(use.operation)
            if isinstance(item, YieldOp) and isinstance(phase := item.parent_op(), PhaseOp):
                for user, _ in self.users(phase.results_[use.index]):
                    yield user, True
            elif item in self.analysis.phase:
                yield item, False

    def trips(self, phase: PhaseOp) -> Expr:
        """How often the loops around a phase run it."""
        return product(map(trips_of, self.analysis.structures[phase]))


def read_flow(kernel: KernelOp) -> Flow:
    """The flow of a kernel in phases. Raises `UnsupportedError` for an extent that is not arithmetic on sizes."""
    axes: dict[str, MappedAxis] = {}
    extents: dict[str, Expr] = {}
    for op in kernel.body.block.ops:
        if isinstance(op, TileOp | WholeOp):
            axis = op.axis.data
            axes[axis] = MappedAxis(axis, isinstance(op, TileOp), op.extent, None, 1, False)
            extent = scalar(op.extent)
            if extent is None:
                raise UnsupportedError(f"the extent of axis {axis} of {kernel.sym_name.data} is no arithmetic on sizes")
            extents[axis] = extent
    sizes = {name: symbol(f"{'tile' if axis.is_tile else 'chunk'}.{name}") for name, axis in axes.items()}
    flow = Flow(kernel, KernelAnalysis(kernel, axes), extents, sizes, tiles=frozenset(launch_axes(kernel).tiles))
    flow.moved = _moved(flow)
    for phase in flow.phases:
        flow.members[phase] = _members(flow, phase)
    return flow


def _moved(flow: Flow) -> dict[Operation, tuple[PhaseOp, Expr]]:
    """Sums that can be in one loop with a maximum: the loop carries those whose other axes are held, or accumulates
    them in their homes."""
    found: dict[Operation, tuple[PhaseOp, Expr]] = {}
    analysis, axes = flow.analysis, flow.analysis.axes
    maxima = dict.fromkeys(op.axis.data for op in analysis.phase if isinstance(op, MaxOp))
    for axis in (name for name in maxima if name in analysis.chunked):
        held = {name: each if name == axis else replace(each, known=1, most=1) for name, each in axes.items()}
        for group in groups_along(analysis.under(held), axis, Facts(distinct=True)):
            goes = symbol(f"online.{axis}") * (1 - symbol(f"held.{axis}"))
            around = analysis.chunks(group.maximum) - {axis}
            on_gpu = 1 - symbol("device.is_cpu")
            has_dots = any(isinstance(total, DotOp) for total in group.totals)
            flow.complete[group.maximum] = either([flow.complete.get(group.maximum, ZERO), goes * on_gpu])
            for total in group.totals:
                result = total.results[0]
                own = sorted(analysis.chunks(total) - {axis} - around)
                carried = product(symbol(f"held.{name}") for name in own) if own else ONE
                if own and isinstance(total, DotOp) and result in flow.crossing:
                    flow.homed[result] = axis
                    carried = carried + (1 - carried) * flow.has_home(result)
                weight = product([goes, *(symbol(f"held.{name}") for name in sorted(around)), carried])
                found[total] = analysis.phase[group.maximum], weight
                if has_dots:
                    flow.complete[total] = weight * on_gpu
    return found


def _members(flow: Flow, phase: PhaseOp) -> dict[Operation, Expr]:
    """The members of a phase, in program order: its own items, items of earlier phases that must be recomputed, and
    sums of later ones that are in its loops, with what they need."""
    position, of = flow.analysis.position, flow.analysis.phase
    last = max((position[op] for op in phase.body.block.ops), default=0)
    here = {op: weight for op, (at, weight) in flow.moved.items() if at is phase}
    early = _slice_after(flow, here, last)
    leaves = any(of[op] is phase for op in flow.moved)
    weights: dict[Operation, Expr] = {}
    for item in reversed([op for op in flow.items if position[op] <= last or op in early]):
        if item in here:
            weights[item] = here[item]
            continue
        if of[item] is phase and not (leaves and _is_inner(flow, item)):
            weights[item] = 1 - flow.moved[item][1] if item in flow.moved else ONE
            continue
        if has_effect(item):
            continue
        alone = of[item] is phase or item in early
        needed = [
            weights[user] * (ONE if alone else flow.again(result, crosses))
            for result in item.results
            for user, crosses in flow.users(result)
            if user in weights
        ]
        weight = either(needed)
        if weight != ZERO:
            weights[item] = weight
    return dict(sorted(weights.items(), key=lambda pair: position[pair[0]]))


def _slice_after(flow: Flow, sums: Iterable[Operation], last: int) -> set[Operation]:
    """Items after a position that sums need, themselves included."""
    analysis = flow.analysis
    found: set[Operation] = set()
    todo = list(sums)
    while todo:
        item = todo.pop()
        if item not in found and item in analysis.phase and analysis.position[item] > last:
            found.add(item)
            owners = (analysis.source(value).owner for value in inputs_of(item))
            todo += [analysis.item_of(owner) for owner in owners if isinstance(owner, Operation)]
    return found


def _is_inner(flow: Flow, item: Operation) -> bool:
    """Whether a phase computes an item only for others of its own."""
    used = [crosses for result in item.results for _, crosses in flow.users(result)]
    return not has_effect(item) and item not in flow.moved and bool(used) and not any(used)


_SYMBOLIC_ARITHMETIC: Arithmetic = {
    **INTEGER_ARITHMETIC, arith.FloorDivSIOp: truediv, arith.CeilDivSIOp: truediv,
}  # fmt: skip


def scalar(value: SSAValue) -> Expr | None:
    """The expression of i64 arithmetic on sizes; None for anything else."""
    return evaluate(value, symbol, number, _SYMBOLIC_ARITHMETIC)


def trips_of(op: Operation) -> Expr:
    """How often a loop runs its body; 1 for other operations."""
    if isinstance(op, RangeOp):
        start, stop = scalar(op.start), scalar(op.stop)
        return symbol(f"trips.{op.axis.data}") if start is None or stop is None else stop - start
    return symbol("trips.while") if isinstance(op, scf.WhileOp | scf.ForOp) else ONE


def axes_touched(op: Operation) -> tuple[str, ...]:
    """All axes of an operation's operands and results."""
    return tuple(dict.fromkeys(axis for value in (*op.operands, *op.results) for axis in axes_of(value)))
