"""What would change under other limits, and which phases and lines the modelled time goes to."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vkernels.ir.analyses import annotate_needs, phases_of
from vkernels.ir.analysis.needs import Needs, NeedsDevice, NeedsUse
from vkernels.ir.analysis.needs.held_values import held_values
from vkernels.ir.cost_model.plan_batch import ModeledTimes
from vkernels.ir.dialect import KernelOp
from vkernels.ir.errors import PlanError
from vkernels.ir.limits import Limits
from vkernels.ir.locations import place_of
from vkernels.ir.pin import Pin
from vkernels.ir.plan import Plan
from vkernels.ir.plan_json import plan_to_json
from vkernels.ir.planning.choose_plan import choose_plan
from vkernels.ir.planning.fits import why_not
from vkernels.ir.planning.line_costs import work_shares
from vkernels.ir.planning.one_plan import batch_of, model_use, registers_of
from vkernels.ir.planning.space import PlanSearchSpace, read_space
from vkernels.targets.what_if import QUANTITIES, with_rate

from .explanation import (
    CostOfLine,
    CostOfPhase,
    HeldByLine,
    RegisterCost,
    ResourceCost,
    SmallChange,
    Supposed,
    SupposedPlan,
    as_modelled,
)

RATES = ("bandwidth", "cache_bandwidth", "shared_bandwidth", "clock")
RATE_FACTOR = 1.1
"""By which rates grow: a derivative of the modelled time, in steps that its rounding does not hide."""


def judge_in(space: PlanSearchSpace) -> Callable[[Plan, NeedsUse], tuple[str, ModeledTimes | None]]:
    """A function of a plan and its use: why it does not fit (empty if it does), and its modelled times if known."""

    def judged(plan: Plan, use: NeedsUse) -> tuple[str, ModeledTimes | None]:
        try:
            setting = batch_of(space, plan)
        except PlanError:
            return why_not(use, space.limits, use.registers_a_thread) or "", None
        registers = registers_of(setting, use, space.limits)
        return why_not(use, space.limits, registers) or "", model_use(setting, use, space.limits)

    return judged


@dataclass(frozen=True)
class Planned:
    """A kernel in phases or as written, its needs, and what a call of it is planned by."""

    kernel: KernelOp
    needs: Needs
    sizes: Mapping[str, int]
    strides: Mapping[str, Sequence[int]]
    pin: Pin | None

    def under(self, text: str, limits: Limits, plan: Plan) -> Supposed:
        """A plan under other limits, and the plan that the planner chooses there."""
        return Supposed(text, self.same(limits, plan), self.anew(limits))

    def same(self, limits: Limits, plan: Plan) -> SupposedPlan:
        """A plan under other limits."""
        misfit, times, *_ = self._judged(limits, plan)
        modelled = as_modelled(times) if times is not None and not misfit else None
        return SupposedPlan(plan_to_json(plan), misfit, modelled)

    def anew(self, limits: Limits) -> SupposedPlan:
        """The plan that the planner chooses under other limits."""
        anew = choose_plan(self.kernel, self.sizes, limits, self.needs, self.strides, self.pin)
        return SupposedPlan(plan_to_json(anew.plan), "", as_modelled(anew.times), anew.rung)

    def small_changes(self, limits: Limits, plan: Plan) -> tuple[SmallChange, ...]:
        """What a plan takes with each rate a little higher, and with each of its tiles and chunks doubled."""
        before = self._judged(limits, plan)
        if before[1] is None:
            return ()
        rates = [
            (name, RATE_FACTOR, with_rate(limits, name, RATE_FACTOR), plan)
            for name in RATES
            if isinstance(getattr(limits, QUANTITIES[name].field), float | int)
        ]
        sizes = [
            (f"tile of {axis}", 2.0, limits, replace(plan, tiles={**plan.tiles, axis: 2 * size}))
            for axis, size in plan.tiles.items()
        ]
        sizes += [
            (f"chunk of {axis}", 2.0, limits, replace(plan, chunks={**plan.chunks, axis: 2 * size}))
            for axis, size in plan.chunks.items()
        ]
        found = []
        for what, factor, others, changed in (*rates, *sizes):
            misfit, times, use, registers = self._judged(others, changed)
            seconds = None if times is None else float(times.seconds) / float(before[1].seconds)
            found.append(SmallChange(what, factor, seconds, registers, float(use.shared_bytes), misfit))
        return tuple(found)

    def _judged(self, limits: Limits, plan: Plan) -> tuple[str, ModeledTimes | None, NeedsUse, float]:
        """Why a plan does not fit, its modelled times, what it uses, and its registers (CPU: vector registers)."""
        space = read_space(self.kernel, self.sizes, limits, self.needs, self.strides, self.pin)
        use = self.needs.evaluate(plan, self.sizes, NeedsDevice.of(limits))
        misfit, times = judge_in(space)(plan, use)
        registers = use.registers_a_thread if times is None else registers_of(batch_of(space, plan), use, limits)
        return misfit, times, use, float(registers)


def costs_of(space: PlanSearchSpace, plan: Plan, use: NeedsUse) -> tuple[ResourceCost, ...]:
    """The parts of the modelled time, the longest first, by phase and by line of the author's text."""
    try:
        batch = batch_of(space, plan)
    except PlanError:
        return ()
    shares, times = work_shares(batch, use, space.limits), model_use(batch, use, space.limits)
    seconds: dict[str, Any] = {name: float(value) for name, value in times.parts.items()}
    return tuple(
        ResourceCost(
            name,
            seconds[name],
            tuple(CostOfPhase(phase, its) for phase, its in _largest(name, shares.phases)),
            tuple(
                CostOfLine(file, line, linecache.getline(file, line).strip(), its)
                for (file, line), its in _largest(name, shares.lines)
            ),
        )
        for name in sorted(seconds, key=lambda each: -seconds[each])
        if seconds[name] > 0
    )


def held_by_lines(
    kernel: KernelOp, plan: Plan, sizes: Mapping[str, int], limits: Limits
) -> RegisterCost | None:  # fmt: skip
    """The lines of the author's text whose values take a GPU's registers; None on a CPU, where loops are vectors wide
    and registers are counted loop by loop."""
    if limits.warp == 1:
        return None
    found = held_values(phases_of(kernel), annotate_needs(kernel), plan, sizes, NeedsDevice.of(limits))
    if found is None:
        return None
    lines: dict[tuple[str, int], float] = {}
    for op, taken in found.bytes.items():
        if (place := place_of(op)) is not None:
            lines[place.file, place.line] = lines.get((place.file, place.line), 0.0) + taken
    return RegisterCost(
        found.phase,
        sum(found.bytes.values()),
        tuple(
            HeldByLine(file, line, linecache.getline(file, line).strip(), taken)
            for (file, line), taken in sorted(lines.items(), key=lambda each: -each[1])
        ),
    )


def _largest(resource: str, shares: Mapping[Any, Mapping[str, float]]) -> list[tuple[Any, float]]:
    found = [(one, float(parts[resource])) for one, parts in shares.items() if parts[resource] > 0]
    return sorted(found, key=lambda each: -each[1])
