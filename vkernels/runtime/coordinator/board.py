"""The memory in which threads tell the pools their priorities; `pool_board_ir` describes it."""

from __future__ import annotations

import ctypes
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vkernels.ir.errors import SetupError
from vkernels.ir.fork_safe import fork_safe_lock

from ..memory_blocks import Block
from ..pool_board_ir import (
    ALL_PROCESSES,
    BOARD_WORDS,
    CORES_OF_BOARD,
    COUNTERS,
    COUNTERS_AT,
    ENTRIES,
    ENTRIES_USED,
    FILE,
    NORMAL,
    OWN_PROCESS,
    PAUSE_LOG,
)
from ..pool_shared_ir import COUNTERS_OF_PROCESS

if TYPE_CHECKING:
    from .shared_board import SharedBoard

_log = logging.getLogger(__name__)

OTHERS, CORES, USED, FIRST = 0, CORES_OF_BOARD, ENTRIES_USED, 32


@dataclass(frozen=True)
class PriorityStats:
    """Counters of one priority on the CPU, since the process first used any.

    `calls`: completed, with their `seconds`, pauses included; of normal priority only those of 50 µs or more, and those
    made while some thread has another. `handed_over`: calls of low priority that ran in the system's idle class.
    `pauses`: how often a thread waited for calls of higher priority, with the `paused_seconds` of all threads.
    """

    calls: int = 0
    seconds: float = 0.0
    handed_over: int = 0
    pauses: int = 0
    paused_seconds: float = 0.0


class Board:
    """Priorities of threads, by `Pool.this_thread`. Native code reads it; only Python writes entries."""

    def __init__(self, cores: int) -> None:
        self._block = Block(8 * BOARD_WORDS)
        self._words = (ctypes.c_int64 * BOARD_WORDS).from_address(self._block.address)
        self._lock = fork_safe_lock()
        self.shared: SharedBoard | None = None
        self.clear(cores)

    @property
    def address(self) -> int:
        """Where it is."""
        return self._block.address

    def stats(self, priority: int) -> PriorityStats:
        """Counters of calls of this priority."""
        counters = (ctypes.c_int64 * 5).from_address(self._words[COUNTERS_AT] + 64 * priority)
        calls, nanoseconds, handed_over, pauses, paused = counters
        return PriorityStats(calls, nanoseconds / 1e9, handed_over, pauses, paused / 1e9)

    def clear(self, cores: int) -> None:
        """Forget every thread, call and other process, as after a fork."""
        ctypes.memset(self._block.address, 0, 8 * BOARD_WORDS)
        self._words[CORES] = cores
        self._words[COUNTERS_AT] = self._block.address + 8 * COUNTERS
        if self.shared is not None:
            self.shared.close()
            self.shared = None

    def join_others(self) -> bool:
        """Join the user's other processes, before any thread is at work; False, and logged, where that cannot be."""
        if self.shared is not None:
            return True
        from .shared_board import joined_board  # there is none on Windows

        try:
            shared = joined_board()
        except SetupError as error:
            _log.warning("priorities do not reach other processes: %s", error)
            return False
        self.shared = shared
        self._words[FILE] = shared.file
        self._words[COUNTERS_AT] = shared.own_address + 8 * COUNTERS_OF_PROCESS
        self._words[OWN_PROCESS], self._words[ALL_PROCESSES] = shared.own_address, shared.address
        return True

    def log_pauses(self, address: int) -> None:
        """Let threads note their pauses in a log at this address; nowhere at 0."""
        self._words[PAUSE_LOG] = address

    def put(self, thread: int, priority: int) -> None:
        """Set the priority of a thread, which must be the calling one. Raises `SetupError` where too many have one."""
        words = self._words
        with self._lock:
            places = range(FIRST, FIRST + 2 * words[USED], 2)
            at = next((place for place in places if words[place] == thread), None)
            if priority == NORMAL:
                if at is not None:
                    words[at] = 0
                    words[OTHERS] -= 1
                return
            if at is not None:
                words[at + 1] = priority
                return
            at = next((place for place in places if words[place] == 0), FIRST + 2 * words[USED])
            if at >= FIRST + 2 * ENTRIES:
                raise SetupError(f"more than {ENTRIES} threads with a priority other than normal at once")
            words[at + 1], words[at] = priority, thread
            words[USED] = max(words[USED], (at - FIRST) // 2 + 1)
            words[OTHERS] += 1
