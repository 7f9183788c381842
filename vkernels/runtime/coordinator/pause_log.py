"""A log of the pauses of threads that give way, which native code writes while somebody traces."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..memory_blocks import Block
from ..pool_board_ir import FIRST_RECORD, RECORD_WORDS
from .priority import LEVELS, log_pauses

MOST_PAUSES = 1 << 16
"""Pauses that are noted at most; later ones are only counted."""


@dataclass(frozen=True)
class Pause:
    """A pause of a thread, by `Pool.this_thread`, for calls of higher priority. `start`, `end`: seconds of
    `time.perf_counter()`; `priority`: of the work that paused."""

    thread: int
    priority: str
    start: float
    end: float


class PauseLog:
    """The memory of a log. `left_out`: pauses that had no room."""

    def __init__(self, most: int = MOST_PAUSES) -> None:
        self._most = most
        self._block = Block(8 * (FIRST_RECORD + RECORD_WORDS * most))
        self._words = (ctypes.c_int64 * (self._block.size // 8)).from_address(self._block.address)
        self._words[0], self._words[1] = most, most
        self.clear()

    @property
    def address(self) -> int:
        """Where it is."""
        return self._block.address

    @property
    def left_out(self) -> int:
        return max(0, self._words[0] - self._most)

    def clear(self) -> None:
        """Forget all pauses."""
        used = min(self._words[0], self._most)
        ctypes.memset(self._block.address + 8 * FIRST_RECORD, 0, 8 * RECORD_WORDS * used)
        self._words[0] = 0

    def pauses(self) -> list[Pause]:
        """The pauses that ended, in the order in which they did, nearly."""
        names, found = {number: name for name, number in LEVELS.items()}, []
        for record in range(min(self._words[0], self._most)):
            at = FIRST_RECORD + RECORD_WORDS * record
            thread, level, began, ended = self._words[at : at + RECORD_WORDS]
            if ended:
                found.append(Pause(thread, names[level], began / 1e9, ended / 1e9))
        return found


_spare: list[PauseLog] = []
"""Logs that nobody reads; a thread that paused may still write to one, so their memory stays."""


@contextmanager
def logging_pauses() -> Iterator[PauseLog]:
    """Note the pauses of all threads of this process while the block runs: read them within it.

    One log is written at a time, that of the innermost block.
    """
    log = _spare.pop() if _spare else PauseLog()
    log.clear()
    before = log_pauses(log.address)
    try:
        yield log
    finally:
        log_pauses(before)
        _spare.append(log)
