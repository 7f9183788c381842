"""Where values that cross phases live, and scratchpads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from ...analysis.needs import Crossing
from ...plan import Home
from ..space import PlanSearchSpace, StructuralChoices
from .decision import Alternatives, PlanDecision


def _alternatives(space: PlanSearchSpace) -> Iterable[Alternatives]:
    labels = [value.label for value in space.needs.crossing]
    yield from (partial(_home, space, value) for value in space.needs.crossing if labels.count(value.label) == 1)
    yield from (partial(_scratchpad_home, scratchpad.label) for scratchpad in space.needs.scratchpads)


def all_in_memory(space: PlanSearchSpace) -> tuple[tuple[str, Home], ...]:
    """Homes in memory for everything that can have one there: crossing values and scratchpads."""
    labels = [value.label for value in space.needs.crossing if Home.MEMORY in value.homes]
    labels += [scratchpad.label for scratchpad in space.needs.scratchpads]
    return tuple((label, Home.MEMORY) for label in sorted(set(labels)))


def all_on_chip(space: PlanSearchSpace, held: frozenset[str]) -> tuple[tuple[str, Home], ...]:
    """Homes on chip for all crossing values that are not held whole."""
    values = [value for value in space.needs.crossing if Home.SHARED in value.homes and not set(value.whole) <= held]
    return tuple((label, Home.SHARED) for label in sorted({value.label for value in values}))


def in_memory(choices: StructuralChoices) -> StructuralChoices:
    """The same with swap space in place of shared memory."""
    homes = {label: Home.MEMORY if home is Home.SHARED else home for label, home in choices.homes}
    return replace(choices, homes=tuple(sorted(homes.items())))


def _home(space: PlanSearchSpace, value: Crossing, choices: StructuralChoices) -> Iterator[StructuralChoices]:
    """Another home for a value. On a CPU swap space is what shared memory is, but for its limits: see `in_memory`."""
    if choices.split is not None or set(value.whole) <= choices.held:
        return
    homes = dict(choices.homes)
    default = value.homes[0]
    for home in value.homes:
        is_same = space.limits.warp == 1 and home is Home.MEMORY and default is not Home.MEMORY
        if home is not homes.get(value.label, default) and not is_same:
            changed = {**homes, value.label: home}
            kept = {label: where for label, where in changed.items() if (label, where) != (value.label, default)}
            yield replace(choices, homes=tuple(sorted(kept.items())))


def _scratchpad_home(label: str, choices: StructuralChoices) -> Iterator[StructuralChoices]:
    if choices.split is None:
        changed = dict(choices.homes)
        if changed.pop(label, None) is None:
            changed[label] = Home.MEMORY
        yield replace(choices, homes=tuple(sorted(changed.items())))


HOMES = PlanDecision(
    "homes",
    "value that crosses phases, or scratchpad,",
    alternatives=_alternatives,
    title="home of",
    entry="home",
    weight=1,
)
