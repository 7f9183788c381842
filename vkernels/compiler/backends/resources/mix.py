"""Instructions counted by what they do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto


class InstructionKind(Enum):
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

    kinds: frozenset[InstructionKind] = frozenset()
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
        len(listed),
        n[InstructionKind.TENSOR_CORE],
        n[InstructionKind.GLOBAL_LOAD],
        n[InstructionKind.GLOBAL_STORE],
        n[InstructionKind.WIDE_LOAD],
        n[InstructionKind.WIDE_STORE],
        n[InstructionKind.SHARED_LOAD],
        n[InstructionKind.SHARED_STORE],
        n[InstructionKind.PRIVATE_LOAD],
        n[InstructionKind.PRIVATE_STORE],
        n[InstructionKind.BARRIER],
    )
