"""Split kernels into phases: maximal regions that can run chunk by chunk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations, combinations_with_replacement, count

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp, TensorType, bf16, f16
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator, Pure

from ..analysis.accesses import (
    CONTROL,
    EFFECTS,
    LOOPS,
    MemoryAccess,
    accesses_of,
    ancestors,
    has_effect,
    inputs_of,
)
from ..analysis.grid_phases import mark_grid_phase
from ..analysis.meeting import clash, elementwise
from ..dialect import (
    BoundaryOp,
    DotOp,
    GatherOp,
    KernelOp,
    LoadOp,
    PhaseOp,
    ReadOp,
    ReductionOp,
    ScanByOp,
    ScanOp,
    ScratchOp,
    SizeOp,
    TileOp,
    WholeOp,
    WriteOp,
    YieldOp,
    arith,
    axes_of,
    element_of,
)
from ..dialect.blocks import terminator
from .narrow_integers import narrow_integers
from .own_operands import own_operands
from .separate_loops import separate_loops


@dataclass(frozen=True)
class SplitPhases(ModulePass):
    """Wrap each maximal region that can run chunk by chunk in a `vk.phase`.

    A phase ends where a reduction over a whole axis completes and is used, where two accesses to one memory, one
    of them a write, may conflict at different positions, and at the author's `vk.boundary`. Loops and conditionals
    that contain such an end are split inside; others are part of a phase. Values that a phase computes and a later one
    uses are results of its `vk.phase`. A phase loads once what it loads of a tensor that nothing writes. Small integers
    that are multiplied with bf16 or f16 become such. Kernels that have phases already are not changed.
    """

    name = "split-phases"
    result = "the same, cut into phases"

    def apply(self, context: Context, module: ModuleOp) -> None:
        split_phases(module)


def _drop_unused(kernel: KernelOp) -> None:
    """Erase what nobody uses and nobody would miss, such as tests of masks that a constant leaves out: it would take
    time and registers in the models, and in no binary. Reads stay, since they may report what is out of range."""
    for op in reversed(list(kernel.walk())):
        if op.has_trait(Pure) and op.results and not op.regions and not any(result.uses for result in op.results):
            Rewriter.erase_op(op)


def split_phases(module: ModuleOp) -> None:
    """Split every `vk.kernel` of a module, in place. See `SplitPhases`."""
    for op in module.body.block.ops:
        if isinstance(op, KernelOp) and not any(isinstance(inner, PhaseOp) for inner in op.walk()):
            _drop_unused(op)
            narrow_integers(op)
            whole = frozenset(inner.axis.data for inner in op.body.block.ops if isinstance(inner, WholeOp))
            _split_block(op.body.block, Counter(), whole)
            _share_loads(op)
            own_operands(op)
            _name_crossing(op)


def _share_loads(kernel: KernelOp) -> None:
    """Let a phase load once what its author wrote twice, as in `x[i, k] * x[i, k]`, of tensors that the kernel does not
    write: models count each load, and what is loaded in one place can be packed. What several phases load stays with
    each, as a value that crosses phases would have a home."""
    written = {op.base for op in kernel.walk() if isinstance(op, WriteOp)}
    for phase in [op for op in kernel.walk() if isinstance(op, PhaseOp)]:
        seen: dict[tuple[object, ...], ReadOp] = {}
        for op in list(phase.body.block.ops):
            if isinstance(op, LoadOp | GatherOp) and isinstance(op.base, BlockArgument) and op.base not in written:
                key = type(op), tuple(op.operands), tuple(sorted(op.properties.items())), op.result.type
                if (same := seen.setdefault(key, op)) is not op:
                    same.result.name_hint = same.result.name_hint or op.result.name_hint
                    Rewriter.replace_op(op, [], [same.result])


def _name_crossing(kernel: KernelOp) -> None:
    """Number the tiles that cross phases without a name, so that a plan can give each a home of its own.

    The first keeps the name that homes have without one, `value`.
    """
    pairs = [
        (result, value)
        for phase in kernel.walk()
        if isinstance(phase, PhaseOp)
        for result, value in zip(phase.results_, terminator(phase.body.block).operands, strict=True)
    ]
    taken = {result.name_hint for op in kernel.walk() for result in op.results}
    names = (name for number in count(2) if (name := f"value{number}") not in taken)
    unnamed = [pair for pair in pairs if pair[0].name_hint is None and isinstance(pair[0].type, TensorType)]
    for result, value in unnamed[1:]:
        result.name_hint = value.name_hint = next(names)


def is_structural(op: Operation, whole: frozenset[str]) -> bool:
    """Whether a loop or conditional contains the end of a phase, so that it runs outside of chunk loops."""
    if not isinstance(op, CONTROL):
        return False
    axes: set[str] = set()
    for inner in (inner for region in op.regions for inner in region.walk()):
        if isinstance(inner, BoundaryOp | PhaseOp | ScanOp | ScanByOp) or ends_phase(inner, whole):
            return True
        axes.update(axis for value in (*inner.operands, *inner.results) for axis in axes_of(value))
    found = accesses_of(op)
    # Results of a loop with effects must not be recomputed.
    if any(access.writes for access in found) and any(result.first_use is not None for result in op.results):
        return True
    if isinstance(op, scf.WhileOp) and any(whole.intersection(axes_of(r)) != axes & whole for r in op.results):
        return True
    # A store that lacks an axis of the loop would run once for each of its chunks.
    if any(access.writes and access.axes & whole != axes & whole for access in found):
        return True
    loop = op if isinstance(op, LOOPS) else None
    pairs = combinations(found, 2) if loop is None else combinations_with_replacement(found, 2)
    return any(clash(one, other) and not elementwise(one, other, loop=loop) for one, other in pairs)


def ends_phase(op: Operation, whole: frozenset[str]) -> bool:
    """Whether an operation's result is complete only after all of a whole axis."""
    return isinstance(op, ReductionOp | DotOp) and op.axis.data in whole


def _split_block(block: Block, names: Counter[str], whole: frozenset[str]) -> None:
    """Split a block and those inside. `names`: how often each name of a phase is used."""
    segment: list[Operation] = []
    for op in list(block.ops):
        if op.has_trait(IsTerminator) or is_structural(op, whole):
            _wrap_segment(segment, block, op, names, whole)
            segment = []
            for inner in (inner for region in op.regions for inner in region.blocks):
                _split_block(inner, names, whole)
        elif op.regions and not has_effect(op) and not isinstance(op, ScanByOp):
            segment += separate_loops(op, whole)
        else:
            segment.append(op)
    _wrap_segment(segment, block, None, names, whole)


def _is_outside(op: Operation, inside: set[Operation]) -> bool:
    """Whether an operation is a declaration, or scalar work that needs nothing from a phase."""
    if isinstance(op, SizeOp | TileOp | WholeOp | ScratchOp):
        return True
    if isinstance(op, (BoundaryOp, *EFFECTS)) or accesses_of(op):
        return False
    values = [*inputs_of(op), *op.results]
    return not any(isinstance(value.type, TensorType) or value.owner in inside for value in values)


def _wrap_segment(
    ops: Sequence[Operation], block: Block, end: Operation | None, names: Counter[str], whole: frozenset[str]
) -> None:
    """Replace the operations of a segment, which end before `end`, by phases; remove boundaries."""
    levels = _Levels(whole)
    inside: set[Operation] = set()
    for op in ops:
        if not _is_outside(op, inside):
            inside.add(op)
            levels.place(op)
    levels.sink()
    phases: dict[int, list[Operation]] = {}
    for op in (op for op in ops if op in inside):
        if isinstance(op, BoundaryOp):
            block.detach_op(op)
        else:
            phases.setdefault(levels.of[op], []).append(op)
    made: list[tuple[int, PhaseOp]] = []
    for level, members in sorted(phases.items()):
        name = levels.names.get(level) or _name_of(members, whole)
        names[name] += 1
        made.append((level, _wrap(members, block, end, name if names[name] == 1 else f"{name}_{names[name]}")))
    for top in levels.grids:
        after = next((phase for level, phase in made if level > top), end)
        mark_grid_phase(block, after)


@dataclass
class _Levels:
    """The number of the phase that each operation of a segment belongs to.

    Operations go to the first possible phase; those without effects then sink to their first user, but those computed
    from memory or reductions before a boundary of the author stay before it. `passed`: for operations computed from
    memory or reductions, the number of boundaries before them. `grids`: the number of the last phase before each
    boundary at which all programs wait.
    """

    whole: frozenset[str]
    of: dict[Operation, int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    floor: int = 0
    top: int = 0
    found: list[tuple[MemoryAccess, Operation]] = field(default_factory=list)
    boundaries: list[int] = field(default_factory=list)
    grids: list[int] = field(default_factory=list)
    passed: dict[Operation, int] = field(default_factory=dict)

    def place(self, op: Operation) -> None:
        if isinstance(op, BoundaryOp):
            self._bound(op)
            return
        accesses = accesses_of(op)
        level = self.floor if self._is_anchor(op) or accesses else 0
        owners = [value.owner for value in inputs_of(op) if isinstance(value.owner, Operation)]
        for owner in owners:
            if owner in self.of:
                level = max(level, self.of[owner] + ends_phase(owner, self.whole))
        for access in accesses:
            for earlier, at in self.found:
                if at is not op and clash(access, earlier):
                    level = max(level, self.of[at] + (not elementwise(access, earlier)))
            self.found.append((access, op))
        if accesses or ends_phase(op, self.whole) or any(owner in self.passed for owner in owners):
            self.passed[op] = len(self.boundaries)
        self.of[op] = level
        self.top = max(self.top, level)

    def _bound(self, op: BoundaryOp) -> None:
        if self.of:
            self.floor = self.top + 1
            self.boundaries.append(self.top)
        if op.grid is not None:
            self.grids.append(self.floor - 1)
        if op.phase is not None:
            self.names[self.floor] = op.phase.data

    def _is_anchor(self, op: Operation) -> bool:
        return has_effect(op) or ends_phase(op, self.whole)

    def sink(self) -> None:
        """Move operations without effects down to their first user, but no load past a store that could change it."""
        limits = self._limits()
        for op in reversed([op for op in self.of if not self._is_anchor(op)]):
            users = [self._user(use.operation) for result in op.results for use in result.uses]
            here = [self.of[user] for user in users if user is not None]
            if here:
                self.of[op] = max(self.of[op], min(*here, limits.get(op, self.top)))

    def _user(self, op: Operation) -> Operation | None:
        return next((user for user in (op, *ancestors(op)) if user in self.of), None)

    def _limits(self) -> dict[Operation, int]:
        """The last possible phase of operations that read, and of those computed before a boundary."""
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
                limits[op] = min(*ends, limits.get(op, self.top))
        return limits


def _widens(op: Operation) -> bool:
    """Whether an operation extends f16 or bf16: better after a boundary, because the narrow value needs less memory.

    The operand then takes the name of the result.
    """
    if not isinstance(op, arith.ExtFOp) or element_of(op.operands[0]) not in (f16, bf16):
        return False
    op.operands[0].name_hint = op.operands[0].name_hint or op.results[0].name_hint
    return True


def _name_of(ops: Sequence[Operation], whole: frozenset[str]) -> str:
    """The name of a phase: of the last reduction that it completes, else of the last tensor that it stores."""
    backwards = ops[::-1]
    reductions = (op.results[0].name_hint or op.name.removeprefix("vk.") for op in backwards if ends_phase(op, whole))
    accesses = (access for op in backwards for access in reversed(accesses_of(op)))
    stores = (access.base.name_hint or "store" for access in accesses if access.writes)
    names = (result.name_hint for op in backwards for result in op.results if result.name_hint is not None)
    return next(chain(reductions, stores, names), "phase")


def _wrap(ops: Sequence[Operation], block: Block, end: Operation | None, name: str) -> PhaseOp:
    """Move operations into one `vk.phase` before `end`; values that other operations use become its results."""
    members = set(ops)
    outside = {
        result: [use for use in result.uses if block.find_ancestor_op_in_block(use.operation) not in members]
        for op in ops
        for result in op.results
    }
    crossing = [value for value, uses in outside.items() if uses]
    types: list[Attribute] = [value.type for value in crossing]
    phase = PhaseOp(name, types, Region(Block()))
    phase.location = ops[0].location
    for value, result in zip(crossing, phase.results_, strict=True):
        result.name_hint = value.name_hint
        for use in outside[value]:
            use.operation.operands[use.index] = result
    phase.body.block.add_ops([*map(block.detach_op, ops), YieldOp(crossing)])
    Rewriter.insert_op(phase, InsertPoint.at_end(block) if end is None else InsertPoint.before(end))
    return phase
