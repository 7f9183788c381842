"""The way down the ladder: which plan to try where the code of one turned out not to fit."""

from __future__ import annotations

from collections.abc import Iterator

from vkernels.ir.planning.choose_plan import Chosen
from vkernels.ir.planning.shortage import Lack, Shortage

TRIES = 3
"""Plans whose code did not fit before the bottom rung is next."""

CLEARLY = 0.75
"""Part of what a plan took too much of that the next may take by the same model: nearer plans would fail alike."""

BOTTOM = "bottom"


def next_down(plans: Iterator[Chosen], failed: Chosen, shortage: Shortage, tries: int = 1) -> Chosen | None:
    """The next plan to try, of those that `plans_down` has left, where the code of one did not fit.

    The best that by the model takes clearly less of what there was too little of; the last, which is the bottom
    rung's, after `tries` of `TRIES`. None where the bottom rung's is what failed.
    """
    last = None
    for last in plans:
        if last.rung == BOTTOM or (tries < TRIES and is_less(last, failed, shortage.lack)):
            return last
    return last


def is_less(plan: Chosen, than: Chosen, lack: Lack) -> bool:
    """Whether a plan is modelled to take clearly less of a resource than another."""
    return _modelled(plan, lack) <= CLEARLY * _modelled(than, lack)


def _modelled(chosen: Chosen, lack: Lack) -> float:
    use = chosen.use
    match lack:
        case Lack.SHARED:
            return use.shared_bytes
        case Lack.THREADS:
            return use.threads
        case Lack.REGISTERS:
            return use.registers_a_thread * use.threads
        case Lack.TENSOR_MEMORY:
            return use.tensor_memory_columns
        case Lack.SWAP:
            return use.swap_bytes
        case Lack.PROGRAMS:
            return max(use.programs, default=1)
        case Lack.CODE:
            return use.register_bytes
