"""Families of plans: the sizes that fit under the same decisions, by modelled time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np

from ..cost_model.cpu_registers import cpu_registers, cpu_unrolled
from ..cost_model.gpu import is_wieldy
from ..cost_model.model_time import least_time, model_time
from ..cost_model.plan_batch import ModeledTimes, Numbers, PlanBatch
from ..errors import PlanError
from ..limits import Limits
from ..pin import NO_PIN, Pin
from ..plan import AS_IN_PLANS, Home, StructuralChoices
from .decisions.decisions import DECISIONS, excludes_split, weight_of
from .decisions.descriptors import operands_to_describe
from .decisions.launches import homes_across
from .fits import columns_of, most_registers, which_fit
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
    if pin.warp_specialized and pin.descriptors is None:
        decided["descriptors"] = operands_to_describe(space)
    split = _split(pin, choices)
    held = _held(space, choices, split)
    found = replace(choices, held=held, homes=tuple(sorted(kept.items())), split=split, **decided)
    return replace(found, homes=homes_across(space, found, found.launches)) if pin.launches else found


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
MODELLED_ROUGHLY = 512
"""Plans of a family that are modelled where families are only ranked: those with the shortest least times."""


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


def modelled(
    space: PlanSearchSpace, choices: StructuralChoices, batch: PlanBatch, taken: BatchResources, most: Numbers
) -> PlanFamily:
    """A family whose plans get no more registers a thread than `most`."""
    times = taken.times(batch, space.limits, most)
    seconds = np.broadcast_to(times.seconds * _plainness(choices), batch.shape)
    best = np.argsort(seconds, kind="stable")[: 4 * SIZES_KEPT_PER_FAMILY]
    return PlanFamily(choices, batch, taken, times, seconds, best.tolist())


@dataclass(frozen=True)
class FamilyOutline:
    """The plans of a family before they are modelled: those that may fit, and how long they take at least.

    `taken`: what they take, where that is known. `least`: seconds, as they count beside others'; infinite where a plan
    does not fit.
    """

    grid: PlanBatch
    taken: BatchResources
    able: Numbers
    least: Numbers

    @cached_property
    def shortest(self) -> float:
        """Seconds that no plan takes less than."""
        return float(np.min(self.least)) / ROUNDED


def outline_of(space: PlanSearchSpace, choices: StructuralChoices) -> FamilyOutline | None:
    """A family's plans and their least times; None where the kernel cannot have it, or nothing fits at first sight."""
    try:
        grid = plan_grid(space, choices)
    except PlanError:
        return None
    on_gpu = space.limits.warp > 1
    taken = BatchResources(0, 0) if on_gpu else BatchResources(cpu_registers(grid, space.limits), 0)
    able = True if on_gpu else _which_fit_on_cpu(space, grid, taken.registers)
    if not np.any(able):
        return None
    least = np.broadcast_to(least_time(grid, space.limits) * _plainness(choices), grid.shape)
    return FamilyOutline(grid, taken, able, np.where(able, least, np.inf))


def family_of(
    space: PlanSearchSpace, outline: FamilyOutline, within: float = math.inf, is_rough: bool = False
) -> PlanFamily | None:
    """A family's plans by modelled time; None where none fits.

    Plans that take longer than `within` seconds, as they count beside others', may be left out. `is_rough`: so may some
    that take less than those that are found.
    """
    grid, taken, able = outline.grid, outline.taken, outline.able

    def some(short: Numbers) -> PlanFamily | None:
        if space.limits.warp > 1:
            return _on_gpu(space, grid, short)
        return _fitting(space, grid, taken, able & short, np.inf)

    if outline.shortest > within:
        return None
    return _shortest(some, outline.least, within * ROUNDED, is_rough)


def _shortest(
    some: Callable[[Numbers], PlanFamily | None], least: Numbers, within: float, is_rough: bool
) -> PlanFamily | None:
    """The plans of a grid that may be of interest, by their least times; of many only the shortest, if `is_rough`."""
    able = least <= within if within < math.inf else least < math.inf
    if is_rough and np.count_nonzero(able) > MODELLED_ROUGHLY:
        last = np.partition(least[able], MODELLED_ROUGHLY - 1)[MODELLED_ROUGHLY - 1]
        if (found := some(able & (least <= last))) is not None:
            return found
    return some(able)


def _on_gpu(space: PlanSearchSpace, grid: PlanBatch, short: Numbers) -> PlanFamily | None:
    """Those of the short plans of a grid that fit."""
    some = grid.only(short)
    if not some.shape[0]:
        return None
    taken, fits, wieldy = _resources(space, some)
    if np.any(fits) and not np.any(wieldy) and not np.all(short):  # others decide whether plans that are not may run
        return _on_gpu(space, grid, True)
    return _fitting(space, some, taken, wieldy if np.any(wieldy) else fits, most_registers(some, space.limits))


def _resources(space: PlanSearchSpace, some: PlanBatch) -> tuple[BatchResources, Numbers, Numbers]:
    """The resources of plans, which of them fit, and which of these are wieldy."""
    columns, limits = columns_of(space, some), space.limits
    launches = [columns_of(space, some, phases) for phases in some.launched]
    if launches:
        columns = replace(columns, shared=reduce(np.maximum, [launch.shared for launch in launches]))
    fits = which_fit(columns, some, limits)
    taken = BatchResources(columns.registers, columns.shared, tuple((each.registers, each.shared) for each in launches))
    return taken, fits, fits & is_wieldy(some, limits, columns.registers)


def _which_fit_on_cpu(space: PlanSearchSpace, grid: PlanBatch, registers: Numbers) -> Numbers:
    """Which plans of a grid fit: few of them do, and that is found soonest."""
    fits = (registers <= space.limits.registers) & (cpu_unrolled(grid, space.limits) <= MAX_UNROLLED_INSTRUCTIONS)
    if space.pin != NO_PIN and not np.any(fits):  # what is pinned may spill
        everywhere = cpu_registers(grid, space.limits, everywhere=True)
        return everywhere == np.min(everywhere)
    return fits


def _fitting(
    space: PlanSearchSpace, some: PlanBatch, taken: BatchResources, fits: Numbers, most: Numbers
) -> PlanFamily | None:
    """The family of the plans that fit and are worth a look."""
    for decision in DECISIONS:
        fits = fits & decision.worthwhile(space, some)
    if not np.any(fits):
        return None
    return modelled(space, some.choices, some.only(fits), taken.among(some, fits), some.among(fits, most))


def _plainness(choices: StructuralChoices) -> float:
    """A factor above 1 for more decisions: those that are modelled to win nothing are not made."""
    return 1 + DECISION_MUST_WIN * weight_of(choices)
