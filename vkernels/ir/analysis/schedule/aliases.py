"""Whether a write may touch what a load reads, as far as their memories tell."""

from __future__ import annotations

from ...dialect import TensorArgumentType
from ...facts import Facts
from ..accesses import MemoryAccess
from ..meeting import never_meet


def may_alias(write: MemoryAccess, load: MemoryAccess, facts: Facts) -> bool:
    """Whether both may touch one element: of one memory, or of two tensors that may be the same."""
    one, other = write.base, load.base
    may_overlap = not facts.distinct and isinstance(one.type, TensorArgumentType) and one.type == other.type
    return (one is other or may_overlap) and not never_meet(write, load)
