"""The needs of all plans of a setting at once, as arrays."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from ..limits import Limits
from ..needs import Device
from ..needs.use import PhaseUse
from .setting import Numbers, Setting
from .space import Space

_FIELDS = tuple(field.name for field in fields(PhaseUse))[1:]


@dataclass(frozen=True)
class Columns:
    """Of each plan: registers a thread, and as few as it can do with; shared bytes; columns of tensor memory."""

    registers: Numbers
    least_registers: Numbers
    shared: Numbers
    tensor_memory: Numbers

    def fit(self, at: Setting, limits: Limits) -> Numbers:
        """Which plans fit, by everything but swap space."""
        device = Device.of(limits)
        threads = at.warps * limits.warp
        most = np.full(np.shape(at.warps), float(device.registers))
        if device.block_registers:
            most = np.minimum(most, device.block_registers // threads)
        fits = (self.least_registers <= most) & (threads <= limits.threads) & (self.shared <= limits.shared)
        return fits & ((self.tensor_memory <= limits.tensor_memory) if limits.tensor_memory else True)


def columns_of(space: Space, at: Setting) -> Columns:
    """What the plans of a setting take on a GPU."""
    needs, device = space.needs, Device.of(space.limits)
    bound = needs._bound(at.first(), space.sizes, needs.extents(space.sizes), device)
    values: dict[str, Numbers] = dict(zip(needs._names, bound, strict=True))
    for axis, size in at.sizes.items():
        for name in (f"tile.{axis}", f"chunk.{axis}"):
            if name in values:
                values[name] = size
    given = {"plan.warps": at.warps, "plan.stages": at.stages, f"split.{at.split}": at.shares}
    values |= {name: value for name, value in given.items() if name in values}
    outputs = needs._arrays(*(np.asarray(value, dtype=np.float64) for value in values.values()))
    by_field = {name: outputs[number : -3 : len(_FIELDS)] for number, name in enumerate(_FIELDS)}

    def worst(name: str) -> Numbers:
        most: Numbers = 0.0
        for value in by_field[name]:
            most = np.maximum(most, value)
        return np.broadcast_to(most, np.shape(at.warps))

    own, scratch = worst("shared_bytes"), np.asarray(outputs[-3])
    shared = np.where(scratch > 0, np.ceil(own / 128) * 128 + scratch + 16, own)
    least = worst("registers_at_least")
    return Columns(worst("registers_a_thread"), least, shared, worst("tensor_memory_columns"))
