"""The axis whose positions are along a vector register, or along neighbouring threads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from ..bounds import MAX_LANE_AXES
from ..space import PlanSearchSpace, StructuralChoices
from .decision import PlanDecision

MAX_AXES_BESIDE = 2
"""Axes that are tried besides, of work that has none of those."""


def lane_axes(space: PlanSearchSpace) -> tuple[str, ...]:
    """The axes that may be along the lanes, of which the first are the likeliest."""
    return tuple(dict.fromkeys((*space.lanes[:MAX_LANE_AXES], *batch_lanes(space), *_lanes_beside(space))))


def batch_lanes(space: PlanSearchSpace) -> tuple[str, ...]:
    """The tile axis with the most positions that the results of several dots all have, if it fills a register: lanes
    along it do the same of as many small products, element by element."""
    dots = space.needs.dots
    if len(dots) < 2:
        return ()
    shared = set.intersection(*({*dot.batch, *dot.rows, *dot.columns} for dot in dots)) & {*space.lanes}
    able = [axis for axis in space.tiles if axis in shared and space.extents[axis] >= space.width]
    return tuple(sorted(able, key=lambda axis: -space.extents[axis])[:1])


def _lanes_beside(space: PlanSearchSpace) -> tuple[str, ...]:
    """The axes of work that would be done one position after another on a CPU, if they fill a register."""
    if space.limits.warp > 1:
        return ()
    able = [axis for axis in space.work_beside if axis not in space.ragged and axis in (*space.tiles, *space.wholes)]
    return tuple([axis for axis in able if space.extents[axis] >= space.width][:MAX_AXES_BESIDE])


def _axes(space: PlanSearchSpace, choices: StructuralChoices) -> Iterator[StructuralChoices]:
    return (replace(choices, lanes=axis) for axis in lane_axes(space) if axis != choices.lanes)


LANES = PlanDecision("lanes", "axis", alternatives=lambda space: [partial(_axes, space)])
