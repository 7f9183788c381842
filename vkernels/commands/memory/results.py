"""What was found, as JSON; docs/json.md has the fields."""

from __future__ import annotations

from math import isinf
from typing import Any

from vkernels.runtime.memory.links import Machine
from vkernels.runtime.memory.pool import Placement
from vkernels.runtime.memory.schedule import Schedule
from vkernels.runtime.memory.simulate import Run
from vkernels.runtime.memory.trace import Trace


def trace_to_json(trace: Trace) -> dict[str, Any]:
    """What a trace is about."""
    return {
        "name": trace.name,
        "operations": len(trace.operations),
        "tensors": len(trace.tensors),
        "seconds": trace.seconds,
        "peak_bytes": trace.peak,
        "global_bytes": global_bytes(trace),
    }


def global_bytes(trace: Trace) -> int:
    """Of tensors that are there before and after the iteration."""
    return sum(each.size for each in trace.tensors if each.is_global)


def pool_to_json(placed: Placement, allocators: dict[str, int]) -> dict[str, Any]:
    """A pool, and what others would take in its place."""
    return {
        "footprint_bytes": placed.footprint,
        "peak_bytes": placed.peak,
        "is_smallest": placed.is_smallest,
        "offsets": list(placed.offsets),
        "allocators": allocators,
    }


def machine_to_json(machine: Machine) -> dict[str, Any]:
    """Sizes and links; flash without an end is null."""
    return {
        "device_bytes": machine.device_bytes,
        "host_bytes": machine.host_bytes,
        "flash_bytes": None if isinf(machine.flash_bytes) else machine.flash_bytes,
        "link": machine.to_host,
        "flash_link": machine.to_flash,
    }


def run_to_json(name: str, trace: Trace, schedule: Schedule, run: Run) -> dict[str, Any]:
    """One schedule, simulated."""
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
