"""Contracts of latency on the board of all processes, where `vk coordinate status` reads them."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vkernels.ir.fork_safe import fork_safe_lock

from ..pool_shared_ir import (
    CONTRACT_BESIDE,
    CONTRACT_COUNTERS,
    CONTRACT_KERNEL,
    CONTRACT_LEVEL,
    CONTRACT_P99,
    CONTRACT_TEXT,
    CONTRACT_WORDS,
)
from .contract_stats import ContractStats
from .priority import LEVELS, joined_board

if TYPE_CHECKING:
    from .shared_board import SharedBoard

SEPARATOR = "; "
_lock = fork_safe_lock()


class ShownContract:
    """A contract as others see it, once this process is on the board and has room for one more.

    Not for two threads at once. A forked child that joins shows it as its own.
    """

    def __init__(self, kernel: str, p99: float, priority: str, beside: Sequence[str]) -> None:
        self._texts = as_bytes(kernel), as_bytes(SEPARATOR.join(beside))
        self._level, self._p99 = LEVELS[priority], round(1e9 * p99)
        self._board: SharedBoard | None = None
        self._words: ctypes.Array[ctypes.c_int64] | None = None

    def show(self, calls: int, late: int, longest: float, hundreds: int, broken: int) -> None:
        """Write how it is kept by now. `longest`: seconds."""
        board = joined_board()
        if board is None:
            return
        if board is not self._board:
            self._board, self._words = board, self._taken(board)
        if self._words is not None:
            self._words[CONTRACT_COUNTERS : CONTRACT_COUNTERS + 5] = [
                calls, late, round(1e9 * longest), hundreds, broken,
            ]  # fmt: skip

    def end(self) -> None:
        """Show it no more."""
        if self._words is not None and self._board is joined_board():
            self._words[0] = 0
        self._board = self._words = None

    def _taken(self, board: SharedBoard) -> ctypes.Array[ctypes.c_int64] | None:
        """The words of a free place, with what does not change; None where there is none."""
        with _lock:
            for address in board.contract_places():
                words = (ctypes.c_int64 * CONTRACT_WORDS).from_address(address)
                if words[0] == board.number:
                    continue
                kernel, beside = self._texts
                words[CONTRACT_LEVEL], words[CONTRACT_P99] = self._level, self._p99
                words[CONTRACT_COUNTERS : CONTRACT_COUNTERS + 5] = [0] * 5
                ctypes.memmove(address + 8 * CONTRACT_KERNEL, kernel, CONTRACT_TEXT)
                ctypes.memmove(address + 8 * CONTRACT_BESIDE, beside, CONTRACT_TEXT)
                words[0] = board.number
                return words
        return None


def shown_stats(words: Sequence[int]) -> ContractStats:
    """How a contract on the board is kept, from its words, whatever is in them."""
    names = {level: name for name, level in LEVELS.items()}
    calls, late, longest, hundreds, broken = words[CONTRACT_COUNTERS : CONTRACT_COUNTERS + 5]
    beside = as_text(words[CONTRACT_BESIDE:])
    return ContractStats(
        as_text(words[CONTRACT_KERNEL:]), words[CONTRACT_P99] / 1e9, names.get(words[CONTRACT_LEVEL], "normal"),
        tuple(beside.split(SEPARATOR)) if beside else (), calls, late, longest / 1e9, hundreds, broken,
    )  # fmt: skip


def as_bytes(text: str, room: int = CONTRACT_TEXT) -> bytes:
    """Text of at most the bytes that there is room for, with a 0 at its end."""
    return text.encode("utf-8", "replace")[: room - 1].ljust(room, b"\0")


def as_text(words: Sequence[int]) -> str:
    """The text in these words, as far as there is room for one."""
    count = min(len(words), CONTRACT_TEXT // 8)
    return struct.pack(f"{count}q", *words[:count]).split(b"\0")[0].decode("utf-8", "replace")
