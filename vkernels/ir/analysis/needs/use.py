"""What a kernel takes under one plan: needs evaluated, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class PhaseUse:
    """One phase. Bytes moved and operations are those of all programs together.

    `register_bytes`: of tiles alive at once in one program, at the worst point. `registers_a_thread`: predicted, before
    any bound of the device (CPU: vector registers). `shared_bytes`: what the phase takes of on-chip memory for a time:
    conversions of layout, reductions across warps, operands of dots. `tensor_memory_columns`: accumulators.
    `global_read_bytes`, `global_write_bytes`: asked for, whatever caches make of it. `shared_bytes_moved`: to and from
    on-chip memory; `swap_bytes_moved`: to and from swap space. `operations`: elementwise and reductions, a plain sum
    or product as 1, others by weight; `tensor_operations`: of dots, two a multiply-add.
    `registers_at_least`: as `registers_a_thread`, but without what compilers need not keep alive: they take as many
    registers as there are, and do with these before they spill.
    """

    name: str
    register_bytes: float
    registers_a_thread: float
    shared_bytes: float
    tensor_memory_columns: float
    global_read_bytes: float
    global_write_bytes: float
    shared_bytes_moved: float
    swap_bytes_moved: float
    operations: float
    tensor_operations: float
    registers_at_least: float


@dataclass(frozen=True)
class NeedsUse:
    """All phases, and the kernel: the worst phase for what is held, sums for what is moved or done.

    `threads`: of a program. `shared_bytes`: of a program, `scratch_bytes` of them scratchpads and shared homes, for
    all of the program's life. `swap_bytes`: of a program that is resident. `distinct_read_bytes`: each element once;
    `global_read_bytes` may exceed it many times over, and caches make up for that. `programs`: of each launch.
    `spills`: whether a thread is predicted to spill more than 64 bytes on the device.
    """

    phases: tuple[PhaseUse, ...]
    threads: int
    register_bytes: float
    registers_a_thread: float
    spills: bool
    shared_bytes: float
    scratch_bytes: float
    swap_bytes: float
    tensor_memory_columns: float
    global_read_bytes: float
    distinct_read_bytes: float
    global_write_bytes: float
    shared_bytes_moved: float
    swap_bytes_moved: float
    operations: float
    tensor_operations: float
    programs: tuple[int, ...]

    @property
    def launches(self) -> int:
        return len(self.programs)


@dataclass(frozen=True)
class Columns:
    """What many plans hold, as numbers or NumPy arrays of shapes that are broadcast to that of the plans.

    Each as `NeedsUse` has it; `least_registers`: the most that a phase's `registers_at_least` is.
    """

    registers: Any
    least_registers: Any
    shared: Any
    tensor_memory: Any
