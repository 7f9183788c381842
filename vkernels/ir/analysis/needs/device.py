"""The device properties that a program's needs depend on: limits, and constants fitted to compiled binaries.

docs/needs.md says how the constants were fitted, and how accurate the predictions are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...limits import Limits
from ...occupancy import AmdSizes, NvidiaSizes

OTHER_WARPS = 4
"""Warps that move operands, or wait, where warps have roles: registers are given away by groups of four."""
UNKNOWN_TRIPS = 16
"""Assumed iterations of a loop whose bounds are not arithmetic on sizes."""


@dataclass(frozen=True)
class NeedsDevice:
    """A device as needs see it.

    `warp`: threads that run in step, 1 on a CPU. `registers`: the most that a thread can have before it spills (CPU:
    vector registers), including AMD's accumulators where both are one file; `register_bytes`: of one.
    `block_registers`: shared by all threads of one program, 0 for no limit. `tensor_memory`: columns in which tensor
    cores accumulate, 0 where they use registers. `copies_ahead`: pipelined loads bypass registers on their way to
    shared memory. `dots_from_shared`: tensor cores read operands from there, not from registers. `tensor_cores`:
    whether Triton uses them, which it does not before sm_80. `has_roles`: warps can divide a loop by role
    (`analysis/warp_roles.py`). `is_amd`: compiled by AMD's compiler, whose registers
    were fitted separately.
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
    has_roles: bool = False

    @staticmethod
    def of(limits: Limits) -> NeedsDevice:
        """The device with these limits."""
        sizes, registers, block_registers = limits.sizes, limits.registers, 0
        tensor_cores = sizes is None or bool(limits.tensor_multiply_adds)
        if isinstance(sizes, NvidiaSizes):
            block_registers, tensor_cores = sizes.block_registers, limits.copies_ahead
        elif isinstance(sizes, AmdSizes):
            block_registers = sizes.registers * sizes.partitions * sizes.warp
            registers = min(2 * registers, sizes.registers) if sizes.unified else registers
        return NeedsDevice(
            limits.warp, registers, limits.register_bytes, block_registers, limits.tensor_memory, limits.copies_ahead,
            limits.dots_from_shared, tensor_cores, isinstance(sizes, AmdSizes), limits.tensor_copies,
        )  # fmt: skip

    @property
    def is_cpu(self) -> bool:
        return self.warp == 1

    @property
    def multiplying_groups(self) -> int:
        """Groups of warps as large as a program's that multiply, where warps have roles: on sm_90 each holds a part of
        the rows."""
        return 2 if self.dots_from_shared and not self.tensor_memory else 1

    def multiplying_warps(self, warps: Any, has_roles: bool) -> Any:
        """Those of a program's warps that multiply, one number or an array."""
        return warps * self.multiplying_groups if has_roles and self.has_roles else warps

    def all_warps(self, warps: Any, has_roles: bool) -> Any:
        """The same with those that move operands."""
        return self.multiplying_warps(warps, has_roles) + (OTHER_WARPS if has_roles and self.has_roles else 0)

    def registers_of(self, threads: int) -> int:
        """The most registers per thread in a program with this many threads."""
        if not self.block_registers:
            return self.registers
        return min(self.registers, self.block_registers // max(1, threads))


NVIDIA = {
    "base": 22.0,
    "alive": 1.03,
    "sums": 1.0,
    "address": 0.4,
    "between": 0.8,
    "unrolled": 4.0,
    "operands": 0.3,
    "piped": 0.3,
    "going_on": 61.0,
}
AMD = {
    "base": 15.0,
    "alive": 1.6,
    "sums": 0.78,
    "address": 0.25,
    "between": 0.65,
    "unrolled": 4.0,
    "operands": 0.2,
    "piped": 0.2,
    "going_on": 110.0,
}
CPU = {
    "base": 1.0,
    "alive": 1.0,
    "sums": 1.0,
    "address": 0.0,
    "between": 1.0,
    "unrolled": 1.0,
    "operands": 1.0,
    "piped": 0.0,
    "going_on": 0.0,
}
"""Constants fitted to compiled binaries, for each kind of device.

`base`: registers of a thread without tiles: addresses of tensors, counters, scalars. `alive`: registers for each 4
bytes of live tiles; `sums`: the part of those that sums of dots on tensor cores take, around which AMD's scheduler does
not spread out (31 binaries of products for gfx90a, gfx942 and gfx950). `address`: for each register of addresses, many
of which compilers fold into accesses. `between`: the live part of values that are neither loaded nor wait. `unrolled`:
iterations of a loop within a phase that overlap.
`operands`: the live part of the operands of a dot on plain units; `piped`: more of them in a pipelined loop.
`going_on`: registers more where a persistent program's loop of dots goes on to the next program's, whose addresses and
masks it needs besides: 53 to 66 in four pairs of binaries of NVIDIA's, spilled ones included, 110 in one of AMD's.
"""


def constants_for(device: NeedsDevice) -> Mapping[str, float]:
    """The constants of a device by the names of their symbols."""
    found = CPU if device.is_cpu else AMD if device.is_amd else NVIDIA
    return {f"fit.{name}": value for name, value in found.items()}
