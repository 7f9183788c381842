"""What parts of a CPU a call keeps busy."""

from __future__ import annotations

from ..cost_model.core_rates import cpu_rates
from ..limits import Limits
from .beside import CallDemand

CORES, LEVEL_3, MEMORY, LAST_CACHE = "cores", "level 3", "memory", "last cache"


def needed_parts(demand: CallDemand, share: Limits, whole: Limits) -> dict[str, float]:
    """What a call on a share of the cores keeps busy, as parts of what the whole slice has.

    `cores`; bandwidth of `level 3` and `memory`; `last cache`: for what it would find there again, so nothing where
    its bytes do not fit.
    """
    of_share, of_whole = cpu_rates(share), cpu_rates(whole)
    capacity = max(1.0, whole.cache * whole.core_costs.cache_share)
    return {
        CORES: min(demand.programs, share.multiprocessors) / whole.multiprocessors,
        LEVEL_3: demand.part(LEVEL_3) * of_share.level_3 / of_whole.level_3,
        MEMORY: demand.part(MEMORY) * of_share.memory / of_whole.memory,
        LAST_CACHE: demand.bytes / capacity if demand.bytes <= capacity else 0.0,
    }
