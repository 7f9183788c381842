"""Instructions counted by what they do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto


class Kind(Enum):
    """What an instruction counts as; one may count as several, any other as none."""

    TENSOR_CORE = auto()
    GLOBAL_LOAD = auto()
    GLOBAL_STORE = auto()
    WIDE_LOAD = auto()
    WIDE_STORE = auto()
    SHARED_LOAD = auto()
    SHARED_STORE = auto()
    PRIVATE_LOAD = auto()
    PRIVATE_STORE = auto()
    BARRIER = auto()


@dataclass(frozen=True)
class Instruction:
    """What one instruction counts as, and the bytes a thread that it moves to or from memory of the thread's own."""

    kinds: frozenset[Kind] = frozenset()
    private_bytes: int = 0


@dataclass(frozen=True)
class InstructionMix:
    """Instructions in a kernel's text, each counted once however often it runs; padding is left out.

    `tensor_core`: matrix multiplications. `global_loads`, `global_stores`: of device memory, copies to shared
    memory among the loads; `wide_loads` and `wide_stores` are those of 16 bytes a thread or more. `shared_loads`,
    `shared_stores`: of shared memory. `spill_loads`, `spill_stores`: of memory of the thread's own.
    """

    instructions: int
    tensor_core: int
    global_loads: int
    global_stores: int
    wide_loads: int
    wide_stores: int
    shared_loads: int
    shared_stores: int
    spill_loads: int
    spill_stores: int
    barriers: int


def mix_of(instructions: Iterable[Instruction]) -> InstructionMix:
    """The counts of some instructions."""
    listed = list(instructions)
    n = Counter(kind for instruction in listed for kind in instruction.kinds)
    return InstructionMix(
        len(listed), n[Kind.TENSOR_CORE], n[Kind.GLOBAL_LOAD], n[Kind.GLOBAL_STORE], n[Kind.WIDE_LOAD],
        n[Kind.WIDE_STORE], n[Kind.SHARED_LOAD], n[Kind.SHARED_STORE], n[Kind.PRIVATE_LOAD], n[Kind.PRIVATE_STORE],
        n[Kind.BARRIER],
    )  # fmt: skip
