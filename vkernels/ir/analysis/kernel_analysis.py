"""What apply_plan reads off a kernel that is split into phases."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, OpResult, SSAValue

from ..dialect import DotOp, KernelOp, PhaseOp, ReductionOp, ScanOp, YieldOp, axes_of
from .accesses import MemoryAccess, accesses_of, inputs_of
from .axes import MappedAxis
from .effects import CONTROL, EFFECTS


@dataclass
class KernelAnalysis:
    """A kernel's operations in program order, and of each: its phase, its chunked axes, what it accesses.

    An *item* is an operation directly in a phase (or beside phases); what its regions hold belongs to it.
    """

    kernel: KernelOp
    axes: dict[str, MappedAxis]
    position: dict[Operation, int] = field(default_factory=dict)
    phase: dict[Operation, PhaseOp] = field(default_factory=dict)
    """Items of phases, and the phase of each."""
    structures: dict[Operation, tuple[Operation, ...]] = field(default_factory=dict)
    """Of every phase and every structural operation: the structural operations around it, outermost first."""
    chunked: frozenset[str] = frozenset()
    _chunks: dict[Operation, frozenset[str]] = field(default_factory=dict)
    _accesses: dict[Operation, list[MemoryAccess]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chunked = frozenset(axis.name for axis in self.axes.values() if axis.is_chunked)
        if self.position:
            return
        for number, op in enumerate(self.kernel.walk()):
            self.position[op] = number
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
        """The same kernel with other sizes, and not gone through again."""
        return KernelAnalysis(self.kernel, axes, self.position, self.phase, self.structures, _accesses=self._accesses)

    @cached_property
    def scans(self) -> bool:
        """Whether there are scans."""
        return any(isinstance(item, ScanOp) for item in self.phase)

    def is_structural(self, op: Operation) -> bool:
        """Whether an operation is a loop or conditional around phases."""
        return op in self.structures and not isinstance(op, PhaseOp)

    def source(self, value: SSAValue) -> SSAValue:
        """The value itself: for a phase's result, what the phase yields for it."""
        owner = value.owner
        if isinstance(owner, PhaseOp) and isinstance(value, OpResult):
            terminator = owner.body.block.last_op
            assert isinstance(terminator, YieldOp)
            return self.source(terminator.values[value.index])
        return value

    def item_of(self, op: Operation) -> Operation:
        """The item that an operation belongs to."""
        while op not in self.phase:
            parent = op.parent_op()
            if parent is None or parent is self.kernel or parent in self.structures:
                return op
            op = parent
        return op

    def chunks_of_value(self, value: SSAValue) -> frozenset[str]:
        """The chunked axes of a tile."""
        return self.chunked.intersection(axes_of(value)) if isinstance(value.type, TensorType) else frozenset()

    def chunks(self, op: Operation) -> frozenset[str]:
        """The chunked axes of everything that an item touches: the loops that it has to run in."""
        found = self._chunks.get(op)
        if found is None:
            axes: set[str] = set()
            inner = [op, *(o for region in op.regions for o in region.walk())]
            for one in inner:
                for value in (*one.operands, *one.results):
                    if isinstance(value.type, TensorType):
                        axes.update(axes_of(value))
            found = self._chunks[op] = self.chunked & axes
        return found

    def accesses(self, op: Operation) -> list[MemoryAccess]:
        found = self._accesses.get(op)
        if found is None:
            found = self._accesses[op] = accesses_of(op)
        return found

    def has_effect(self, op: Operation) -> bool:
        if op.regions:
            return any(isinstance(inner, EFFECTS) for inner in op.walk())
        return isinstance(op, EFFECTS)

    def is_chunk_reduction(self, op: Operation) -> bool:
        """Whether an item combines all of an axis that is processed in chunks."""
        return isinstance(op, ReductionOp | DotOp) and op.axis.data in self.chunked

    def sliced(self, values: Iterable[SSAValue], stop: Callable[[SSAValue], bool]) -> list[Operation]:
        """The items that compute values, in program order, from what `stop` says is at hand.

        A reduction over chunks is one item: what its loop computes is not part of the slice.
        """
        found: set[Operation] = set()
        todo = [self.source(value) for value in values]
        while todo:
            value = todo.pop()
            if stop(value) or not isinstance(value.owner, Operation):
                continue
            item = self.item_of(value.owner)
            if item not in found:
                found.add(item)
                inputs = [item.sum] if isinstance(item, DotOp) else []
                if not self.is_chunk_reduction(item):
                    inputs = list(inputs_of(item))
                todo += [self.source(v) for v in inputs]
        return sorted(found, key=self.position.__getitem__)


def _holds_tiles(op: Operation) -> bool:
    """Whether a loop or conditional is more than scalar work."""
    inner = [one for region in op.regions for one in region.walk()]
    values = [*op.results, *(argument for region in op.regions for block in region.blocks for argument in block.args)]
    return any(isinstance(one, PhaseOp) for one in inner) or any(isinstance(v.type, TensorType) for v in values)
