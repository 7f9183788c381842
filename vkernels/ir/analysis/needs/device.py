"""What the needs of a program depend on, of the device that it is compiled for: plain numbers."""

from __future__ import annotations

from dataclasses import dataclass

from ...limits import Limits
from ...occupancy import AmdSizes, NvidiaSizes


@dataclass(frozen=True)
class NeedsDevice:
    """A device as needs see it.

    `warp`: threads that run in step, 1 on a CPU. `registers`: the most a thread can have before it spills (CPU: vector
    registers), AMD's accumulators among them where they are of one file; `register_bytes`: of one. `block_registers`:
    what all threads of one program share, 0 where that bounds nothing. `tensor_memory`: columns in which tensor cores
    accumulate, 0 where they do so in registers. `copies_ahead`: pipelined loads pass registers by on their way to
    shared memory. `dots_from_shared`: tensor cores read operands there, not in registers. `tensor_cores`: whether
    Triton uses any, which before sm_80 it does not. `is_amd`: its code comes of
    another compiler than NVIDIA's, whose registers were fitted apart.
    """

    warp: int
    registers: int
    register_bytes: int = 4
    block_registers: int = 0
    tensor_memory: int = 0
    copies_ahead: bool = False
    dots_from_shared: bool = False
    tensor_cores: bool = True
    is_amd: bool = False

    @staticmethod
    def of(limits: Limits) -> NeedsDevice:
        """The device with some limits."""
        sizes, registers, shared_by_all = limits.sizes, limits.registers, 0
        if isinstance(sizes, NvidiaSizes):
            shared_by_all = sizes.block_registers
        elif isinstance(sizes, AmdSizes):
            shared_by_all = sizes.registers * sizes.partitions * sizes.warp
            registers = min(2 * registers, sizes.registers) if sizes.unified else registers
        return NeedsDevice(
            limits.warp, registers, limits.register_bytes, shared_by_all, limits.tensor_memory, limits.copies_ahead,
            limits.dots_from_shared, _has_tensor_cores(limits), isinstance(sizes, AmdSizes),
        )  # fmt: skip

    @property
    def is_cpu(self) -> bool:
        return self.warp == 1

    def registers_of(self, threads: int) -> int:
        """The most registers that a thread of a program of so many can have."""
        if not self.block_registers:
            return self.registers
        return min(self.registers, self.block_registers // max(1, threads))


def _has_tensor_cores(limits: Limits) -> bool:
    if isinstance(limits.sizes, NvidiaSizes):
        return limits.copies_ahead
    return limits.sizes is None or bool(limits.tensor_multiply_adds)
