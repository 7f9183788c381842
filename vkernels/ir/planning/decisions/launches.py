"""Launches of their own for some phases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...cost_model.launches import launch_of_phases, phases_of_launches, scratchpads_across
from ...plan import Home
from ..space import PlanSearchSpace, StructuralChoices
from .decision import PlanDecision

# Tried last, and only where it frees much (`find_families.py`).
LAUNCHES = PlanDecision(
    "launches", "phase", "a launch of its own begins after this phase",
    title="launches end after", entry="launch after", names=lambda space: space.cuts, weight=2, with_split=False,
)  # fmt: skip


def one_more_launch(
    space: PlanSearchSpace, choices: StructuralChoices, phases: Sequence[str]
) -> Iterator[StructuralChoices]:
    """One more launch, which begins after one of some phases; values that cross it are in memory."""
    for label in phases:
        if label not in choices.launches and choices.split is None:
            cuts = tuple(each for each in space.cuts if each in (*choices.launches, label))
            yield replace(choices, launches=cuts, homes=homes_across(space, choices, cuts))


def homes_across(
    space: PlanSearchSpace, choices: StructuralChoices, cuts: tuple[str, ...]
) -> tuple[tuple[str, Home], ...]:
    """Homes, with memory in place of shared memory for values that cross launches."""
    launch_of = launch_of_phases(phases_of_launches(space.kernel, cuts))
    homes = dict(choices.homes)
    for value in space.needs.crossing:
        across = {launch_of.get(phase) for phase in (value.made, *value.used)}
        if len(across) > 1 and homes.get(value.label, value.homes[0]) is Home.SHARED:
            homes[value.label] = Home.MEMORY
    homes.update(dict.fromkeys(scratchpads_across(space.kernel, cuts), Home.MEMORY))
    return tuple(sorted(homes.items()))
