"""Kernels that have no meaning for several programs."""

from __future__ import annotations

from itertools import combinations

from vkernels.ir.dialect import AccessOp, KernelOp, TensorArgumentType, TileOp
from vkernels.ir.passes.accesses import accesses_of, clash, elementwise


def programs_race(kernel: KernelOp) -> bool:
    """Whether programs meet in memory as the kernel is written: one writes what another accesses.

    Only a plan that gives one program all of a tile axis is right for those; any other kernel can have any plan of
    tiles and chunks.
    """
    tiles = [op.axis.data for op in kernel.walk() if isinstance(op, TileOp)]
    found = [a for op in kernel.walk() if isinstance(op, AccessOp) for a in accesses_of(op)]
    found = [a for a in found if isinstance(a.base.type, TensorArgumentType)]
    return any(clash(a, b) and not elementwise(a, b, tiles) for a, b in combinations(found, 2))
