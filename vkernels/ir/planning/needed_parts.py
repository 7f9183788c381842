"""What parts of a device a call keeps busy."""

from __future__ import annotations

from ..cost_model.core_rates import cpu_rates
from ..cost_model.gpu import CACHE_HELD
from ..limits import Limits
from .beside import CallDemand

CORES, LEVEL_2, LEVEL_3, MEMORY, LAST_CACHE = "cores", "level 2", "level 3", "memory", "last cache"


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


def needed_parts_of_gpu(demand: CallDemand, share: Limits, whole: Limits) -> dict[str, float]:
    """The same of a call on a share of a GPU's multiprocessors.

    Bandwidth of the last cache (`level 2`) and of `memory`; `last cache`, as on a CPU. What its programs hold of
    multiprocessors is not in it, see `HeldPrograms`.
    """
    capacity = max(1.0, CACHE_HELD * whole.cache)
    return {
        LEVEL_2: demand.part("cache") * share.cache_bandwidth / whole.cache_bandwidth,
        MEMORY: demand.part(MEMORY) * share.memory_bandwidth / whole.memory_bandwidth,
        LAST_CACHE: demand.bytes / capacity if demand.bytes <= capacity else 0.0,
    }
