"""One plan as planning sees it: a batch of one, and the registers that it takes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..analysis.needs import NeedsUse
from ..cost_model.cpu_registers import cpu_registers
from ..cost_model.model_time import model_time
from ..cost_model.plan_batch import ModeledTimes, PlanBatch
from ..limits import Limits
from ..plan import AS_IN_PLANS, Plan, StructuralChoices
from .space import PlanSearchSpace


def batch_of(space: PlanSearchSpace, plan: Plan) -> PlanBatch:
    """A plan as the model of time takes it. Raises `PlanError` where the kernel cannot have it."""
    split = plan.split
    chunks = {axis: plan.chunks.get(axis, 1) for axis in space.wholes}
    held = frozenset(axis for axis, chunk in chunks.items() if chunk >= space.extents[axis] and axis != split)
    order = tuple(axis for axis in plan.order if axis in space.tiles) or space.tiles
    same = {**{name: getattr(plan, name) for name in AS_IN_PLANS}, "order": order}
    choices = StructuralChoices(held=held, homes=tuple(sorted(plan.homes.items())), split=split, **same)
    sizes = {**{axis: plan.tiles.get(axis, 1) for axis in space.tiles}, **chunks}
    warps, shares = plan.warps if space.limits.warp > 1 else 1, plan.splits[split] if split is not None else 1
    one = {axis: _one(size) for axis, size in sizes.items()}
    resident = _one(plan.resident_programs)
    return space.batch_with(choices, one, _one(warps), _one(plan.stages), _one(shares), resident)


def registers_of(batch: PlanBatch, use: NeedsUse, limits: Limits) -> float:
    """Registers that the tiles of a plan take, of a thread."""
    found = use.registers_a_thread if limits.warp > 1 else cpu_registers(batch, limits)
    return float(np.max(found))


def registers_by_phase(space: PlanSearchSpace, plan: Plan, use: NeedsUse) -> dict[str, float]:
    """Registers a thread that each phase needs; on a CPU the planner's own count, made for vectors that are unrolled.

    Raises `PlanError` where the kernel cannot have the plan.
    """
    if space.limits.warp > 1:
        return {phase.name: phase.registers_a_thread for phase in use.phases}
    batch = batch_of(space, plan)
    return {phase.name: registers_of(_within(batch, phase.name), use, space.limits) for phase in use.phases}


def _within(batch: PlanBatch, phase: str) -> PlanBatch:
    return replace(batch, loops=tuple(loop for loop in batch.loops if loop.phase == phase))


def _one(number: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([float(number)])


def model_plan(space: PlanSearchSpace, plan: Plan) -> ModeledTimes:
    """The times of a plan. Raises `PlanError` where the kernel cannot have it."""
    use = space.use_of(plan)
    return model_use(batch_of(space, plan), use, space.limits)


def model_use(at: PlanBatch, use: NeedsUse, limits: Limits) -> ModeledTimes:
    """The times of the one plan of a batch, which takes so much; each of its launches takes what its phases do."""
    if limits.warp == 1 or not at.launched:
        return model_time(at, limits, registers_of(at, use, limits), use.shared_bytes).at(0)
    own = max(phase.shared_bytes for phase in use.phases)
    each = [[phase for phase in use.phases if phase.name in phases] for phases in at.launched]
    registers = tuple(max((phase.registers_a_thread for phase in some), default=0.0) for some in each)
    shared = tuple(use.shared_bytes - own + max((p.shared_bytes for p in some), default=0.0) for some in each)
    return model_time(at, limits, registers, shared).at(0)
