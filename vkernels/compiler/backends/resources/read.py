"""The resources of a binary, of any vendor."""

from __future__ import annotations

from dataclasses import dataclass

from vkernels.ir.occupancy import BinaryUse
from vkernels.ir.planning.resources import BinaryResources

from ..triton_adapter import Binary
from . import amd, nvidia
from .mix import InstructionMix, KernelTable, mix_of


@dataclass(frozen=True)
class Resources:
    """What one program of a kernel uses. Bytes of shared memory a program, of all else a thread.

    `registers`: 32-bit vector registers a thread, accumulators included where the device has them in one file;
    `accumulators`, `scalar_registers`: AMD's, a thread and a wave. `spill_store_bytes`, `spill_load_bytes`: what the
    text's spill instructions move, each counted once. `stack`: bytes of memory of the thread's own.
    `static_shared` is fixed in the binary, without what the system reserves; `dynamic_shared` is requested by a launch.
    `tensor_memory`: columns. `mix`: what the instructions are.
    """

    registers: int
    accumulators: int
    scalar_registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack: int
    static_shared: int
    dynamic_shared: int
    tensor_memory: int
    mix: InstructionMix

    @property
    def spill_bytes(self) -> int:
        """Bytes that the text's spill instructions move, stores and loads together."""
        return self.spill_store_bytes + self.spill_load_bytes

    @property
    def shared(self) -> int:
        """Bytes of shared memory a program, without what the system reserves."""
        return self.static_shared + self.dynamic_shared


def read_resources(binary: Binary, seconds: float = 60, disassembly: str = "") -> Resources:
    """What a binary uses, from its own tables and its disassembly.

    `seconds`: at most so long for the disassembler. `disassembly`: NVIDIA's, where it is known already. Raises
    `FileError` for a binary that is damaged or cannot be disassembled, `SetupError` where there is no disassembler.
    """
    table = _table_of(binary)
    if binary.architecture.startswith("sm_"):
        instructions = nvidia.instructions_in(disassembly)
        if not instructions:
            instructions = nvidia.instructions_of(table.text, binary.architecture, seconds)
    else:
        instructions = amd.instructions_of(binary.assembly, binary.name)
    stores, loads = (
        sum(each.private_bytes for each in instructions if kind in each.kinds)
        for kind in ("spill_stores", "spill_loads")
    )
    return Resources(
        table.registers, table.accumulators, table.scalar_registers, stores, loads, table.stack, table.static_shared,
        binary.shared, binary.tensor_memory, mix_of(instructions),
    )  # fmt: skip


def taken_by(resources: Resources, threads: int) -> BinaryResources:
    """The resources that decide whether a program of `threads` threads fits."""
    use = BinaryUse(threads, resources.registers, resources.shared, scalars=resources.scalar_registers)
    return BinaryResources(use, resources.stack, resources.tensor_memory)


def read_taken(binary: Binary) -> BinaryResources:
    """The same from the binary's tables alone, which takes no disassembler and no time. Raises `FileError`."""
    table = _table_of(binary)
    shared = table.static_shared + binary.shared
    use = BinaryUse(binary.threads, table.registers, shared, scalars=table.scalar_registers)
    return BinaryResources(use, table.stack, binary.tensor_memory)


def _table_of(binary: Binary) -> KernelTable:
    if binary.architecture.startswith("sm_"):
        return nvidia.facts_of(binary.code, binary.name, binary.architecture)
    return amd.table_of(binary.assembly, binary.name)
