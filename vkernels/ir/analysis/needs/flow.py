"""What each phase computes, if whole axes are chunked: its own operations, and those of earlier phases once more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

from ...dialect import KernelOp, PhaseOp, RangeOp, SizeOp, TileOp, WholeOp, YieldOp, arith, axes_of
from ...errors import UnsupportedError
from ..axes import MappedAxis
from ..kernel_analysis import KernelAnalysis
from ..schedule.nests import label_of
from .algebra import ONE, ZERO, Expr, either, number, product, symbol


@dataclass
class Flow:
    """A kernel in phases, read as if every whole axis were chunked; symbols then say which are.

    `extents`, `sizes`: of each axis its positions, and the elements of a program's tile or of a chunk. `members`: of
    each phase, all that it may execute: operations, and 0 or 1 for whether it does.
    """

    kernel: KernelOp
    analysis: KernelAnalysis
    extents: dict[str, Expr]
    sizes: dict[str, Expr]
    members: dict[PhaseOp, dict[Operation, Expr]] = field(default_factory=dict)

    @cached_property
    def phases(self) -> list[PhaseOp]:
        return [op for op in self.analysis.structures if isinstance(op, PhaseOp)]

    @cached_property
    def items(self) -> list[Operation]:
        """Of all phases, in program order."""
        return [op for op in self.analysis.phase if not isinstance(op, YieldOp)]

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

    def chunked(self, value: SSAValue) -> Expr:
        """1 where any axis of a value is processed in chunks."""
        held = [symbol(f"held.{axis}") for axis in sorted(self.analysis.chunks_of_value(value))]
        return 1 - product(held) if held else ZERO

    def again(self, value: SSAValue, crosses: bool) -> Expr:
        """1 where a value must be computed again for each use."""
        label = self.crossing.get(value)
        if not crosses or label is None:
            return self.chunked(value)
        return self.chunked(value) * (1 - symbol(f"shared.{label}") - symbol(f"memory.{label}"))

    def users(self, value: SSAValue) -> Iterator[tuple[Operation, bool]]:
        """The items that use a value, and whether in another phase."""
        for use in value.uses:
            item = self.analysis.item_of(use.operation)
            if isinstance(item, YieldOp) and isinstance(phase := item.parent_op(), PhaseOp):
                for user, _ in self.users(phase.results_[use.index]):
                    yield user, True
            elif item in self.analysis.phase:
                yield item, False

    def trips(self, phase: PhaseOp) -> Expr:
        """How often the loops around a phase run it."""
        return product(_trips(op) for op in self.analysis.structures[phase])

    def trips_of(self, loop: Operation) -> Expr:
        return _trips(loop)


def read_flow(kernel: KernelOp) -> Flow:
    """The flow of a kernel that is split into phases. Raises `UnsupportedError` for an extent that is no arithmetic."""
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
    flow = Flow(kernel, KernelAnalysis(kernel, axes), extents, sizes)
    for phase in flow.phases:
        flow.members[phase] = _members(flow, phase)
    return flow


def _members(flow: Flow, phase: PhaseOp) -> dict[Operation, Expr]:
    """In program order. An item of an earlier phase is one where a member needs it and it is not at hand."""
    position, of = flow.analysis.position, flow.analysis.phase
    last = max((position[op] for op in phase.body.block.ops), default=0)
    weights: dict[Operation, Expr] = {}
    for item in reversed([op for op in flow.items if position[op] <= last]):
        if of[item] is phase:
            weights[item] = ONE
            continue
        if flow.analysis.has_effect(item):
            continue
        needed = [
            weights[user] * flow.again(result, crosses)
            for result in item.results
            for user, crosses in flow.users(result)
            if user in weights
        ]
        weight = either(needed)
        if weight != ZERO:
            weights[item] = weight
    return dict(sorted(weights.items(), key=lambda pair: position[pair[0]]))


def scalar(value: SSAValue) -> Expr | None:
    """i64 arithmetic on sizes, None where it is anything else."""
    op = value.owner
    if isinstance(op, SizeOp):
        return symbol(op.size.data)
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return number(op.value.value.data)
    if isinstance(op, arith.AddiOp | arith.SubiOp | arith.MuliOp | arith.FloorDivSIOp | arith.CeilDivSIOp):
        left, right = scalar(op.operands[0]), scalar(op.operands[1])
        if left is None or right is None:
            return None
        if isinstance(op, arith.MuliOp):
            return left * right
        if isinstance(op, arith.FloorDivSIOp | arith.CeilDivSIOp):
            return left / right
        return left + right if isinstance(op, arith.AddiOp) else left - right
    return None


def _trips(op: Operation) -> Expr:
    if isinstance(op, RangeOp):
        start, stop = scalar(op.start), scalar(op.stop)
        return symbol(f"trips.{op.axis.data}") if start is None or stop is None else stop - start
    if isinstance(op, scf.WhileOp | scf.ForOp):
        return symbol("trips.while")
    return ONE


def axes_touched(op: Operation) -> tuple[str, ...]:
    """All axes of what an operation takes and gives."""
    return tuple(dict.fromkeys(axis for value in (*op.operands, *op.results) for axis in axes_of(value)))
