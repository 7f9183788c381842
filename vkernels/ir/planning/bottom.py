"""The bottom rung: a plan that fits any limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..cost_model.plan_batch import PlanBatch
from ..plan import Plan
from .decisions.homes import all_in_memory
from .plan_grid import plan_grid
from .space import PlanSearchSpace
from .structural_choices import StructuralChoices


def bottom_plan(space: PlanSearchSpace) -> tuple[Plan, PlanBatch]:
    """One warp, the smallest tiles and chunks, everything that crosses phases and all scratchpads in memory."""
    lanes = space.lanes[0] if space.lanes else None
    choices = StructuralChoices(order=space.tiles, lanes=lanes, homes=all_in_memory(space))
    batch = replace(
        plan_grid(space, choices).only(True), sizes={axis: np.array([1.0]) for axis in (*space.tiles, *space.wholes)},
        warps=np.array([1.0]), stages=np.array([1.0]), shares=np.array([1.0]),
        resident=np.array([1.0 if space.limits.warp > 1 else 0.0]),
    )  # fmt: skip
    return batch.first(), batch
