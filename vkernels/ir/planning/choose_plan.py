"""The plan of the least modelled time that fits within limits; one that always fits where none does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

import numpy as np

from ..analysis.needs import Needs, NeedsDevice, NeedsUse
from ..cost_model.across_programs import goes_on
from ..cost_model.model_time import model_time
from ..cost_model.plan_batch import ModeledTimes, PlanBatch
from ..dialect import KernelOp
from ..limits import Limits
from ..pin import Pin, with_pin
from ..plan import Home, Plan, StructuralChoices
from .decisions.homes import all_in_memory
from .find_families import find_families
from .fits import most_registers, why_inapplicable, why_not
from .plan_families import PlanFamily, modelled
from .plan_grid import plan_grid
from .space import PlanSearchSpace, read_space


def bottom_plan(space: PlanSearchSpace) -> tuple[Plan, PlanBatch]:
    """One warp, the smallest tiles and chunks, everything that crosses phases and all scratchpads in memory."""
    lanes = space.lanes[0] if space.lanes else None
    choices = StructuralChoices(order=space.tiles, lanes=lanes, homes=all_in_memory(space))
    batch = replace(
        plan_grid(space, choices).only(True), sizes={axis: np.array([1.0]) for axis in (*space.tiles, *space.wholes)},
        warps=np.array([1.0]), stages=np.array([1.0]), shares=np.array([1.0]),
        resident=np.array([1.0 if space.limits.warp > 1 else 0.0]),
    )  # fmt: skip
    return batch.first(), batch


REFINED_AT_ONCE = 64
"""Plans that are looked at together: of the best of these, fewer programs at once are tried."""
FIRST_CANDIDATES = 8
"""The best plans, of which one nearly always fits: more than these are only looked for where none does."""
MAX_REJECTED = 16
"""Rejected plans that are reported."""
TRIED_WITH_FEWER = 4
"""Plans for which fewer programs at once are tried."""
FEWER_MUST_WIN, GOING_ON_MUST_WIN = 0.9, 0.97
"""They must take less than this part of the time: persistent programs are less plain than a grid. Those whose loop goes
on from each to the next win what the model is sure of."""


@dataclass(frozen=True)
class RejectedPlan:
    """A plan that was not taken, its modelled seconds, and why."""

    plan: Plan
    seconds: float
    reason: str


@dataclass(frozen=True)
class Chosen:
    """A plan, what it takes, and its modelled times.

    `rung`: the last of the ladder's that it needs: registers, shared, recompute, memory, launches, or bottom, which
    fits anything. `tried`: what was rejected before it, the best first.
    """

    plan: Plan
    use: NeedsUse
    times: ModeledTimes
    rung: str
    tried: tuple[RejectedPlan, ...] = ()

    @property
    def seconds(self) -> float:
        """Modelled."""
        return float(self.times.seconds)


def choose_plan(
    kernel: KernelOp,
    sizes: Mapping[str, int],
    limits: Limits,
    needs: Needs | None = None,
    strides: Mapping[str, Sequence[int]] | None = None,
    pin: Pin | None = None,
) -> Chosen:
    """The plan of a kernel, as written or in phases, for a call's sizes by name, within limits.

    Deterministic: the same kernel, sizes and limits give the same plan. `needs`: the kernel's, where they are at hand.
    `strides`: in elements, of tensors; unknown ones are dense, row after row.
    `pin`: what the author decided; the rest is chosen knowing it.
    """
    return next(plans_down(kernel, sizes, limits, needs, strides, pin))


def plans_down(
    kernel: KernelOp,
    sizes: Mapping[str, int],
    limits: Limits,
    needs: Needs | None = None,
    strides: Mapping[str, Sequence[int]] | None = None,
    pin: Pin | None = None,
    wanted: Callable[[NeedsUse], bool] = lambda use: True,
) -> Iterator[Chosen]:
    """The plans that fit, each once, the best first: where one's binary turns out not to, take the next.

    The last is the bottom rung's, which is always there. `wanted`: whether a plan with these needs is of any use; it is
    called just before the plan would be given. Other arguments are `choose_plan`'s.
    """
    space = read_space(kernel, sizes, limits, needs, strides, pin)
    tried: list[RejectedPlan] = []
    given: list[Plan] = []
    for some in _spaces(space):
        for candidate in candidates_of(some):
            if candidate.plan in given or not wanted(candidate.use):
                continue
            reason = candidate.misfit or why_inapplicable(space, candidate.plan)
            if reason is None:
                rung, rejected = rung_of(candidate.plan, space), tuple(tried[:MAX_REJECTED])
                yield Chosen(candidate.plan, candidate.use, candidate.times, rung, rejected)
                given.append(candidate.plan)
            else:
                tried.append(RejectedPlan(candidate.plan, float(candidate.times.seconds), reason))
    yield replace(_bottom(space), tried=tuple(tried[:MAX_REJECTED]))


def _spaces(space: PlanSearchSpace) -> Iterator[PlanSearchSpace]:
    """Where plans are looked for, one space after another: where no plan of a call leaves warps room for the roles that
    are pinned, they have none."""
    yield space
    yield replace(space, lean=True)
    if space.pin.warp_specialized:
        plain = replace(space, pin=replace(space.pin, warp_specialized=()))
        yield plain
        yield replace(plain, lean=True)


def candidates_of(space: PlanSearchSpace) -> Iterator[RefinedCandidate]:
    """The best plans of all families. Most callers take the first: others need more families modelled."""
    given = 0
    for wanted in (FIRST_CANDIDATES, REFINED_AT_ONCE, None):
        families = find_families(space, wanted)
        for candidate in islice(refine_top_candidates(space, families, wanted), given, None):
            yield candidate
            given += 1
        if not families:
            return  # nothing fits


def choose_bottom(
    kernel: KernelOp,
    sizes: Mapping[str, int],
    limits: Limits,
    strides: Mapping[str, Sequence[int]] | None = None,
    pin: Pin | None = None,
) -> Chosen:
    """The plan of the bottom rung, which fits anything, at once."""
    return _bottom(read_space(kernel, sizes, limits, None, strides, pin))


def _bottom(space: PlanSearchSpace) -> Chosen:
    plan, batch = bottom_plan(space)
    plan = with_pin(plan, space.pin)
    (use,) = space.needs.evaluate_many([plan], space.sizes, NeedsDevice.of(space.limits))
    times = model_time(batch, space.limits, use.registers_a_thread, use.shared_bytes).at(0)
    return Chosen(plan, use, times, "bottom")


def rung_of(plan: Plan, space: PlanSearchSpace) -> str:
    """The last rung of the ladder that a plan stands on."""
    homes = set(plan.homes.values())
    if plan.launches or plan.split is not None:
        return "launches"
    if Home.MEMORY in homes:
        return "memory"
    held = {axis for axis in space.wholes if plan.chunks[axis] >= space.extents[axis]}
    crossing = [value for value in space.needs.crossing if set(value.whole) - held]
    if any(value.label not in plan.homes for value in crossing):
        return "recompute"
    return "shared" if crossing else "registers"


@dataclass(frozen=True)
class RefinedCandidate:
    """A plan looked at closely: one of a family."""

    space: PlanSearchSpace
    family: PlanFamily
    number: int

    @property
    def weight(self) -> float:
        """Seconds, as they count beside others'."""
        return float(self.family.seconds[self.number])

    @cached_property
    def times(self) -> ModeledTimes:
        return self.family.times.at(self.number)

    @cached_property
    def plan(self) -> Plan:
        return with_pin(self.family.batch.plan(self.number), self.space.pin)

    @cached_property
    def use(self) -> NeedsUse:
        return self.space.use_of(self.plan)

    @property
    def misfit(self) -> str | None:
        """Why it does not fit, None if it does."""
        space = self.space
        return why_not(
            self.use, space.limits, 0.0 if space.may_spill else float(self.family.taken.registers[self.number])
        )


def refine_top_candidates(
    space: PlanSearchSpace, families: Sequence[PlanFamily], wanted: int | None = None
) -> Iterator[RefinedCandidate]:
    """The best plans of all families, and with fewer programs at once where that wins.

    `wanted`: only so many of them, and what is as good; at most `REFINED_AT_ONCE`.
    """
    rows = sorted(
        ((float(family.seconds[row]), number, row) for number, family in enumerate(families) for row in family.best),
        key=lambda each: each[:2],
    )
    if wanted is not None and len(rows) > wanted:
        last = rows[wanted - 1][0]
        rows = [row for row in rows[:REFINED_AT_ONCE] if row[0] <= last]
    for start in range(0, len(rows), REFINED_AT_ONCE):
        some = [RefinedCandidate(space, families[number], row) for _, number, row in rows[start:][:REFINED_AT_ONCE]]
        fewer = [found for each in some[:TRIED_WITH_FEWER] if (found := _with_fewer(each)) is not None]
        yield from sorted([*fewer, *some], key=lambda each: each.weight)


def _with_fewer(candidate: RefinedCandidate) -> RefinedCandidate | None:
    """A GPU's plan with persistent programs: fewer at once, if what they read again or swap then stays in the caches,
    or so that a loop of dots goes on from each to the next. None where that wins too little.
    """
    space, family = candidate.space, candidate.family
    cores, at = space.limits.multiprocessors, family.batch.only(np.arange(len(family.seconds)) == candidate.number)
    programs = float(np.max(at.threads_of_work))
    some = [cores * n for n in (1, 2, 4, 8) if cores * n < programs]
    if space.limits.warp == 1 or not some or space.pin.resident_programs is not None or at.choices.warp_specialized:
        return None
    taken, most = family.taken.rows([candidate.number] * len(some)), most_registers(at, space.limits)
    at = replace(at, resident=np.array(some, dtype=float)).only(True)
    continues = bool(np.any(goes_on(at)))
    if continues:
        use = space.use_of(with_pin(at.first(), space.pin))
        taken = replace(
            taken, registers=np.maximum(taken.registers, use.registers_a_thread),
            shared=np.maximum(taken.shared, use.shared_bytes),
        )  # fmt: skip
    fewer = modelled(space, family.choices, at, taken, most)
    must_win = GOING_ON_MUST_WIN if continues else FEWER_MUST_WIN
    return RefinedCandidate(space, fewer, fewer.best[0]) if fewer.least < must_win * candidate.weight else None
