"""The structure of a kernel that is split into phases, as scheduling and mapping use it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import NamedTuple, TypeGuard

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, OpResult, SSAValue

from ..dialect import SCANS, DotOp, KernelOp, PhaseOp, ReductionOp, YieldOp, axes_of
from .accesses import CONTROL, MemoryAccess, accesses_of, has_effect, inputs_of, may_alias
from .axes import MappedAxis
from .grid_phases import grid_steps
from .masks.conditions import ALWAYS, Condition
from .masks.neutral import Masks
from .sources import source_of


class Computed(NamedTuple):
    """A tile with chunked axes as one that an item uses: the item that computes it, and that item's position.
    `crosses`: it is used as a result of its phase."""

    value: OpResult
    item: Operation
    position: int
    crosses: bool


class ChunkedItem(NamedTuple):
    """An item of a phase with tiles that have chunked axes: its loops, whether it has an effect, and itself if it is a
    reduction whose result has no chunked axis."""

    item: Operation
    chunks: frozenset[str]
    has_effect: bool
    reduction: ReductionOp | DotOp | None


@dataclass
class _OperationFacts:
    """What was found out about operations and values, whatever the sizes: planning asks tens of thousands of times."""

    accesses: dict[Operation, list[MemoryAccess]] = field(default_factory=dict)
    inputs: dict[Operation, tuple[SSAValue, ...]] = field(default_factory=dict)
    effects: dict[Operation, bool] = field(default_factory=dict)
    sources: dict[SSAValue, SSAValue] = field(default_factory=dict)
    items: dict[Operation, Operation] = field(default_factory=dict)
    overwritten: dict[tuple[Operation, bool], list[MemoryAccess]] = field(default_factory=dict)
    masks: tuple[Condition, ...] | None = None
    step_of: Callable[[Operation], int] | None = None


@dataclass
class KernelAnalysis:
    """A kernel's operations in program order, and for each its phase, its chunked axes and its accesses.

    An *item* is an operation directly in a phase (or beside phases), with everything in its regions. `phase`: the
    items of phases, with the phase of each. `structures`: every phase and every structural operation, with the
    structural operations around it, outermost first.
    """

    kernel: KernelOp
    axes: dict[str, MappedAxis]
    position: dict[Operation, int] = field(default_factory=dict)
    phase: dict[Operation, PhaseOp] = field(default_factory=dict)
    structures: dict[Operation, tuple[Operation, ...]] = field(default_factory=dict)
    chunked: frozenset[str] = frozenset()
    _chunks: dict[Operation, frozenset[str]] = field(default_factory=dict)
    _chunks_of_values: dict[SSAValue, frozenset[str]] = field(default_factory=dict)
    _inputs_in_slices: dict[Operation, list[SSAValue]] = field(default_factory=dict)
    _reduces: dict[Operation, bool] = field(default_factory=dict)
    _computed: dict[tuple[int, bool], list[Computed]] = field(default_factory=dict)
    _facts: _OperationFacts = field(default_factory=_OperationFacts)
    _masks: Masks | None = None

    def __post_init__(self) -> None:
        self.chunked = frozenset(axis.name for axis in self.axes.values() if axis.is_chunked)
        if not self.position:
            self.position.update((op, number) for number, op in enumerate(self.kernel.walk()))
            self._read_block(self.kernel.body.block, ())

    def _read_block(self, block: Block, around: tuple[Operation, ...]) -> None:
        for op in block.ops:
            if isinstance(op, PhaseOp):
                self.structures[op] = around
                self.phase.update((item, op) for item in op.body.block.ops)
            elif isinstance(op, CONTROL) and _holds_tiles(op):
                self.structures[op] = around
                for region in op.regions:
                    for inner in region.blocks:
                        self._read_block(inner, (*around, op))

    def under(self, axes: dict[str, MappedAxis]) -> KernelAnalysis:
        """The same kernel with other sizes, without analysing it again."""
        return KernelAnalysis(
            self.kernel, axes, self.position, self.phase, self.structures, _facts=self._facts, _masks=self.masks
        )

    @cached_property
    def masks(self) -> Masks:
        """The masks of the kernel."""
        return Masks(self.source) if self._masks is None else self._masks

    @property
    def mask_conditions(self) -> tuple[Condition, ...]:
        """Where masks let reductions have terms, and stores write: none of a kernel without masks."""
        if self._facts.masks is None:
            reductions = (op for op in self.position if isinstance(op, ReductionOp | DotOp))
            found = chain(map(self.masks.of_reduction, reductions), map(self.masks.of_store, self.position))
            self._facts.masks = tuple(condition for condition in dict.fromkeys(found) if condition != ALWAYS)
        return self._facts.masks

    def overwritten(self, item: Operation, distinct: bool) -> list[MemoryAccess]:
        """The loads of an item from memory that the kernel writes; also from memory that may be the same, unless all
        tensors are distinct."""
        key = item, distinct
        found = self._facts.overwritten.get(key)
        if found is None:
            loads = [access for access in self.accesses(item) if not access.writes]
            writes = self._writes if loads else []
            found = [each for each in loads if any(may_alias(write, each, distinct) for write in writes)]
            self._facts.overwritten[key] = found
        return found

    @property
    def step_of(self) -> Callable[[Operation], int]:
        """How often all programs have waited for one another before an operation of the kernel."""
        if self._facts.step_of is None:
            self._facts.step_of = grid_steps(self.kernel)
        return self._facts.step_of

    @cached_property
    def _writes(self) -> list[MemoryAccess]:
        return [access for item in self.phase for access in self.accesses(item) if access.writes]

    @cached_property
    def scans(self) -> bool:
        """Whether there are scans."""
        return any(isinstance(item, SCANS) for item in self.phase)

    def is_structural(self, op: Operation) -> bool:
        """Whether an operation is a loop or conditional around phases."""
        return op in self.structures and not isinstance(op, PhaseOp)

    def source(self, value: SSAValue) -> SSAValue:
        """The value that a phase yields for its result; of another value, the value itself."""
        found = self._facts.sources.get(value)
        if found is None:
            found = self._facts.sources[value] = source_of(value)
        return found

    def phase_of(self, value: SSAValue) -> PhaseOp | None:
        """The phase that computes a value, if one does."""
        return self.phase.get(value.owner) if isinstance(value.owner, Operation) else None

    def item_of(self, op: Operation) -> Operation:
        """The item that an operation belongs to."""
        found = self._facts.items.get(op)
        if found is None:
            found = self._facts.items[op] = self._item_around(op)
        return found

    def _item_around(self, op: Operation) -> Operation:
        while op not in self.phase:
            parent = op.parent_op()
            if parent is None or parent is self.kernel or parent in self.structures:
                return op
            op = parent
        return op

    def inputs(self, item: Operation) -> tuple[SSAValue, ...]:
        """The operands of an item, and the values from outside that its regions use."""
        found = self._facts.inputs.get(item)
        if found is None:
            found = self._facts.inputs[item] = tuple(inputs_of(item))
        return found

    def has_effect(self, item: Operation) -> bool:
        """Whether an item has an effect besides its results."""
        found = self._facts.effects.get(item)
        if found is None:
            found = self._facts.effects[item] = has_effect(item)
        return found

    def chunks_of_value(self, value: SSAValue) -> frozenset[str]:
        """The chunked axes of a tile."""
        found = self._chunks_of_values.get(value)
        if found is None:
            found = self._chunks_of_values[value] = self.chunked.intersection(axes_of(value))
        return found

    def chunks(self, op: Operation) -> frozenset[str]:
        """The chunked axes of all tiles of an item: the loops that it must run in."""
        if op not in self._chunks:
            ops = op.walk() if op.regions else (op,)
            values = (value for inner in ops for value in (*inner.operands, *inner.results))
            self._chunks[op] = self.chunked.intersection(axis for value in values for axis in axes_of(value))
        return self._chunks[op]

    @cached_property
    def work(self) -> dict[PhaseOp, list[ChunkedItem]]:
        """The items of each phase that run in loops over chunks."""
        found: dict[PhaseOp, list[ChunkedItem]] = {op: [] for op in self.structures if isinstance(op, PhaseOp)}
        for item, phase in self.phase.items():
            if not isinstance(item, YieldOp) and (chunks := self.chunks(item)):
                is_whole = self.is_chunk_reduction(item) and chunks == {item.axis.data}
                reduction = item if is_whole and isinstance(item, ReductionOp | DotOp) else None
                found[phase].append(ChunkedItem(item, chunks, self.has_effect(item), reduction))
        return found

    def accesses(self, op: Operation) -> list[MemoryAccess]:
        found = self._facts.accesses.get(op)
        if found is None:
            found = self._facts.accesses[op] = accesses_of(op)
        return found

    def is_chunk_reduction(self, op: Operation) -> TypeGuard[ReductionOp | DotOp]:
        """Whether an item combines all of an axis that is processed in chunks."""
        found = self._reduces.get(op)
        if found is None:
            found = self._reduces[op] = isinstance(op, ReductionOp | DotOp) and op.axis.data in self.chunked
        return found

    def sliced(self, values: Iterable[SSAValue], stop: Callable[[SSAValue], bool]) -> list[Operation]:
        """The items that compute values, in program order, from values for which `stop` holds.

        A reduction over chunks is one item: the slice does not include what its loop computes.
        """
        found: set[Operation] = set()
        todo = [self.source(value) for value in values]
        while todo:
            value = todo.pop()
            if stop(value) or not isinstance(value, OpResult):
                continue
            item = self.item_of(value.owner)
            if item not in found:
                found.add(item)
                todo += self._slice_inputs(item)
        return sorted(found, key=self.position.__getitem__)

    def in_chunks(self, values: Iterable[SSAValue], stop: Callable[[SSAValue], bool]) -> list[Operation]:
        """The same from values without chunked axes, too, which are in registers: far sooner."""
        found: dict[int, Operation] = {}
        todo = self.computed(values)
        while todo:
            value, item, position, _ = todo.pop()
            if position not in found and not stop(value):
                found[position] = item
                todo += self.computed_inputs(item, position, through_reductions=False)
        return [found[position] for position in sorted(found)]

    def computed(self, values: Iterable[SSAValue]) -> list[Computed]:
        """Those of some values that are tiles with chunked axes, and what computes them."""
        found: list[Computed] = []
        for used in values:
            value = self.source(used)
            if isinstance(value, OpResult) and self.chunks_of_value(value):
                item = self.item_of(value.owner)
                found.append(Computed(value, item, self.position[item], value is not used))
        return found

    def computed_inputs(self, item: Operation, position: int, through_reductions: bool) -> list[Computed]:
        """Those of the inputs of an item; of a reduction over chunks, what its own loop computes, or else not."""
        key = position, through_reductions
        found = self._computed.get(key)
        if found is None:
            inputs: Iterable[SSAValue] = self.inputs(item)
            if not through_reductions and self.is_chunk_reduction(item):
                inputs = [item.sum] if isinstance(item, DotOp) else []
            found = self._computed[key] = self.computed(inputs)
        return found

    def _slice_inputs(self, item: Operation) -> list[SSAValue]:
        found = self._inputs_in_slices.get(item)
        if found is None:
            inputs: Iterable[SSAValue] = [item.sum] if isinstance(item, DotOp) else []
            if not self.is_chunk_reduction(item):
                inputs = self.inputs(item)
            found = self._inputs_in_slices[item] = [self.source(value) for value in inputs]
        return found


def _holds_tiles(op: Operation) -> bool:
    """Whether a loop or conditional is more than scalar work."""
    values = [*op.results, *(argument for region in op.regions for block in region.blocks for argument in block.args)]
    return any(isinstance(v.type, TensorType) for v in values) or any(isinstance(one, PhaseOp) for one in op.walk())
