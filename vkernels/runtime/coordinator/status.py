"""Who shares the CPU: the processes of this user that take part in priorities, what each priority did in them, and how
their contracts of latency are kept."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..pool_board_ir import HIGH
from .cohost import CompanyStats
from .contract_stats import ContractStats
from .priority import LEVELS, joined_board
from .shown_company import company_of
from .shown_contract import shown_stats

if TYPE_CHECKING:
    from .shared_board import Neighbour, SharedBoard


@dataclass(frozen=True)
class LevelStatus:
    """One priority in one process. `at_work`, `paused`: threads now; the others are the counters of `PriorityStats`,
    since the process joined. `of_the_time`: how much of the time calls ran, pauses included; two threads that call at
    once count twice."""

    priority: str
    at_work: int
    paused: int
    calls: int
    seconds: float
    handed_over: int
    pauses: int
    paused_seconds: float
    of_the_time: float


@dataclass(frozen=True)
class ProcessStatus:
    """A process that takes part. `joined`: seconds since the epoch; `elapsed`: since it joined, or since an earlier
    status; `cores`: that it may use; `levels`: all priorities, the highest first; `contracts`: the first eight that it
    watches; `companies`: the latest four of its tasks that met. `fills`, `filled_seconds`: launches of low priority in
    gaps of a GPU, and how long they take as predicted."""

    process: int
    name: str
    joined: float
    elapsed: float
    cores: tuple[int, ...]
    levels: tuple[LevelStatus, ...]
    contracts: tuple[ContractStats, ...] = ()
    companies: tuple[CompanyStats, ...] = ()
    fills: int = 0
    filled_seconds: float = 0.0


def process_statuses(now: float) -> list[ProcessStatus]:
    """All processes of this user that take part, at this time (seconds since the epoch). Raises `SetupError`."""
    from .shared_board import SharedBoard, board_path

    board = joined_board()
    if board is not None:
        return _statuses(board, now)
    path = board_path()
    if not os.path.lexists(path):
        return []
    board = SharedBoard(path)
    try:
        return _statuses(board, now)
    finally:
        board.close()


def since(before: list[ProcessStatus], now: list[ProcessStatus]) -> list[ProcessStatus]:
    """The same processes, with what they did since an earlier status of theirs, if there is one."""
    earlier = {(each.process, each.joined): each for each in before}
    return [_difference(earlier.get((each.process, each.joined)), each) for each in now]


def _statuses(board: SharedBoard, now: float) -> list[ProcessStatus]:
    return [_status(neighbour, now) for neighbour in board.neighbours()]


def _status(found: Neighbour, now: float) -> ProcessStatus:
    elapsed = max(now - found.joined, 1e-9)
    levels = []
    for name, level in reversed(LEVELS.items()):
        calls, nanoseconds, handed_over, pauses, paused = found.counters[level]
        waiting = 0 if level == HIGH else found.paused[level]
        levels.append(
            LevelStatus(
                name, found.at_work[level], waiting, calls, nanoseconds / 1e9, handed_over, pauses, paused / 1e9,
                nanoseconds / 1e9 / elapsed,
            )
        )  # fmt: skip
    contracts = tuple(shown_stats(words) for words in found.contracts)
    companies, (fills, filled) = tuple(company_of(words) for words in found.companies), found.fills
    return ProcessStatus(
        found.process, found.name, found.joined, elapsed, found.cores, tuple(levels), contracts, companies, fills,
        filled / 1e9,
    )  # fmt: skip


def _difference(before: ProcessStatus | None, now: ProcessStatus) -> ProcessStatus:
    if before is None:
        return now
    elapsed = max(now.elapsed - before.elapsed, 1e-9)
    levels = [
        replace(
            later,
            calls=later.calls - earlier.calls,
            seconds=later.seconds - earlier.seconds,
            handed_over=later.handed_over - earlier.handed_over,
            pauses=later.pauses - earlier.pauses,
            paused_seconds=later.paused_seconds - earlier.paused_seconds,
            of_the_time=(later.seconds - earlier.seconds) / elapsed,
        )
        for earlier, later in zip(before.levels, now.levels, strict=True)
    ]
    contracts = tuple(_contract_since(before.contracts, later) for later in now.contracts)
    fills, filled = now.fills - before.fills, now.filled_seconds - before.filled_seconds
    return replace(
        now, elapsed=elapsed, levels=tuple(levels), contracts=contracts, fills=fills, filled_seconds=filled
    )  # fmt: skip


def _contract_since(before: Sequence[ContractStats], now: ContractStats) -> ContractStats:
    """A contract with its calls since an earlier status, if it was watched by then."""
    same = (each for each in before if (each.kernel, each.p99, each.beside) == (now.kernel, now.p99, now.beside))
    earlier = next((each for each in same if each.calls <= now.calls), None)
    if earlier is None:
        return now
    return replace(
        now,
        calls=now.calls - earlier.calls,
        late=now.late - earlier.late,
        hundreds=now.hundreds - earlier.hundreds,
        broken=now.broken - earlier.broken,
    )
