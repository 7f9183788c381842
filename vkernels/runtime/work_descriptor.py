"""Describe a call to the pool, in memory: its launches, their arguments, and how many threads."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

from .memory_blocks import Block
from .pool_ir import CALL_WORDS, LAUNCH_WORDS


@dataclass(frozen=True)
class NativeLaunch:
    """One launch: the address of `void (i64* arguments, i64 begin, i64 end, u8* workspace)`, and its programs.

    A thread takes at least `grain` programs at a time, except at the end.
    """

    function: int
    programs: int
    grain: int = 1


class WorkDescriptor:
    """Launches that run one after another, in the form that `pool_ir` describes. Not for two threads at once.

    `arguments` is the address that every launch is given. `threads`: how many may work on it, the caller among them.
    `workspace`: bytes a thread; the helpers' are allocated here, the caller's is set with `set_workspace`.
    """

    __slots__ = ("_helpers", "_memory", "_words", "address")

    def __init__(
        self, launches: Sequence[NativeLaunch], arguments: int, threads: int, workspace: int, helpers: Block | None
    ):
        words = CALL_WORDS + LAUNCH_WORDS * len(launches)
        self._memory, self._helpers = Block(8 * words), helpers
        self.address = self._memory.address
        self._words = (ctypes.c_int64 * words).from_address(self.address)
        header: list[ctypes.c_int64 | int] = [
            len(launches),
            arguments,
            threads,
            0 if helpers is None else helpers.address,
            workspace,
            0,
        ]
        self._words[: len(header)] = header
        for number, launch in enumerate(launches):
            start = CALL_WORDS + LAUNCH_WORDS * number
            self._words[start : start + 3] = [launch.function, launch.programs, launch.grain]

    def set_workspace(self, address: int) -> None:
        """Set the workspace of the calling thread."""
        self._words[5] = address

    def set_threads(self, threads: int) -> None:
        """Set how many threads may work on it; not more than there are workspaces for."""
        self._words[2] = threads

    @property
    def launches(self) -> list[NativeLaunch]:
        """The launches in memory."""
        starts = range(CALL_WORDS, CALL_WORDS + LAUNCH_WORDS * self._words[0], LAUNCH_WORDS)
        return [NativeLaunch(*self._words[start : start + 3]) for start in starts]
