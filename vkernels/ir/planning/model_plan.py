"""The modelled time of one plan, whoever made it."""

from __future__ import annotations

from ..needs import Device
from ..plan import Plan
from .model_cpu import cpu_registers
from .model_time import Times, model_time
from .one_plan import setting_of
from .space import Space


def model_plan(space: Space, plan: Plan) -> Times:
    """The times of a plan. Raises `PlanError` where the kernel cannot have it."""
    at = setting_of(space, plan)
    use = space.needs.evaluate(plan, space.sizes, Device.of(space.limits))
    registers = cpu_registers(at, space.limits) if space.limits.warp == 1 else use.registers_a_thread
    return model_time(at, space.limits, registers, use.shared_bytes).at(0)
