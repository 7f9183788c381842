"""The structure of a kernel that is split into phases, as scheduling and mapping use it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeGuard

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, OpResult, SSAValue

from ..dialect import DotOp, KernelOp, PhaseOp, ReductionOp, ScanOp, axes_of
from ..dialect.blocks import terminator
from .accesses import CONTROL, MemoryAccess, accesses_of, has_effect, inputs_of
from .axes import MappedAxis
from .masks.neutral import Masks


@dataclass
class _OperationFacts:
    """What was found out about operations and values, whatever the sizes: planning asks tens of thousands of times."""

    accesses: dict[Operation, list[MemoryAccess]] = field(default_factory=dict)
    inputs: dict[Operation, tuple[SSAValue, ...]] = field(default_factory=dict)
    effects: dict[Operation, bool] = field(default_factory=dict)
    sources: dict[SSAValue, SSAValue] = field(default_factory=dict)
    items: dict[Operation, Operation] = field(default_factory=dict)


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

    @cached_property
    def scans(self) -> bool:
        """Whether there are scans."""
        return any(isinstance(item, ScanOp) for item in self.phase)

    def is_structural(self, op: Operation) -> bool:
        """Whether an operation is a loop or conditional around phases."""
        return op in self.structures and not isinstance(op, PhaseOp)

    def source(self, value: SSAValue) -> SSAValue:
        """The value that a phase yields for its result; of another value, the value itself."""
        found = self._facts.sources.get(value)
        if found is None:
            owner = value.owner
            found = value
            if isinstance(owner, PhaseOp) and isinstance(value, OpResult):
                found = self.source(terminator(owner.body.block).operands[value.index])
            self._facts.sources[value] = found
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
