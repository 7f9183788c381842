"""One plan as planning sees it, also one that nobody chose: its setting, and the registers that it takes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..limits import Limits
from ..needs import Use
from ..plan import Plan
from .model_cpu import cpu_registers
from .setting import Setting
from .space import Move, Space


def setting_of(space: Space, plan: Plan) -> Setting:
    """A plan as the model of time takes it. Raises `PlanError` where the kernel cannot have it."""
    split = plan.split
    chunks = {axis: plan.chunks.get(axis, 1) for axis in space.wholes}
    held = frozenset(axis for axis, chunk in chunks.items() if chunk >= space.extents[axis] and axis != split)
    order = tuple(axis for axis in plan.order if axis in space.tiles) or space.tiles
    move = Move(
        held=held, homes=tuple(sorted(plan.homes.items())), copies=plan.copies, packs=plan.packs, streams=plan.streams,
        order=order, lanes=plan.lanes, split=split, online=plan.online, cuts=plan.launches,
    )  # fmt: skip
    sizes = {**{axis: plan.tiles.get(axis, 1) for axis in space.tiles}, **chunks}
    warps, shares = plan.warps if space.limits.warp > 1 else 1, plan.splits[split] if split is not None else 1
    one = {axis: _one(size) for axis, size in sizes.items()}
    resident = _one(plan.resident_programs)
    return space.setting_with(move, one, _one(warps), _one(plan.stages), _one(shares), resident)


def registers_of(setting: Setting, use: Use, limits: Limits) -> float:
    """Registers that the tiles of a plan take, of a thread."""
    found = use.registers_a_thread if limits.warp > 1 else cpu_registers(setting, limits)
    return float(np.max(found))


def registers_by_phase(space: Space, plan: Plan, use: Use) -> dict[str, float]:
    """Registers a thread that each phase needs; on a CPU the planner's own count, made for vectors that are unrolled.

    Raises `PlanError` where the kernel cannot have the plan.
    """
    if space.limits.warp > 1:
        return {phase.name: phase.registers_a_thread for phase in use.phases}
    setting = setting_of(space, plan)
    return {phase.name: registers_of(_within(setting, phase.name), use, space.limits) for phase in use.phases}


def _within(setting: Setting, phase: str) -> Setting:
    return replace(setting, loops=tuple(loop for loop in setting.loops if loop.phase == phase))


def _one(number: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([float(number)])
