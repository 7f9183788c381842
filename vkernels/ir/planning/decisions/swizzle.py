"""How many programs along the second-fastest tile axis run before the fastest axis advances."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..space import PlanSearchSpace, StructuralChoices
from .decision import Alternatives, PlanDecision

GROUPS = (1, 4, 8)
"""Programs of a group that are tried."""


def _alternatives(space: PlanSearchSpace) -> list[Alternatives]:
    several = [axis for axis in space.tiles if space.extents[axis] > 1]
    return [_groups] if space.limits.warp > 1 and len(several) > 1 else []


def _groups(choices: StructuralChoices) -> Iterator[StructuralChoices]:
    if choices.split is None:
        yield from (replace(choices, swizzle=group) for group in GROUPS if group != choices.swizzle)


SWIZZLE = PlanDecision(
    "swizzle", "", "programs along the second-fastest tile axis that run before the fastest axis advances",
    _alternatives, title="programs of a group", plain=1, gpu_only=True,
)  # fmt: skip
