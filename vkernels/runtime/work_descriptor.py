"""Describe a call to the pool, in memory: its launches, their arguments, and how many threads."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

from .memory_blocks import Block
from .pool_ir import CALL_WORDS, LAUNCH_WORDS, PART_WORDS

UNKNOWN = 1 << 62
"""Nanoseconds of a call of which nothing is known: more than any."""

UNIT_SECONDS = 5e-7
"""A thread takes at least so much work at once: less would not be worth taking from another."""

MOST_UNITS = 1 << 30
"""Units of a launch, which the pool counts in half a word."""


@dataclass(frozen=True)
class NativeLaunch:
    """One launch: the address of `void (i64* arguments, i64 begin, i64 end, u8* workspace)`, and its programs.

    A thread takes multiples of `grain` programs at a time, except at the end.
    """

    function: int
    programs: int
    grain: int = 1


class WorkDescriptor:
    """Launches that run one after another, in the form that `pool_ir` describes. Not for two threads at once.

    `arguments` is the address that every launch is given. `threads`: how many may work on it, the caller among them,
    and at most; `set_threads` takes fewer.
    `workspace`: bytes a thread; the helpers' are allocated here, the caller's is set with `set_workspace`.
    """

    __slots__ = ("_grains", "_helpers", "_memory", "_stride", "_words", "address")

    def __init__(
        self, launches: Sequence[NativeLaunch], arguments: int, threads: int, workspace: int, helpers: Block | None
    ):
        self._stride = LAUNCH_WORDS + PART_WORDS * threads
        words = CALL_WORDS + self._stride * len(launches)
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
            UNKNOWN,
            self._stride,
        ]
        self._words[: len(header)] = header
        self._grains = [_multiple(max(1, each.grain), each.programs // MOST_UNITS) for each in launches]
        for number, (launch, grain) in enumerate(zip(launches, self._grains, strict=True)):
            start = CALL_WORDS + self._stride * number
            self._words[start : start + 3] = [launch.function, launch.programs, grain]

    def set_workspace(self, address: int) -> None:
        """Set the workspace of the calling thread."""
        self._words[5] = address

    def set_threads(self, threads: int) -> None:
        """Set how many threads may work on it; not more than it was made for."""
        self._words[2] = threads

    def set_seconds(self, seconds: float) -> None:
        """Set how long the call takes on one thread: whether helpers pay, and the least that a thread takes at once."""
        self._words[6] = round(min(1e9 * seconds, UNKNOWN))
        threads, launches = self._words[2], self.launches
        most = min(seconds / (UNIT_SECONDS * threads * len(launches)), MOST_UNITS) if launches else 1
        units = threads << max(0, int(most).bit_length() - 1)
        for number, (launch, grain) in enumerate(zip(launches, self._grains, strict=True)):
            at = CALL_WORDS + self._stride * number + 2
            self._words[at] = _multiple(grain, -(-launch.programs // units))

    @property
    def nanoseconds(self) -> int:
        """How long the call takes on one thread, as far as known; `UNKNOWN` is more than any."""
        return int(self._words[6])

    @property
    def launches(self) -> list[NativeLaunch]:
        """The launches in memory."""
        starts = range(CALL_WORDS, CALL_WORDS + self._stride * self._words[0], self._stride)
        return [NativeLaunch(*self._words[start : start + 3]) for start in starts]


def _multiple(of: int, least: int) -> int:
    """The least multiple of a number, itself included, that is not below another."""
    return of * max(1, -(-least // of))
