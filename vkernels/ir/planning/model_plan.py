"""The modelled time of one plan, whoever made it."""

from __future__ import annotations

from ..limits import Limits
from ..needs import Device, Use
from ..plan import Plan
from .model_time import Times, model_time
from .one_plan import registers_of, setting_of
from .setting import Setting
from .space import Space


def model_plan(space: Space, plan: Plan) -> Times:
    """The times of a plan. Raises `PlanError` where the kernel cannot have it."""
    use = space.needs.evaluate(plan, space.sizes, Device.of(space.limits))
    return model_use(setting_of(space, plan), use, space.limits)


def model_use(at: Setting, use: Use, limits: Limits) -> Times:
    """The times of the one plan of a setting, that takes so much; each of its launches takes what its phases do."""
    if limits.warp == 1 or not at.launched:
        return model_time(at, limits, registers_of(at, use, limits), use.shared_bytes).at(0)
    own = max(phase.shared_bytes for phase in use.phases)
    each = [[phase for phase in use.phases if phase.name in phases] for phases in at.launched]
    registers = tuple(max((phase.registers_a_thread for phase in some), default=0.0) for some in each)
    shared = tuple(use.shared_bytes - own + max((p.shared_bytes for p in some), default=0.0) for some in each)
    return model_time(at, limits, registers, shared).at(0)
