"""Kernels that have no meaning for several programs."""

from __future__ import annotations

from vkernels.ir.analysis.races import find_races
from vkernels.ir.dialect import KernelOp


def programs_race(kernel: KernelOp) -> bool:
    """Whether an update of the kernel, as it is written, may be lost, or programs meet in memory.

    No author can have one of those; any other kernel can have any plan of tiles and chunks.
    """
    return any(find_races(kernel))
