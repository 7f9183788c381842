"""Split kernels into phases: maximal regions that can run chunk by chunk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp, TensorType, bf16, f16
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import IsTerminator

from ..analysis.accesses import CONTROL, EFFECTS, LOOPS, MemoryAccess, accesses_of, clash, elementwise, inputs_of
from ..dialect import (
    AccessOp,
    BoundaryOp,
    DotOp,
    KernelOp,
    PhaseOp,
    ReductionOp,
    ScanOp,
    ScratchOp,
    SizeOp,
    TileOp,
    WholeOp,
    YieldOp,
    arith,
    axes_of,
    element_of,
)
from .separate_loops import separate_loops


@dataclass(frozen=True)
class SplitPhases(ModulePass):
    """Wrap each maximal region that can run chunk by chunk in a `vk.phase`.

    A phase ends where a reduction over a whole axis completes and is used, where two accesses to one memory, one
    of them a write, may meet at different positions, and at the author's `vk.boundary`. Loops and conditionals
    that contain such an end are split inside; others are part of a phase. What a phase computes and a
    later one uses is a result of its `vk.phase`. Kernels that have phases already are left alone.
    """

    name = "split-phases"
    result = "the same, cut into phases"

    def apply(self, context: Context, module: ModuleOp) -> None:
        split_phases(module)


def split_phases(module: ModuleOp) -> None:
    """Split every `vk.kernel` of a module, in place. See `SplitPhases`."""
    for op in module.body.block.ops:
        if isinstance(op, KernelOp) and not any(isinstance(inner, PhaseOp) for inner in op.walk()):
            whole = frozenset(inner.axis.data for inner in op.body.block.ops if isinstance(inner, WholeOp))
            _split_block(op.body.block, _Names(), whole)


def is_structural(op: Operation, whole: frozenset[str]) -> bool:
    """Whether a loop or conditional contains the end of a phase, so that it runs outside of chunk loops."""
    if not isinstance(op, CONTROL):
        return False
    axes: set[str] = set()
    for inner in (inner for region in op.regions for inner in region.walk()):
        if isinstance(inner, BoundaryOp | PhaseOp | ScanOp) or ends_phase(inner, whole):
            return True
        axes.update(axis for value in (*inner.operands, *inner.results) for axis in axes_of(value))
    found = accesses_of(op)
    # What is used of a loop that has effects must not be computed again.
    if op.results and any(access.writes for access in found) and any(r.first_use is not None for r in op.results):
        return True
    if isinstance(op, scf.WhileOp) and any(whole.intersection(axes_of(r)) != axes & whole for r in op.results):
        return True
    # A store that lacks an axis of the loop would run once for each of its chunks.
    if any(access.writes and access.axes & whole != axes & whole for access in found):
        return True
    loop = op if isinstance(op, LOOPS) else None
    return any(
        clash(one, other) and not elementwise(one, other, loop=loop)
        for number, one in enumerate(found)
        for other in found[number if loop is not None else number + 1 :]
    )


def ends_phase(op: Operation, whole: frozenset[str]) -> bool:
    """Whether an operation's result is complete only when all of a whole axis has been seen."""
    return isinstance(op, ReductionOp | DotOp) and op.axis.data in whole


@dataclass
class _Names:
    """Names of phases, each once."""

    used: dict[str, int] = field(default_factory=dict)

    def unique(self, name: str) -> str:
        number = self.used[name] = self.used.get(name, 0) + 1
        return name if number == 1 else f"{name}_{number}"


def _split_block(block: Block, names: _Names, whole: frozenset[str]) -> None:
    segment: list[Operation] = []
    for op in list(block.ops):
        if op.has_trait(IsTerminator) or is_structural(op, whole):
            _wrap_segment(segment, block, op, names, whole)
            segment = []
            for region in op.regions:
                for inner in region.blocks:
                    _split_block(inner, names, whole)
        elif op.regions and not any(isinstance(inner, EFFECTS) for inner in op.walk()):
            segment += separate_loops(op, whole)
        else:
            segment.append(op)
    _wrap_segment(segment, block, None, names, whole)


def _is_outside(op: Operation, inside: set[Operation]) -> bool:
    """Declarations, and scalar work that needs nothing from a phase."""
    if isinstance(op, SizeOp | TileOp | WholeOp | ScratchOp):
        return True
    if isinstance(op, (BoundaryOp, AccessOp, *EFFECTS)) or (op.regions and accesses_of(op)):
        return False
    values = [*inputs_of(op), *op.results]
    return not any(isinstance(value.type, TensorType) or value.owner in inside for value in values)


def _wrap_segment(
    ops: Sequence[Operation], block: Block, end: Operation | None, names: _Names, whole: frozenset[str]
) -> None:
    """Replace the operations of a segment, which end before `end`, by phases; boundaries go."""
    inside: dict[Operation, None] = {}
    for op in ops:
        if not _is_outside(op, set(inside)):
            inside[op] = None
    levels = _Levels(whole)
    for op in inside:
        levels.place(op)
    levels.sink()
    phases: dict[int, list[Operation]] = {}
    for op in inside:
        if isinstance(op, BoundaryOp):
            op.detach()  # type: ignore[no-untyped-call]
        else:
            phases.setdefault(levels.of[op], []).append(op)
    for level in sorted(phases):
        _wrap(phases[level], block, end, names.unique(levels.names.get(level) or _name_of(phases[level], whole)))


@dataclass
class _Levels:
    """The number of the phase that each operation of a segment belongs to.

    Operations go to the first phase they can be in; what has no effect then sinks to its first user, but what is
    computed from memory or reductions before a boundary of the author's stays before it.
    """

    whole: frozenset[str]
    of: dict[Operation, int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    floor: int = 0
    top: int = 0
    found: list[tuple[MemoryAccess, Operation]] = field(default_factory=list)
    latest: dict[Operation, int] = field(default_factory=dict)
    """How far down an operation that reads may sink."""
    boundaries: list[int] = field(default_factory=list)
    passed: dict[Operation, int] = field(default_factory=dict)
    """How many boundaries stand before an operation that is computed from memory or reductions."""

    def place(self, op: Operation) -> None:
        if isinstance(op, BoundaryOp):
            self._bound(op)
            return
        accesses = accesses_of(op)
        level = self.floor if self._is_anchor(op) or accesses else 0
        for value in inputs_of(op):
            owner = value.owner
            if isinstance(owner, Operation) and owner in self.of:
                level = max(level, self.of[owner] + ends_phase(owner, self.whole))
        for access in accesses:
            for earlier, at in self.found:
                if at is not op and clash(access, earlier):
                    level = max(level, self.of[at] + (not elementwise(access, earlier)))
            self.found.append((access, op))
        if accesses or ends_phase(op, self.whole) or any(value.owner in self.passed for value in inputs_of(op)):
            self.passed[op] = len(self.boundaries)
        self.of[op] = level
        self.top = max(self.top, level)

    def _bound(self, op: BoundaryOp) -> None:
        if self.of:
            self.floor = self.top + 1
            self.boundaries.append(self.top)
        if op.phase is not None:
            self.names[self.floor] = op.phase.data

    def _is_anchor(self, op: Operation) -> bool:
        if op.regions:
            return any(isinstance(inner, EFFECTS) for inner in op.walk())
        return isinstance(op, EFFECTS) or ends_phase(op, self.whole)

    def sink(self) -> None:
        """Move what has no effect down to its first user, but no load past a store that could change it."""
        limits = self._limits()
        for op in reversed(list(self.of)):
            if self._is_anchor(op):
                continue
            users = [self._user(use.operation) for result in op.results for use in result.uses]
            here = [self.of[user] for user in users if user is not None]
            if here:
                self.of[op] = max(self.of[op], min(min(here), limits.get(op, self.top)))

    def _user(self, op: Operation | None) -> Operation | None:
        while op is not None and op not in self.of:
            op = op.parent_op()
        return op

    def _limits(self) -> dict[Operation, int]:
        """The last phase that operations may be in: of those that read, and of those computed before a boundary."""
        before = (op for op, number in self.passed.items() if number < len(self.boundaries))
        limits = {op: self.boundaries[self.passed[op]] for op in before if not _widens(op)}
        for number, (access, op) in enumerate(self.found):
            if access.writes:
                continue
            ends = [top for top in self.boundaries if top >= self.of[op]]
            for later, at in self.found[number + 1 :]:
                if at is not op and later.writes and clash(access, later):
                    ends.append(self.of[at] - (not elementwise(access, later)))
            if ends:
                limits[op] = min(min(ends), limits.get(op, self.top))
        return limits


def _widens(op: Operation) -> bool:
    """Whether f16 or bf16 is extended: better after a boundary than before, since what crosses takes half the room.

    What is extended then takes the name of the result.
    """
    if not isinstance(op, arith.ExtFOp) or element_of(op.operands[0]) not in (f16, bf16):
        return False
    op.operands[0].name_hint = op.operands[0].name_hint or op.results[0].name_hint
    return True


def _name_of(ops: Sequence[Operation], whole: frozenset[str]) -> str:
    """A phase is named after the last reduction it completes, else after what it stores."""
    for op in reversed(ops):
        if ends_phase(op, whole):
            return op.results[0].name_hint or op.name.removeprefix("vk.")
    for op in reversed(ops):
        for access in reversed(accesses_of(op)):
            if access.writes:
                return access.base.name_hint or "store"
    for op in reversed(ops):
        for result in op.results:
            if result.name_hint is not None:
                return result.name_hint
    return "phase"


def _wrap(ops: Sequence[Operation], block: Block, end: Operation | None, name: str) -> None:
    """Move operations into one `vk.phase` before `end`; what others use becomes its results."""
    members = set(ops)
    crossing = [result for op in ops for result in op.results if _is_used_outside(result, members, block)]
    types: list[Attribute] = [value.type for value in crossing]
    phase = PhaseOp(name, types, Region(Block()))
    phase.location = ops[0].location
    for value, result in zip(crossing, phase.results_, strict=True):
        result.name_hint = value.name_hint
        for use in list(value.uses):
            if _ancestor_in(block, use.operation) not in members:
                use.operation.operands[use.index] = result
    for op in ops:
        op.detach()  # type: ignore[no-untyped-call]
    phase.body.block.add_ops([*ops, YieldOp(crossing)])
    if end is None:
        block.add_op(phase)
    else:
        block.insert_op_before(phase, end)


def _is_used_outside(value: SSAValue, members: set[Operation], block: Block) -> bool:
    return any(_ancestor_in(block, use.operation) not in members for use in value.uses)


def _ancestor_in(block: Block, op: Operation | None) -> Operation | None:
    while op is not None and op.parent is not block:
        op = op.parent_op()
    return op
