"""The needs of all plans of a batch at once, as arrays."""

from __future__ import annotations

import numpy as np

from ..analysis.needs import Columns, NeedsDevice
from ..cost_model.plan_batch import Numbers, PlanBatch
from ..limits import Limits
from .space import PlanSearchSpace


def columns_of(space: PlanSearchSpace, at: PlanBatch, phases: tuple[str, ...] | None = None) -> Columns:
    """What the plans of a batch take on a GPU; in some phases where they are named, else in all."""
    given = {"plan.warps": at.warps, "plan.stages": at.stages, f"split.{at.split}": at.shares}
    given |= {f"{kind}.{axis}": size for kind in ("tile", "chunk") for axis, size in at.sizes.items()}
    return space.needs.columns(at.first(), space.sizes, NeedsDevice.of(space.limits), given, phases)


def most_registers(at: PlanBatch, limits: Limits) -> Numbers:
    """The most registers that a thread of each plan can have on a GPU."""
    device = NeedsDevice.of(limits)
    if not device.block_registers:
        return device.registers
    return np.minimum(device.registers, device.block_registers // (at.warps * limits.warp))


def which_fit(columns: Columns, at: PlanBatch, limits: Limits) -> Numbers:
    """Which plans of a batch fit, by everything but swap space."""
    fits = (columns.least_registers <= most_registers(at, limits)) & (at.warps * limits.warp <= limits.threads)
    fits = fits & (columns.shared <= limits.shared)
    return fits & ((columns.tensor_memory <= limits.tensor_memory) if limits.tensor_memory else True)
