"""Families of plans: the sizes that fit under the same decisions, by modelled time, and the search among decisions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from heapq import heappop, heappush

import numpy as np

from ..cost_model.cpu_registers import cpu_registers, cpu_unrolled
from ..cost_model.gpu import is_wieldy
from ..cost_model.launches import phases_of_launches
from ..cost_model.model_time import least_time, model_time
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
ROUNDED = 1 + 1e-9
"""How much longer a plan's least time may be than its time, for want of digits."""
MANY = 512
"""Plans of a family from which on their least times are asked for: modelling fewer takes as long."""
FEW = 0.5
"""Part of a family's plans below which those that matter are modelled alone, not with the others: as one list they do
not share what depends on few sizes."""
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


@dataclass
class _FamiliesSeen:
    """The families of a search, by their choices; `wanted`: how many of all their plans are of interest, the best.

    A family of which no plan can be among them, nor better than the best of the search, is left out, and so are such
    plans of other families: least times say so, which take a part of the time that modelling takes.
    """

    space: PlanSearchSpace
    wanted: int | None
    found: dict[StructuralChoices, PlanFamily | None] = field(default_factory=dict)
    _looked: dict[StructuralChoices, float] = field(default_factory=dict)
    _best: list[float] = field(default_factory=list)

    def look(self, choices: StructuralChoices, beside: float = 0.0) -> PlanFamily | None:
        """The family of some choices; None where there is none, or none that takes less than `beside` seconds nor has
        a plan of interest."""
        choices = pinned_move(self.space, choices)
        within = self._within(beside)
        if choices not in self.found or (self.found[choices] is None and within > self._looked[choices]):
            family = self.found[choices] = family_of(self.space, choices, within)
            self._looked[choices] = within
            if family is not None and self.wanted is not None:
                self._best = sorted([*self._best, *family.seconds[family.best].tolist()])[: self.wanted]
        return self.found[choices]

    def _within(self, beside: float) -> float:
        """Seconds beyond which a plan is of no interest."""
        if self.wanted is None or len(self._best) < self.wanted:
            return math.inf
        return max(self._best[-1], beside)


def find_families(space: PlanSearchSpace, wanted: int | None = None) -> list[PlanFamily]:
    """Kinds of plans: what holds what first, then one decision after another from the best of them, until none is
    better made otherwise; last, on a GPU, launches of their own.

    `wanted`: only so many plans, the best of all families, are of interest; others may be left out.
    """
    seen = _FamiliesSeen(space, wanted)
    look = seen.look

    def better(every_choice: Iterable[StructuralChoices], best: PlanFamily) -> PlanFamily:
        families = [look(choices, best.least) for choices in every_choice]
        return min([best, *filter(None, families)], key=lambda family: family.least)

    starts: list[PlanFamily] = []
    for choices in starting_choices(space):
        rivals = sorted(family.least for family in starts if family.choices.online == choices.online)
        if (family := look(choices, rivals[1] if len(rivals) > 1 else math.inf)) is not None:
            starts.append(family)
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
    return [family for family in seen.found.values() if family is not None]


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
    use = space.use_of(family.batch.plan(family.best[0]))
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


def family_of(space: PlanSearchSpace, choices: StructuralChoices, within: float = math.inf) -> PlanFamily | None:
    """A family's plans by modelled time; None where the kernel cannot have it, or nothing fits at first sight.

    Plans that take longer than `within` seconds, as they count beside others', may be left out.
    """
    try:
        grid = plan_grid(space, choices)
    except PlanError:
        return None
    within = within if _can_leave_out(space, choices) else math.inf
    return _on_gpu(space, grid, within) if space.limits.warp > 1 else _on_cpu(space, grid, within)


def _can_leave_out(space: PlanSearchSpace, choices: StructuralChoices) -> bool:
    """Whether plans' least times are known, and whether a plan fits does not depend on other plans of the family."""
    return not choices.launches and (space.limits.warp > 1 or space.pin == NO_PIN)


def _short(space: PlanSearchSpace, grid: PlanBatch, within: float) -> Numbers:
    """Which plans of a grid may take no longer than `within` seconds."""
    if within == math.inf or math.prod(grid.shape) < MANY:
        return True
    return least_time(grid, space.limits) * _plainness(grid.choices) <= within * ROUNDED


def _on_gpu(space: PlanSearchSpace, grid: PlanBatch, within: float) -> PlanFamily | None:
    """The plans of a grid that fit: where few of them are short enough, the resources of these alone are found."""
    short = np.broadcast_to(_short(space, grid, within), grid.shape)
    count = np.count_nonzero(short)
    if count == 0:
        return None
    some = grid.only(short) if count < FEW * short.size else grid
    taken, fits, wieldy = _resources(space, some)
    if some is not grid and np.any(fits) and not np.any(wieldy):  # others decide whether plans that are not may run
        some = grid
        taken, fits, wieldy = _resources(space, grid)
    return _fitting(space, some, taken, wieldy if np.any(wieldy) else fits, space.limits.registers)


def _resources(space: PlanSearchSpace, some: PlanBatch) -> tuple[BatchResources, Numbers, Numbers]:
    """The resources of plans, which of them fit, and which of these are wieldy."""
    columns, limits = columns_of(space, some), space.limits
    launches = [columns_of(space, some, phases) for phases in some.launched]
    if launches:
        columns = replace(columns, shared=reduce(np.maximum, [launch.shared for launch in launches]))
    fits = which_fit(columns, some, limits)
    taken = BatchResources(columns.registers, columns.shared, tuple((each.registers, each.shared) for each in launches))
    return taken, fits, fits & is_wieldy(some, limits, columns.registers)


def _on_cpu(space: PlanSearchSpace, grid: PlanBatch, within: float) -> PlanFamily | None:
    """The plans of a grid that fit: few of them do, and that is found soonest."""
    limits = space.limits
    registers = cpu_registers(grid, limits)
    fits = (registers <= limits.registers) & (cpu_unrolled(grid, limits) <= MAX_UNROLLED_INSTRUCTIONS)
    if space.pin != NO_PIN and not np.any(fits):  # what is pinned may spill
        everywhere = cpu_registers(grid, limits, everywhere=True)
        fits = everywhere == np.min(everywhere)
    if np.any(fits):
        fits = fits & _short(space, grid, within)
    return _fitting(space, grid, BatchResources(registers, 0), fits, np.inf)


def _fitting(
    space: PlanSearchSpace, some: PlanBatch, taken: BatchResources, fits: Numbers, most: Numbers
) -> PlanFamily | None:
    """The family of the plans that fit and are worth a look."""
    for decision in DECISIONS:
        fits = fits & decision.worthwhile(space, some)
    if not np.any(fits):
        return None
    return modelled(space, some.choices, some.only(fits), taken.among(some, fits), most)


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
