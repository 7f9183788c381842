"""The bottom rung: a plan that fits any limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..plan import Plan
from .moves import all_in_memory
from .setting import Setting
from .space import Move, Space


def bottom_plan(space: Space) -> tuple[Plan, Setting]:
    """One warp, the smallest tiles and chunks, everything that crosses phases and all scratchpads in memory."""
    lanes = space.lanes[0] if space.lanes else None
    move = Move(order=space.tiles, lanes=lanes, homes=all_in_memory(space))
    setting = replace(
        space.setting(move), sizes={axis: np.array([1.0]) for axis in (*space.tiles, *space.wholes)},
        warps=np.array([1.0]), stages=np.array([1.0]), shares=np.array([1.0]),
        resident=np.array([1.0 if space.limits.warp > 1 else 0.0]),
    )  # fmt: skip
    return setting.first(), setting
