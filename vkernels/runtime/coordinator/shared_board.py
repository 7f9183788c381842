"""The board in shared memory on which the processes of a user tell each other their priorities.

`pool_shared_ir` describes its memory and who writes what. It is made by the process that first needs it, and stays: an
empty one costs 516 KiB until the machine is started again.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..pool_board_ir import BELLS, COUNTERS, LOW, NORMAL
from ..pool_shared_ir import (
    AT_WORK,
    COMPANIES,
    COMPANY_WORDS,
    CONTRACT_WORDS,
    CONTRACTS,
    CORE_SET,
    CORE_WORDS,
    COUNTERS_OF_PROCESS,
    ENDS_OF_CALLS,
    FILLS,
    FIRST_COMPANY,
    FIRST_CONTRACT,
    FIRST_PROCESS,
    JOINED,
    NAME_BYTES,
    NAME_OF_PROCESS,
    PAUSED_THREADS,
    PROCESS_CORES,
    PROCESS_ID,
    PROCESS_WORDS,
    PROCESSES,
    SHARED_BYTES,
    SHARED_MAGIC,
    SHARED_VERSION,
    USED_PROCESSES,
    field_shift,
)
from .board_file import BoardFile, board_folder

FOLDERS = "/dev/shm", os.environ.get("XDG_RUNTIME_DIR", "")
"""Where the board may be; the first that is there is taken."""

HEADER = struct.pack("4q", SHARED_MAGIC, SHARED_VERSION, PROCESS_WORDS, PROCESSES)


@dataclass(frozen=True)
class Neighbour:
    """A process on the board. `joined`: seconds since the epoch. `at_work`, `paused`: its threads by priority, as
    `pool_board_ir` counts them; `counters`: of each priority, the five of `PriorityStats`, in nanoseconds; `contracts`:
    the words of each that is watched; `companies`: those of each. `fills`: launches in gaps of a GPU, and nanoseconds.
    """

    process: int
    name: str
    joined: float
    cores: tuple[int, ...]
    at_work: tuple[int, int, int]
    paused: tuple[int, int]
    counters: tuple[tuple[int, ...], ...]
    contracts: tuple[tuple[int, ...], ...] = ()
    companies: tuple[tuple[int, ...], ...] = ()
    fills: tuple[int, int] = (0, 0)


class SharedBoard:
    """The board, mapped into this process; at most one is open in a process, for closing it drops its locks."""

    def __init__(self, path: str) -> None:
        """Open the board, or make it. Raises `SetupError` where that cannot be, or another user could write it."""
        self._board = BoardFile(path, HEADER, SHARED_BYTES, PROCESSES)
        self.path, self.file, self.address = path, self._board.file, self._board.address
        self._words = self._board.words
        self._own: int | None = None
        self._number = 0

    @property
    def own_address(self) -> int:
        """Where the words of this process are, 0 before it joined."""
        return 0 if self._own is None else self.address + 8 * self._start(self._own)

    def join(self) -> None:
        """Take a place, which is free again when this process ends, however it ends. Raises `SetupError`."""
        self._board.take_place(self._enter)

    def close(self) -> None:
        """Close the file, as a forked child does; its memory stays, native code may still read it."""
        self._board.close()
        self._own = None

    def neighbours(self) -> list[Neighbour]:
        """The living processes on the board, this one among them, in the order of their places."""
        places = range(min(self._words[USED_PROCESSES], PROCESSES))
        return [self._neighbour(number) for number in places if number == self._own or self._board.is_held(number)]

    def contract_places(self) -> list[int]:
        """Addresses of this process's contracts. Who writes a contract writes its first word, `number`, last."""
        if self._own is None:
            return []
        first = FIRST_CONTRACT + CONTRACTS * CONTRACT_WORDS * self._own
        return [self.address + 8 * (first + CONTRACT_WORDS * place) for place in range(CONTRACTS)]

    def company_places(self) -> list[int]:
        """Addresses of this process's companies, which are written as contracts are."""
        if self._own is None:
            return []
        first = FIRST_COMPANY + COMPANIES * COMPANY_WORDS * self._own
        return [self.address + 8 * (first + COMPANY_WORDS * place) for place in range(COMPANIES)]

    @property
    def number(self) -> int:
        """What tells this process from those that had its place before."""
        return self._number

    def _start(self, number: int) -> int:
        return FIRST_PROCESS + PROCESS_WORDS * number

    def _enter(self, number: int) -> None:
        """Write what others read of this process; its number differs from that of the place's last one."""
        start, words = self._start(number), self._words
        epoch = ((words[start + AT_WORK] >> 48) + 1) % (1 << 15) or 1
        cores = os.sched_getaffinity(0)
        for level in (LOW, NORMAL):
            words[start + ENDS_OF_CALLS + level] = 0
        words[start + PROCESS_ID], words[start + JOINED] = os.getpid(), time.time_ns()
        words[start + PROCESS_CORES] = len(cores)
        for word in range(CORE_WORDS):
            mask = sum(1 << (core - 64 * word) for core in cores if core // 64 == word)
            words[start + CORE_SET + word] = mask - (1 << 64) if mask >> 63 else mask
        name = _name().encode("utf-8", "replace")[: NAME_BYTES - 1].ljust(NAME_BYTES, b"\0")
        ctypes.memmove(self.address + 8 * (start + NAME_OF_PROCESS), name, NAME_BYTES)
        ctypes.memset(self.address + 8 * (start + COUNTERS_OF_PROCESS), 0, 8 * (BELLS - COUNTERS))
        words[start + PAUSED_THREADS] = words[start + AT_WORK] = epoch << 48
        words[USED_PROCESSES] = max(min(words[USED_PROCESSES], PROCESSES), number + 1)
        self._own, self._number = number, epoch

    def _neighbour(self, number: int) -> Neighbour:
        start, words = self._start(number), self._words
        work, paused = words[start + AT_WORK], words[start + PAUSED_THREADS]
        name = ctypes.string_at(self.address + 8 * (start + NAME_OF_PROCESS), NAME_BYTES).split(b"\0")[0]
        sets = [words[start + CORE_SET + word] % (1 << 64) for word in range(CORE_WORDS)]
        counters = [start + COUNTERS_OF_PROCESS + 8 * level for level in range(3)]
        return Neighbour(
            process=words[start + PROCESS_ID],
            name=name.decode("utf-8", "replace"),
            joined=words[start + JOINED] / 1e9,
            cores=tuple(core for core in range(64 * CORE_WORDS) if sets[core // 64] >> core % 64 & 1),
            at_work=(_field(work, field_shift(0)), _field(work, field_shift(1)), _field(work, field_shift(2))),
            paused=(_field(paused, 0), _field(paused, 16)),
            counters=tuple(tuple(words[at : at + 5]) for at in counters),
            contracts=tuple(self._shown(FIRST_CONTRACT, CONTRACTS, CONTRACT_WORDS, number, work >> 48)),
            companies=tuple(self._shown(FIRST_COMPANY, COMPANIES, COMPANY_WORDS, number, work >> 48)),
            fills=(words[counters[LOW] + FILLS], words[counters[LOW] + FILLS + 1]),
        )

    def _shown(self, first: int, most: int, size: int, number: int, epoch: int) -> Iterator[tuple[int, ...]]:
        """The words of what the process shows that has this place now, at most so many of this size each."""
        for place in range(most):
            start = first + size * (most * number + place)
            found = tuple(self._words[start : start + size])
            if found[0] == epoch != 0:
                yield found


def joined_board() -> SharedBoard:
    """This user's board of the CPU, with a place for this process. Raises `SetupError`."""
    board = SharedBoard(board_path())
    try:
        board.join()
    except BaseException:
        board.close()
        raise
    return board


def board_path() -> str:
    """Where this user's board of the CPU is. Raises `SetupError` where there is no folder for it."""
    return f"{board_folder(FOLDERS)}/vkernels-cpu-{os.geteuid()}-v{SHARED_VERSION}"


def _field(word: int, shift: int) -> int:
    return word >> shift & 0xFFFF


def _name() -> str:
    """What tells people which process this is."""
    return Path(getattr(sys, "argv", [""])[0] or sys.executable or "python").name
