"""What the needs of a program depend on, of the device that it is compiled for: plain numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Device:
    """A device as needs see it.

    `warp`: threads that run in step, 1 on a CPU. `registers`: the most a thread can have before it spills (CPU: vector
    registers); `register_bytes`: of one. `block_registers`: what all threads of one program share, 0 where that bounds
    nothing. `tensor_memory`: columns in which tensor cores accumulate, 0 where they do so in registers.
    `copies_ahead`: pipelined loads pass registers by on their way to shared memory. `dots_from_shared`: tensor cores
    read operands there, not in registers. `tensor_cores`: whether there are any, for f16 and bf16.
    `accumulators`: a thread has as many registers again in which tensor cores accumulate.
    `is_amd`: its code comes of another compiler than NVIDIA's, whose registers were fitted apart.
    """

    warp: int
    registers: int
    register_bytes: int = 4
    block_registers: int = 0
    tensor_memory: int = 0
    copies_ahead: bool = False
    dots_from_shared: bool = False
    tensor_cores: bool = True
    accumulators: bool = False
    is_amd: bool = False

    @property
    def is_cpu(self) -> bool:
        return self.warp == 1

    def registers_of(self, threads: int) -> int:
        """The most registers a thread of a program of so many can have."""
        most = 2 * self.registers if self.accumulators else self.registers
        return most if not self.block_registers else min(most, self.block_registers // max(1, threads))
