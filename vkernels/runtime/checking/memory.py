"""Device memory of a whole call: tensors, buffers between launches, swap space of the programs resident at once.

As `runtime/gpu/packing.py` lays it out; how many programs are resident comes from the binaries' own figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vkernels.ir.planning.shortage import Lack, Shortage

from ..gpu.packing import MOST_PROGRAMS
from ..targets import Target
from .cells import Launch

Told = Mapping[str, Any]
"""Of a launch: `programs`, `persistent`, `swap_bytes` and `resident`; see `prepare_kernel.Lowered`."""


def swap_bytes(prepared: Sequence[Told], launches: Sequence[Launch], own_bytes: int, target: Target) -> int:
    """Bytes that a call takes beside its tensors; launches run in turn and share all but `own_bytes`, the buffers."""
    most = 0
    for launch, found in zip(prepared, launches, strict=True):
        if found.use is not None and found.occupancy is not None and "programs" in launch:
            resident = launch["resident"] or found.occupancy.blocks * target.multiprocessors
            grid = min(launch["programs"], resident) if launch["persistent"] else launch["programs"]
            most = max(most, (launch["swap_bytes"] + found.use.global_scratch) * grid)
    return own_bytes + most


def too_many(prepared: Sequence[Told]) -> Shortage | None:
    """Why a GPU does not start so many programs; None if it does."""
    for launch in prepared:
        programs = launch.get("programs", 0)
        if programs > MOST_PROGRAMS:
            reason = f"{launch['name']} has {programs} programs, a GPU starts {MOST_PROGRAMS}"
            return Shortage(Lack.PROGRAMS, programs, MOST_PROGRAMS, reason)
    return None


def too_large(tensors: int, swap: int, target: Target) -> Shortage | None:
    """Why a call does not fit in the device's memory; None if it does."""
    if tensors + swap <= target.memory:
        return None
    reason = f"tensors of {tensors} B and {swap} B beside them are more than its memory of {target.memory} B"
    return Shortage(Lack.SWAP, tensors + swap, target.memory, reason)
