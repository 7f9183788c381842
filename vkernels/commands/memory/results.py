"""Results as JSON; docs/json.md documents the fields."""

from __future__ import annotations

from math import isinf
from typing import Any

from vkernels.memory.links import MemoryMachine
from vkernels.memory.pool import PoolPlacement
from vkernels.memory.schedule import SwapSchedule
from vkernels.memory.simulate import SimulatedRun
from vkernels.memory.trace import MemoryTrace


def trace_to_json(trace: MemoryTrace) -> dict[str, Any]:
    """Return a trace's key figures."""
    return {
        "name": trace.name,
        "operations": len(trace.operations),
        "tensors": len(trace.tensors),
        "seconds": trace.seconds,
        "peak_bytes": trace.peak,
        "global_bytes": global_bytes(trace),
    }


def global_bytes(trace: MemoryTrace) -> int:
    """Return the size of the tensors that outlive the iteration."""
    return sum(each.size for each in trace.tensors if each.is_global)


def pool_to_json(placed: PoolPlacement, allocators: dict[str, int]) -> dict[str, Any]:
    """Return a pool's placement and the sizes that online allocators need."""
    return {
        "footprint_bytes": placed.footprint,
        "peak_bytes": placed.peak,
        "is_smallest": placed.is_smallest,
        "offsets": list(placed.offsets),
        "allocators": allocators,
    }


def machine_to_json(machine: MemoryMachine) -> dict[str, Any]:
    """Return sizes and links; unlimited flash is null."""
    return {
        "device_bytes": machine.device_bytes,
        "host_bytes": machine.host_bytes,
        "flash_bytes": None if isinf(machine.flash_bytes) else machine.flash_bytes,
        "link": machine.to_host,
        "flash_link": machine.to_flash,
    }


def run_to_json(name: str, trace: MemoryTrace, schedule: SwapSchedule, run: SimulatedRun) -> dict[str, Any]:
    """Return one simulated schedule."""
    out, back = schedule.moved(trace)
    return {
        "name": name,
        "seconds": run.seconds,
        "fraction": run.fraction,
        "waiting_seconds": sum(run.stalls),
        "peak_bytes": run.peak,
        "absences": len(schedule.absences),
        "out_bytes": out,
        "back_bytes": back,
        "steady": run.steady,
    }
