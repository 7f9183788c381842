"""How long a kernel takes under plans, as modelled: on a CPU or on a GPU, in one launch or in several."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..limits import Limits
from .cpu import cpu_least, cpu_times
from .gpu import gpu_least, gpu_times
from .launches import parts_of
from .plan_batch import ModeledTimes, Numbers, PlanBatch


def model_time(
    at: PlanBatch, limits: Limits, registers: Numbers | tuple[Numbers, ...], shared: Numbers | tuple[Numbers, ...]
) -> ModeledTimes:
    """The times of plans with these registers a thread and bytes of shared memory a program; of each launch,
    where a tuple gives them for each."""
    if at.launched:
        each = [
            model_time(part, limits, _of_launch(registers, number), _of_launch(shared, number))
            for number, part in enumerate(parts_of(at))
        ]
        return _in_turn(each)
    if limits.warp > 1:
        return gpu_times(at, limits, registers, shared)
    return cpu_times(at, limits, registers)


def least_time(at: PlanBatch, limits: Limits) -> Numbers:
    """Seconds that plans take at least as modelled, if they fit: found in a part of the time."""
    if at.launched:
        return sum(least_time(part, limits) for part in parts_of(at))
    return gpu_least(at, limits) if limits.warp > 1 else cpu_least(at, limits)


def _of_launch(numbers: Numbers | tuple[Numbers, ...], launch: int) -> Numbers:
    return numbers[launch] if isinstance(numbers, tuple) else numbers


def _in_turn(each: Sequence[ModeledTimes]) -> ModeledTimes:
    """The times of launches one after another: nothing overlaps from one launch to the next."""
    parts: dict[str, Numbers] = {}
    for times in each:
        for name, value in times.parts.items():
            parts[name] = parts.get(name, 0.0) + value
    launches = sum((times.launches for times in each), start=0.0)
    waited = sum((times.seconds for times in each), start=0.0) - ModeledTimes(parts, launches).seconds
    return ModeledTimes(parts, launches + np.maximum(0, waited))
