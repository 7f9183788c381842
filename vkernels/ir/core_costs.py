"""What instructions and memory cost one core of a CPU, as its cost model counts."""

from __future__ import annotations

from dataclasses import dataclass

WIDE = 32
"""Bytes of the widest registers that nearly all cores load two of in a cycle, and store one."""

LAST_CACHE_SHARE = 0.35
"""Part of the last cache that a kernel finds its own, where that was not measured."""


@dataclass(frozen=True)
class CoreCosts:
    """Costs of one core, measured or of its family; the defaults are those of a server core of 2022.

    `loads`, `stores`: whole registers a cycle, from and to the nearest cache. `latency`: cycles from one multiply-add
    to the next that needs it. `level_1`: bytes of the nearest cache. `memory`: bytes a second that one core reads from
    memory at most: as many lines as it can wait for, in a memory's latency.
    `stored_2`, `stored_3`, `stored`: what a byte that is written costs level 2, level 3 and memory beside a byte that
    is read, where its line is fetched first, and written back; `past_3`, `past`: the same of level 3 and memory where
    it is stored past the caches. `past_store`: cycles of each such store that no other work hides, as the test whether
    its address allows it ends what can be interleaved. `cache_share`: part of the last cache that a kernel finds its
    own from call to call in: other work takes the rest. `fetched_store`: cycles of a line, beyond those of one beside
    others, that is stored in a burst of short rows on other pages, and that level 2 has not.
    """

    loads: float = 2.0
    stores: float = 1.0
    latency: float = 4.0
    level_1: float = 32 << 10
    memory: float = 30e9
    stored_2: float = 2.0
    stored_3: float = 2.0
    stored: float = 2.0
    past_3: float = 1.0
    past: float = 1.0
    past_store: float = 3.0
    cache_share: float = LAST_CACHE_SHARE
    fetched_store: float = 0.0


def default_core_costs(register_bytes: int) -> CoreCosts:
    """The costs of a core of which nothing is known but its vector registers: wide ones take two cycles for one."""
    return CoreCosts(loads=1.0, stores=0.5) if register_bytes > WIDE else CoreCosts()
