"""What calls on a CPU take of its cores, caches and memory, and how they slow each other down, as modelled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..cost_model.core_rates import cpu_rates
from ..cost_model.cpu import lost_between
from ..cost_model.plan_batch import ModeledTimes
from ..cost_model.traffic import CacheTraffic
from ..limits import Limits
from ..plan import Plan
from .one_plan import batch_of, model_use
from .space import PlanSearchSpace

SHARED = ("level 3", "memory")
"""Parts of a call's time that other cores share."""


@dataclass(frozen=True)
class CallDemand:
    """What one call takes while nothing else runs. `seconds`; `parts`: by what takes them, as `ModeledTimes` has them.

    `programs`: of its launch with the most. `bytes`: of all tensors that it touches, each element once.
    """

    seconds: float
    parts: Mapping[str, float]
    programs: int
    bytes: float

    def part(self, name: str) -> float:
        """How much of the time, at most 1, the call keeps level 3 or memory as busy as it can."""
        return min(1.0, self.parts.get(name, 0.0) / self.seconds) if self.seconds > 0 else 0.0


def demand_of(space: PlanSearchSpace, plan: Plan) -> CallDemand:
    """What a call under a plan takes. Raises `PlanError` where the kernel cannot have the plan."""
    at = batch_of(space, plan)
    times = model_use(at, space.use_of(plan), space.limits)
    touched = float(np.max(CacheTraffic(at, on_chip_counts=True).distinct()))
    parts = {name: float(value) for name, value in times.parts.items()}
    return CallDemand(float(times.seconds), parts, max(1, int(np.max(at.threads_of_work))), touched)


def slowdown(space: PlanSearchSpace, plan: Plan, others: Sequence[CallDemand]) -> float:
    """How many times as long a call takes while the others run on other cores, all the time.

    It has the bandwidth of level 3 and of memory that the others leave, at least its equal share; and the part of the
    last cache that they do not fill meanwhile, at least its part of all bytes that are touched. Raises `PlanError`
    where the kernel cannot have the plan.
    """
    if not others:
        return 1.0
    own, limits = demand_of(space, plan), space.limits
    level_3, memory = (_left([other.part(name) for other in others]) for name in SHARED)
    crowded = _crowded(limits, level_3, memory, _cache_left(own, others, limits))
    found = model_use(batch_of(space, plan), space.use_of(plan), crowded)
    return max(1.0, float(found.seconds) / own.seconds) if own.seconds > 0 else 1.0


def refetch_seconds(own: CallDemand, others: Sequence[CallDemand], limits: Limits, gap: float | None = None) -> float:
    """How much longer a call takes as others ran since the last one: it would have found more in level 2 and 3.

    `gap`: the seconds that they ran; None: until all their bytes have passed. What is fetched again overlaps with the
    rest of the call as all its parts do.
    """
    if not others or not own.bytes:
        return 0.0
    rates, core = cpu_rates(limits), limits.core_costs
    memory = min(rates.memory, core.memory * limits.multiprocessors)
    passed = sum(_touched(other, rates.level_3, gap) for other in others)
    lost_2 = _lost_more(own, passed, limits.shared * limits.multiprocessors)
    lost_3 = _lost_more(own, passed, limits.cache * core.cache_share)
    again = {"level 3": lost_2 / rates.level_3, "memory": lost_3 / memory}
    parts = {name: own.parts.get(name, 0.0) + again.get(name, 0.0) for name in {**own.parts, **again}}
    return max(0.0, float(ModeledTimes(parts, 0.0).seconds - ModeledTimes(own.parts, 0.0).seconds))


def _touched(other: CallDemand, level_3: float, gap: float | None) -> float:
    """Different bytes that another touches in level 3 meanwhile: what was not touched for longest is lost first."""
    return other.bytes if gap is None else min(other.bytes, other.part("level 3") * level_3 * gap)


def _crowded(limits: Limits, level_3: float, memory: float, cache: float) -> Limits:
    """Limits with these parts of the bandwidths and of the last cache. What they leave to defaults is written out."""
    rates, core = cpu_rates(limits), limits.core_costs
    lanes = limits.register_bytes / 4
    multiply_adds = {**limits.multiply_adds, "float32": rates.vectors * rates.clock * limits.multiprocessors * lanes}
    return replace(
        limits,
        clock=rates.clock,
        multiply_adds=multiply_adds,
        shared_bandwidth=rates.level_2,
        cache_bandwidth=rates.level_3 * level_3,
        memory_bandwidth=rates.memory * memory,
        core=replace(core, memory=core.memory * memory, cache_share=core.cache_share * cache),
    )


def _cache_left(own: CallDemand, others: Sequence[CallDemand], limits: Limits) -> float:
    """The part of the last cache that the others leave during a call: what fits stays there, other bytes pass through
    as fast as they come from memory."""
    capacity, memory = limits.cache * limits.core_costs.cache_share, cpu_rates(limits).memory
    filled = sum(
        other.bytes if other.bytes <= capacity else min(other.bytes, memory * other.part("memory") * own.seconds)
        for other in others
    )
    all_bytes = own.bytes + sum(other.bytes for other in others)
    return max(own.bytes / all_bytes if all_bytes else 1.0, 1 - filled / max(1.0, capacity))


def _left(parts: Sequence[float]) -> float:
    """The part of a bandwidth that is left beside these parts."""
    return max(1 / (1 + len(parts)), 1 - sum(parts))


def _lost_more(own: CallDemand, passed: float, capacity: float) -> float:
    """How many more of a call's own bytes a cache has lost when its next call comes, as so many others passed."""
    capacity = max(1.0, capacity)
    return own.bytes * max(
        0.0, float(lost_between((own.bytes + passed) / capacity) - lost_between(own.bytes / capacity))
    )
