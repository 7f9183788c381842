"""What a binary says of its kernel: its table, and its instructions counted by what they do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class KernelTable:
    """`registers`: vector registers a thread, accumulators included where both are one file; `stack`: bytes a thread.

    `static_shared`: bytes a program, without what a launch requests. `accumulators`, `scalar_registers`: AMD's, of a
    thread and of a wave. `text`: NVIDIA's instructions in binary.
    """

    registers: int
    stack: int
    static_shared: int
    accumulators: int = 0
    scalar_registers: int = 0
    text: bytes = b""


@dataclass(frozen=True)
class Instruction:
    """One instruction. `kinds`: the counts of `InstructionMix` that it adds to; `private_bytes`: bytes a thread that it
    moves to or from memory of the thread's own."""

    kinds: tuple[str, ...] = ()
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


def mix_of(instructions: Sequence[Instruction]) -> InstructionMix:
    """The counts of some instructions."""
    counts = Counter(kind for instruction in instructions for kind in instruction.kinds)
    return InstructionMix(len(instructions), *(counts[field.name] for field in fields(InstructionMix)[1:]))
