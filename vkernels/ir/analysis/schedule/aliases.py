"""Whether a write may touch what a load reads, as far as their memories tell, and which values are equal therefore."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from ...facts import Facts
from ..accesses import MemoryAccess, has_effect, may_alias
from ..kernel_analysis import KernelAnalysis
from ..meeting import never_meet


def may_meet(write: MemoryAccess, load: MemoryAccess, facts: Facts) -> bool:
    """Whether both may touch the same element."""
    return may_alias(write, load, facts.distinct) and not never_meet(write, load)


@dataclass
class UnchangedValues:
    """Tells which items read only memory that the kernel never writes, and which values are equal for that reason."""

    analysis: KernelAnalysis
    facts: Facts
    known: dict[tuple[SSAValue, SSAValue], bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        analysis = self.analysis
        self.written = [access for op in analysis.phase for access in analysis.accesses(op) if access.writes]

    def is_unchanged(self, item: Operation) -> bool:
        """Whether an item has no effect and loads nothing that the kernel writes anywhere."""
        loads = self.analysis.accesses(item)
        return not has_effect(item) and not any(may_meet(a, b, self.facts) for b in loads for a in self.written)

    def are_equal(self, one: SSAValue, other: SSAValue) -> bool:
        """Whether the same operations compute two values from unchanged ones; false where that is not known."""
        one, other = self.analysis.source(one), self.analysis.source(other)
        if one is other:
            return True
        if (one, other) not in self.known:
            self.known[one, other] = self._are_computed_alike(one, other)
        return self.known[one, other]

    def _are_computed_alike(self, one: SSAValue, other: SSAValue) -> bool:
        a, b = one.owner, other.owner
        if not isinstance(a, Operation) or not isinstance(b, Operation) or type(a) is not type(b):
            return False
        if a.regions or len(a.results) != 1 or one.type != other.type or len(a.operands) != len(b.operands):
            return False
        if a.properties != b.properties or a.attributes != b.attributes or not self.is_unchanged(a):
            return False
        return self.is_unchanged(b) and all(map(self.are_equal, a.operands, b.operands))
