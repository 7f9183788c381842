"""Device memory of a whole call: tensors, buffers between launches, swap space of the programs resident at once.

As `runtime/gpu/packing.py` lays it out; how many programs are resident comes from the binaries' own figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vkernels.ir.planning.resources import Resource, Shortage
from vkernels.runtime.gpu.packing import MAX_PROGRAMS
from vkernels.targets import Target

from .cells import CellLaunch

Told = Mapping[str, Any]
"""Of a launch: `programs`, `persistent`, `swap_bytes` and `resident`; see `prepare_kernel.Lowered`."""


def swap_bytes(prepared: Sequence[Told], launches: Sequence[CellLaunch], own_bytes: int, target: Target) -> int:
    """Return the bytes that a call needs besides its tensors; launches share all but their own buffers, `own_bytes`."""
    most = 0
    for launch, found in zip(prepared, launches, strict=True):
        if found.use is not None and found.occupancy is not None and "programs" in launch:
            resident = launch["resident"] or found.occupancy.blocks * target.multiprocessors
            grid = min(launch["programs"], resident) if launch["persistent"] else launch["programs"]
            most = max(most, (launch["swap_bytes"] + found.use.global_scratch) * grid)
    return own_bytes + most


def too_many(prepared: Sequence[Told]) -> Shortage | None:
    """Return why a GPU cannot start so many programs; None if it can."""
    for launch in prepared:
        programs = launch.get("programs", 0)
        if programs > MAX_PROGRAMS:
            reason = f"{launch['name']} has {programs} programs; a GPU starts at most {MAX_PROGRAMS}"
            return Shortage(Resource.PROGRAMS, programs, MAX_PROGRAMS, reason)
    return None


def too_large(tensors: int, swap: int, target: Target) -> Shortage | None:
    """Return why a call exceeds the device's memory; None if it fits."""
    if tensors + swap <= target.memory:
        return None
    reason = f"tensors of {tensors} B and further {swap} B exceed the memory of {target.memory} B"
    return Shortage(Resource.SWAP, tensors + swap, target.memory, reason)
