"""The modelled time of any plan, also one that nobody chose by it."""

from __future__ import annotations

import numpy as np

from vkernels.ir.limits import Limits
from vkernels.ir.needs import Use
from vkernels.ir.plan import Plan
from vkernels.ir.planning.model_cpu import cpu_registers
from vkernels.ir.planning.model_time import Times
from vkernels.ir.planning.setting import Setting
from vkernels.ir.planning.space import Move, Space

from .explained import Modelled


def setting_of(space: Space, plan: Plan) -> Setting:
    """A plan as the model of time takes it. Raises `PlanError` where the kernel cannot have it."""
    split = next((axis for axis, programs in plan.splits.items() if programs > 1), None)
    chunks = {axis: plan.chunks.get(axis, 1) for axis in space.wholes}
    held = frozenset(axis for axis, chunk in chunks.items() if chunk >= space.extents[axis] and axis != split)
    order = tuple(axis for axis in plan.order if axis in space.tiles) or space.tiles
    move = Move(
        held=held, homes=tuple(sorted(plan.homes.items())), copies=plan.copies, packs=plan.packs, streams=plan.streams,
        order=order, lanes=plan.lanes, split=split,
    )  # fmt: skip
    sizes = {**{axis: plan.tiles.get(axis, 1) for axis in space.tiles}, **chunks}
    return Setting(
        loops=space.loops(move),
        sizes={axis: _one(size) for axis, size in sizes.items()},
        extents=space.extents,
        order=order,
        held=held,
        lanes=plan.lanes,
        homes=dict(plan.homes),
        copies=plan.copies,
        packs=plan.packs,
        streams=plan.streams,
        split=split,
        split_launches=space.needs.splittable.get(split, ()) if split is not None else (),
        shares=_one(plan.splits[split] if split is not None else 1),
        warps=_one(plan.warps if space.limits.warp > 1 else 1),
        stages=_one(plan.stages),
    )


def registers_of(setting: Setting, use: Use, limits: Limits) -> float:
    """Registers that the tiles of a plan take, of a thread."""
    found = use.registers_a_thread if limits.warp > 1 else cpu_registers(setting, limits)
    return float(np.max(found))


def as_modelled(times: Times) -> Modelled:
    """Times as plain numbers."""
    parts = {name: float(value) for name, value in times.parts.items()}
    return Modelled(float(times.seconds), parts, float(times.launches), times.bottleneck)


def _one(number: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([float(number)])
