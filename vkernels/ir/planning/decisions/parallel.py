"""Whole axes of which each chunk has programs of its own, in launches that are parallel along them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from ...analysis.needs.records import Crossing
from ...analysis.parallel_axes import parallel_axes
from ...dialect import DotOp, PhaseOp, axes_of
from ...plan import Home
from ..bounds import SWAP, tensors_of
from ..space import PlanSearchSpace, StructuralChoices
from .decision import Alternatives, PlanDecision
from .launches import homes_across

TIMES_THE_TENSORS = 4
"""Memory that the first of two launches may leave, beside the call's tensors, at most: hidden features four times as
wide as results take twice as much, but the scores of attention grow with the square of what tensors do."""


def _alternatives(space: PlanSearchSpace) -> list[Alternatives]:
    def toggled(choices: StructuralChoices) -> Iterator[StructuralChoices]:
        if choices.parallel:
            yield replace(choices, parallel=())
        elif choices.launches:
            yield from in_parallel(space, choices)

    return [toggled]


PARALLEL = PlanDecision(
    "parallel", "whole axis", "each chunk has programs of its own, in launches that combine nothing along it",
    _alternatives, title="parallel axes", entry="parallel", names=lambda space: space.wholes, weight=1,
    as_one=True, with_split=False,
)  # fmt: skip


def in_parallel(space: PlanSearchSpace, choices: StructuralChoices) -> Iterator[StructuralChoices]:
    """The same launches with programs along all axes that they are parallel along, which are in chunks then; nothing
    where there are none."""
    axes = axes_of_launches(space, choices.launches)
    if axes:
        yield replace(choices, parallel=axes, held=choices.held.difference(axes))


def axes_of_launches(space: PlanSearchSpace, launches: tuple[str, ...]) -> tuple[str, ...]:
    """The axes that some launch is parallel along, of more positions than one."""
    able = frozenset[str]().union(*parallel_axes(space.kernel).of(launches))
    return tuple(axis for axis in space.wholes if axis in able and space.extents[axis] > 1)


def cuts_in_parallel(space: PlanSearchSpace, choices: StructuralChoices) -> Iterator[StructuralChoices]:
    """Two launches in place of one that are parallel along sides of dots, so that operands are not read by each program
    anew: what the first leaves is in memory, and nothing is held."""
    if choices.launches:
        return
    for label in space.cuts:
        axes = axes_of_launches(space, (label,))
        if _sides(space).isdisjoint(axes):
            continue
        left = [value for value in space.needs.crossing if value.made == label]
        if sum(_bytes_of(space, value) for value in left) > _most_left(space):
            continue
        homes = tuple(sorted((value.label, Home.MEMORY) for value in left))
        held = frozenset(axis for axis in space.wholes if space.extents[axis] == 1)
        plain = replace(choices, split=None, online=(), held=held, homes=homes)
        yield replace(plain, launches=(label,), parallel=axes, homes=homes_across(space, plain, (label,)))


def _bytes_of(space: PlanSearchSpace, value: Crossing) -> int:
    """Bytes of a value of all programs."""
    return value.element_bytes * prod(space.extents[axis] for axis in {*value.axes, *space.tiles})


def _most_left(space: PlanSearchSpace) -> float:
    """Bytes that the first launch may leave."""
    tensors = sum(map(space.tensor_bytes, tensors_of(space.kernel).values()))
    return min(TIMES_THE_TENSORS * tensors, SWAP * space.limits.memory)


def _sides(space: PlanSearchSpace) -> frozenset[str]:
    """The axes of results of dots."""
    dots = [
        op
        for phase in space.kernel.walk()
        if isinstance(phase, PhaseOp)
        for op in phase.walk()
        if isinstance(op, DotOp)
    ]
    return frozenset(axis for dot in dots for axis in axes_of(dot.result))
