"""Many families of plans, those of less modelled time first, for searches that look beyond the model's own choice."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from .constraints import pinned_move
from .decisions.decisions import neighbours
from .decisions.homes import in_memory
from .decisions.launches import one_more_launch
from .plan_families import PlanFamily, family_of, find_families
from .space import PlanSearchSpace
from .structural_choices import StructuralChoices


def enumerate_families(space: PlanSearchSpace) -> Iterator[tuple[StructuralChoices, PlanFamily | None]]:
    """Kinds of plans by their decisions, each once; None where none of its plans fits.

    First come those that choosing looked at, then what is one decision away from the best of those not yet left, and
    so on until there is no more: stop when there are enough.
    """
    found = sorted(find_families(space), key=lambda family: family.least)
    seen = {family.choices for family in found}
    yield from ((family.choices, family) for family in found)
    waiting = [(family.least, number, family.choices) for number, family in enumerate(found)]
    number = len(found)
    while waiting:
        for choices in _neighbours(space, heappop(waiting)[2]):
            if choices not in seen:
                seen.add(choices)
                family = family_of(space, choices)
                yield choices, family
                if family is not None:
                    number += 1
                    heappush(waiting, (family.least, number, choices))


def _neighbours(space: PlanSearchSpace, choices: StructuralChoices) -> Iterator[StructuralChoices]:
    """What is one decision away, as far as the author left it open."""
    for candidate in neighbours(space, choices):
        yield pinned_move(space, candidate)
    yield pinned_move(space, in_memory(choices))
    if space.limits.warp > 1:
        for candidate in one_more_launch(space, choices, space.cuts):
            yield pinned_move(space, candidate)
