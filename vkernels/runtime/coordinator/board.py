"""The memory in which threads tell the pools their priorities; `pool_board_ir` describes it."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from vkernels.ir.errors import SetupError
from vkernels.ir.fork_safe import fork_safe_lock

from ..memory_blocks import Block
from ..pool_board_ir import BOARD_WORDS, COUNTERS, ENTRIES, NORMAL

OTHERS, CORES, USED, FIRST = 0, 3, 4, 32


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
        self.clear(cores)

    @property
    def address(self) -> int:
        """Where it is."""
        return self._block.address

    def stats(self, priority: int) -> PriorityStats:
        """Counters of calls of this priority."""
        start = COUNTERS + 8 * priority
        calls, nanoseconds, handed_over, pauses, paused = self._words[start : start + 5]
        return PriorityStats(calls, nanoseconds / 1e9, handed_over, pauses, paused / 1e9)

    def clear(self, cores: int) -> None:
        """Forget every thread and call, as after a fork."""
        ctypes.memset(self._block.address, 0, 8 * BOARD_WORDS)
        self._words[CORES] = cores

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
