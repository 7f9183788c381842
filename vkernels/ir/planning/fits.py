"""Whether what a plan takes fits within limits, and if not, why."""

from __future__ import annotations

from ..analysis.needs import NeedsDevice, NeedsUse
from ..limits import Limits

SWAP = 0.5
"""Part of a device's memory that swap space may take: the rest holds tensors."""


def why_not(use: NeedsUse, limits: Limits, registers: float) -> str | None:
    """Why what a plan takes does not fit; None if it does. `registers`: a CPU's that its tiles take."""
    if limits.warp == 1 and registers > limits.registers:
        return f"needs {registers:.0f} vector registers of {limits.registers}"
    if limits.warp > 1 and use.spills:
        most = NeedsDevice.of(limits).registers_of(use.threads)
        return f"needs {use.registers_a_thread:.0f} registers a thread of {most}"
    if limits.warp > 1 and use.threads > limits.threads:
        return f"needs {use.threads} threads of {limits.threads}"
    if use.shared_bytes > limits.shared:
        return f"needs {use.shared_bytes:.0f} bytes of shared memory of {limits.shared}"
    if limits.tensor_memory and use.tensor_memory_columns > limits.tensor_memory:
        return f"needs {use.tensor_memory_columns:.0f} columns of tensor memory of {limits.tensor_memory}"
    resident = min(use.programs[-1] if use.programs else 1, limits.multiprocessors)
    if use.swap_bytes * resident > limits.memory * SWAP:
        return f"needs {use.swap_bytes * resident:.0f} bytes of swap space of {limits.memory * SWAP:.0f}"
    return None
