"""How contracts of latency are kept: what `vk.stats` says of them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Protocol

from vkernels.ir.fork_safe import fork_safe_lock

PART = 100
"""One call of so many may be late: a p99."""


@dataclass(frozen=True)
class ContractStats:
    """How a contract is kept. `kernel`: with its sizes; `p99`: the agreed seconds; `priority`, `beside`: as agreed.

    `calls`: calls that were watched; `late`: those that took longer than `p99`; `longest`: the seconds of the longest.
    `hundreds`: complete hundreds of calls; `broken`: those of them with more than one late call.
    """

    kernel: str
    p99: float
    priority: str
    beside: tuple[str, ...]
    calls: int
    late: int
    longest: float
    hundreds: int
    broken: int

    @property
    def is_kept(self) -> bool:
        """Whether at most one call of a hundred was late."""
        return PART * self.late <= max(PART, self.calls)


class Watched(Protocol):
    """A contract whose calls are watched."""

    @property
    def stats(self) -> ContractStats:
        """How it is kept by now."""
        ...

    def begin_anew(self) -> None:
        """Forget all calls."""
        ...


_lock = fork_safe_lock()
_watched: list[Watched] = []


def begin_watching(contract: Watched) -> None:
    """Count a contract among those of this process."""
    with _lock:
        _watched.append(contract)


def end_watching(contract: Watched) -> bool:
    """Count it no more; returns whether it was counted."""
    with _lock:
        if contract not in _watched:
            return False
        _watched.remove(contract)
        return True


def contract_stats() -> tuple[ContractStats, ...]:
    """How the contracts of this process are kept, in the order in which they were made."""
    with _lock:
        watched = list(_watched)
    return tuple(each.stats for each in watched)


def _begin_anew() -> None:
    """A forked child has the contracts of its parent, but not its calls."""
    for each in _watched:
        each.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
