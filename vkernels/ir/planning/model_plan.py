"""The modelled time of one plan, whoever made it."""

from __future__ import annotations

from ..analysis.needs import NeedsDevice, NeedsUse
from ..cost_model.model_time import model_time
from ..cost_model.plan_batch import PlanBatch
from ..cost_model.time import ModeledTimes
from ..limits import Limits
from ..plan import Plan
from .one_plan import batch_of, registers_of
from .space import PlanSearchSpace


def model_plan(space: PlanSearchSpace, plan: Plan) -> ModeledTimes:
    """The times of a plan. Raises `PlanError` where the kernel cannot have it."""
    use = space.needs.evaluate(plan, space.sizes, NeedsDevice.of(space.limits))
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
