"""Families of plans: the sizes that fit under the same decisions, by modelled time, and the search among decisions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from heapq import heappop, heappush

import numpy as np

from ..analysis.needs import NeedsDevice
from ..cost_model.cpu_registers import cpu_registers, cpu_unrolled
from ..cost_model.gpu import is_wieldy
from ..cost_model.launches import phases_of_launches
from ..cost_model.model_time import model_time
from ..cost_model.plan_batch import ModeledTimes, Numbers, PlanBatch
from ..errors import PlanError
from ..limits import Limits
from ..pin import NO_PIN, Pin
from ..plan import AS_IN_PLANS, Home, StructuralChoices
from .decisions.decisions import (
    DECISIONS,
    excludes_split,
    neighbours,
    starting_choices,
    things_to_decide,
    weight_of,
)
from .decisions.homes import in_memory
from .decisions.launches import one_more_launch
from .fits import columns_of, which_fit
from .plan_grid import plan_grid
from .space import PlanSearchSpace


def pinned_move(space: PlanSearchSpace, choices: StructuralChoices) -> StructuralChoices:
    """Structural choices with what is pinned in place of their own."""
    pin = space.pin
    if pin == NO_PIN:
        return choices
    homes = {**dict(choices.homes), **{label: Home(home) for label, home in pin.homes.items()}}
    defaults = {value.label: value.homes[0] for value in space.needs.crossing}
    kept = {label: home for label, home in homes.items() if home is not defaults.get(label)}
    decided = {name: value for name in AS_IN_PLANS if (value := getattr(pin, name)) is not None}
    split = _split(pin, choices)
    held = _held(space, choices, split)
    return replace(choices, held=held, homes=tuple(sorted(kept.items())), split=split, **decided)


def _held(space: PlanSearchSpace, choices: StructuralChoices, split: str | None) -> frozenset[str]:
    """The axes that are held at once: a pinned chunk holds its axis if it is not smaller."""
    held = set(choices.held)
    for axis, chunk in space.pin.chunks.items():
        held.discard(axis)
        if axis in space.wholes and axis != split and chunk >= space.extents[axis]:
            held.add(axis)
    if split is not None and split not in space.pin.chunks:
        held.discard(split)
    return frozenset(held)


def _split(pin: Pin, choices: StructuralChoices) -> str | None:
    pinned = next((axis for axis, shares in pin.splits.items() if shares > 1), None)
    if pinned is not None:
        return pinned
    return None if choices.split in pin.splits or excludes_split(pin) else choices.split


SIZES_KEPT_PER_FAMILY = 4
"""Plans of each family that are looked at closely, four times as many where those do not fit."""
MAX_UNROLLED_INSTRUCTIONS = 2048
"""Instructions that CPU code unrolls a loop's body into, at most: more take long to compile, and leave a core's first
cache."""
DECISION_MUST_WIN = 0.01
"""Part of the time that each further decision has to win."""
SEARCH_ROUNDS = 4
"""Rounds in which every decision is tried again, under the best family so far."""
WORTH_CUTTING = 0.75
"""Part of what the whole kernel holds that a launch has to do with, for it to be one of its own."""


@dataclass(frozen=True)
class BatchResources:
    """Registers a thread and bytes of shared memory that plans take; `launches`: of each, where there are several."""

    registers: Numbers
    shared: Numbers
    launches: tuple[tuple[Numbers, Numbers], ...] = ()

    def among(self, at: PlanBatch, which: Numbers) -> BatchResources:
        """Those of the plans that `which` selects."""
        launches = tuple((at.among(which, registers), at.among(which, shared)) for registers, shared in self.launches)
        return BatchResources(at.among(which, self.registers), at.among(which, self.shared), launches)

    def rows(self, rows: Sequence[int]) -> BatchResources:
        """Of some plans by number, which are along one axis."""
        launches = tuple((registers[rows], shared[rows]) for registers, shared in self.launches)
        return BatchResources(self.registers[rows], self.shared[rows], launches)

    def times(self, at: PlanBatch, limits: Limits, most: Numbers) -> ModeledTimes:
        """Of plans that get no more registers a thread than `most`."""
        if not self.launches:
            return model_time(at, limits, np.minimum(self.registers, most), self.shared)
        registers = tuple(np.minimum(each, most) for each, _ in self.launches)
        return model_time(at, limits, registers, tuple(shared for _, shared in self.launches))


@dataclass(frozen=True)
class PlanFamily:
    """Plans with the same structural choices: what they take, their times, and the best of them in order.

    `seconds`: what decides between them and others: see `_plainness`.
    """

    choices: StructuralChoices
    batch: PlanBatch
    taken: BatchResources
    times: ModeledTimes
    seconds: Numbers
    best: Sequence[int]

    @property
    def least(self) -> float:
        return float(self.seconds[self.best[0]])


def find_families(space: PlanSearchSpace) -> list[PlanFamily]:
    """Kinds of plans: what holds what first, then one decision after another from the best of them, until none is
    better made otherwise; last, on a GPU, launches of their own."""
    seen: dict[StructuralChoices, PlanFamily | None] = {}

    def better(every_choice: Iterable[StructuralChoices], best: PlanFamily) -> PlanFamily:
        return min([best, *filter(None, map(look, every_choice))], key=lambda family: family.least)

    def look(choices: StructuralChoices) -> PlanFamily | None:
        choices = pinned_move(space, choices)
        if choices not in seen:
            seen[choices] = family_of(space, choices)
        return seen[choices]

    starts = [family for choices in starting_choices(space) if (family := look(choices)) is not None]
    found: list[PlanFamily] = []
    to_decide = things_to_decide(space)
    for best in _best_starts(starts):
        for _ in range(SEARCH_ROUNDS):
            before = best
            for decision in to_decide:
                best = better(decision(best.choices), best)
            if best is before:
                break
        look(in_memory(best.choices))
        found.append(best)
    if found:
        best = min(found, key=lambda family: family.least)
        cuts = _worth_cutting(space, best)
        for _ in cuts:
            best = better(one_more_launch(space, best.choices, cuts), best)
    return [family for family in seen.values() if family is not None]


def _best_starts(starts: Iterable[PlanFamily]) -> list[PlanFamily]:
    """The best two, and of those that go online, where others do not, the best beside them."""
    ranked = sorted(starts, key=lambda family: family.least)
    least = min((len(family.choices.online) for family in ranked), default=0)
    online = [family for family in ranked if len(family.choices.online) > least]
    return [family for family in ranked if family not in online][:2] + online[:1]


def _worth_cutting(space: PlanSearchSpace, family: PlanFamily) -> list[str]:
    """The phases after which a separate launch would hold much less on one side, under the best plan."""
    if space.limits.warp == 1 or not space.cuts:
        return []
    use = space.needs.evaluate(family.batch.plan(family.best[0]), space.sizes, NeedsDevice.of(space.limits))
    phases = {phase.name: (phase.registers_a_thread, phase.shared_bytes) for phase in use.phases}
    found: list[str] = []
    for label in space.cuts:
        sides = [
            [max(each) for each in zip(*(phases[name] for name in names), strict=True)]
            for names in phases_of_launches(space.kernel, (label,))
        ]
        if any(min(held) < WORTH_CUTTING * max(held) for held in zip(*sides, strict=True)):
            found.append(label)
    return found


def modelled(
    space: PlanSearchSpace, choices: StructuralChoices, batch: PlanBatch, taken: BatchResources, most: Numbers
) -> PlanFamily:
    """A family whose plans get no more registers a thread than `most`."""
    times = taken.times(batch, space.limits, most)
    seconds = np.broadcast_to(times.seconds * _plainness(choices), batch.shape)
    best = np.argsort(seconds, kind="stable")[: 4 * SIZES_KEPT_PER_FAMILY]
    return PlanFamily(choices, batch, taken, times, seconds, best.tolist())


def family_of(space: PlanSearchSpace, choices: StructuralChoices) -> PlanFamily | None:
    """A family's plans by modelled time; None where the kernel cannot have it, or nothing fits at first sight."""
    try:
        grid = plan_grid(space, choices)
    except PlanError:
        return None
    limits = space.limits
    taken, fits = _on_gpu(space, grid) if limits.warp > 1 else _on_cpu(space, grid)
    for decision in DECISIONS:
        fits = fits & decision.worthwhile(space, grid)
    if not np.any(fits):
        return None
    most = limits.registers if limits.warp > 1 else np.inf
    return modelled(space, choices, grid.only(fits), taken.among(grid, fits), most)


def _on_gpu(space: PlanSearchSpace, grid: PlanBatch) -> tuple[BatchResources, Numbers]:
    """The resources of the plans, and which of them fit."""
    columns, limits = columns_of(space, grid), space.limits
    launches = [columns_of(space, grid, phases) for phases in grid.launched]
    if launches:
        columns = replace(columns, shared=reduce(np.maximum, [launch.shared for launch in launches]))
    fits = which_fit(columns, grid, limits)
    wieldy = fits & is_wieldy(grid, limits, columns.registers)
    taken = BatchResources(columns.registers, columns.shared, tuple((each.registers, each.shared) for each in launches))
    return taken, wieldy if np.any(wieldy) else fits


def _on_cpu(space: PlanSearchSpace, grid: PlanBatch) -> tuple[BatchResources, Numbers]:
    limits = space.limits
    registers = cpu_registers(grid, limits)
    fits = (registers <= limits.registers) & (cpu_unrolled(grid, limits) <= MAX_UNROLLED_INSTRUCTIONS)
    if space.pin != NO_PIN and not np.any(fits):  # what is pinned may spill
        fits = registers == np.min(registers)
    return BatchResources(registers, 0), fits


def _plainness(choices: StructuralChoices) -> float:
    """A factor above 1 for more decisions: those that are modelled to win nothing are not made."""
    return 1 + DECISION_MUST_WIN * weight_of(choices)


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
    for candidate in neighbours(space, choices):
        yield pinned_move(space, candidate)
    yield pinned_move(space, in_memory(choices))
    if space.limits.warp > 1:
        for candidate in one_more_launch(space, choices, space.cuts):
            yield pinned_move(space, candidate)
