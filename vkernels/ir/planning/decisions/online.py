"""The whole axes along which one loop computes a maximum and all sums of exponentials relative to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from ..space import PlanSearchSpace, StructuralChoices
from .decision import PlanDecision


def _toggle(space: PlanSearchSpace, axis: str, choices: StructuralChoices) -> Iterator[StructuralChoices]:
    """Go online along an axis or not; also while holding the other axes of dots along it, or with homes for their
    results, so that they can join; on a GPU also while holding what dots sum over that have it as a side, so that one
    loop multiplies for both."""
    if axis in choices.held:
        return
    is_online = axis in choices.online
    others = {name for name in choices.online if name != axis}
    online = tuple(name for name in space.wholes if name in others or (name == axis and not is_online))
    yield replace(choices, online=online)
    beside = space.beside_online[axis]
    if not is_online and not beside <= choices.held and choices.held | beside in space.holds:
        yield replace(choices, online=online, held=choices.held | beside)
    whole = choices.held | beside | _summed_beside(space, axis)
    if not is_online and space.limits.warp > 1 and whole > choices.held | beside and whole in space.holds:
        yield replace(choices, online=online, held=whole)
    if not is_online and space.limits.warp == 1 and (homes := space.homed_online(axis, choices.held)):
        yield replace(choices, online=online, homes=tuple(sorted({**dict(choices.homes), **homes}.items())))


def _summed_beside(space: PlanSearchSpace, axis: str) -> frozenset[str]:
    """The whole axes that dots sum over of which an axis is a side."""
    dots = (dot for dot in space.needs.dots if axis in (*dot.rows, *dot.columns))
    return frozenset(dot.axis for dot in dots if dot.axis in space.wholes)


ONLINE = PlanDecision(
    "online", "whole axis",
    "one pass finds a maximum and the sums that need it: the sums are corrected when the maximum grows",
    lambda space: [partial(_toggle, space, axis) for axis in space.can_go_online],
    title="online axes", entry="online", names=lambda space: space.wholes, with_split=False,
)  # fmt: skip
