"""The modelled time of one plan, whoever made it."""

from __future__ import annotations

import numpy as np

from ..needs import Device
from ..plan import Plan
from .model_cpu import cpu_registers
from .model_time import Times, model_time
from .setting import Setting
from .space import Move, Space


def setting_of(space: Space, plan: Plan) -> Setting:
    """A plan as a setting of one. Raises `PlanError` where the kernel cannot have it."""
    held = frozenset(axis for axis in space.wholes if plan.chunks.get(axis, 1) >= space.extents[axis])
    order = (*plan.order, *(axis for axis in space.tiles if axis not in plan.order))
    split = next((axis for axis, shares in plan.splits.items() if shares > 1), None)
    move = Move(
        held, tuple(sorted(plan.homes.items())), plan.copies, plan.packs, plan.streams, order, plan.lanes, split,
        plan.online,
    )  # fmt: skip
    sizes = {axis: np.array([float(plan.tiles[axis])]) for axis in space.tiles}
    sizes |= {axis: np.array([float(plan.chunks[axis])]) for axis in space.wholes}
    shares = plan.splits.get(split, 1) if split is not None else 1
    return space.setting_with(move, sizes, np.array([plan.warps]), np.array([plan.stages]), np.array([shares]))


def model_plan(space: Space, plan: Plan) -> Times:
    """The times of a plan. Raises `PlanError` where the kernel cannot have it."""
    at = setting_of(space, plan)
    use = space.needs.evaluate(plan, space.sizes, Device.of(space.limits))
    registers = cpu_registers(at, space.limits) if space.limits.warp == 1 else use.registers_a_thread
    return model_time(at, space.limits, registers, use.shared_bytes).at(0)
