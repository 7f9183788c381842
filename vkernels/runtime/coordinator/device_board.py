"""The board in shared memory on which the processes of a user tell each other of their calls on one GPU.

A process cannot see when another one's launches are done, so what it reads are predictions: when the latest call of
each thread of higher priority ends, and how long gaps after such calls are. Who starts launches of low priority holds a
lock while it looks and writes that they are out, so that all processes together keep within the bounds of one.

Words are i64, times are nanoseconds of the host's clock, which processes have in common:

    0 magic   1 version   2 words of a process   3 processes that fit   8 processes in use, at most
    16 when a call of low priority was last made   24 launches of low priority so far
    64 + 256 p, of process p:   0 its number   1 its id   2 its launches of low priority that are out   3 when the last
    of them ends   4 since when its oldest call of low priority waits, 0: none   5 when that last looked
    8 + 28 u, of its thread u of higher priority:   0 its state   1 when its latest call ends   2 how long that takes
    3 how many gaps are known   4 these, in order

A process writes only its own words, and those of the header that everybody writes. A torn or stale word gives a wrong
prediction, which costs one launch.
"""

from __future__ import annotations

import logging
import os
import re
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from vkernels.ir.errors import SetupError

from . import shared_board
from .board_file import BoardFile, board_folder
from .launch_profile import SAMPLES, LaunchProfile

MAGIC, VERSION, PLACES, FIRST, WORDS = 0x766B677075, 1, 64, 64, 256
USED, LOW_SEEN, FILLS = 8, 16, 24
NUMBER, PROCESS, OUT, OUT_ENDS, WAITS_SINCE, LOOKED = range(6)
UPPERS, FIRST_UPPER, UPPER_WORDS = 8, 8, 28
STATE, ENDS, TAKES, GAPS_KNOWN, GAPS = range(5)
NOBODY, IN_CALL, CALLED = range(3)
SIZE = 8 * (FIRST + PLACES * WORDS)
HEADER = struct.pack("4q", MAGIC, VERSION, WORDS, PLACES)
STARTING = PLACES + 1
"""The byte of the file that is locked by who starts launches of low priority."""
NEVER = 1 << 62
"""Nanoseconds, in place of infinity."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OtherCall:
    """The latest call of a thread of another process. `ends`: as predicted, in seconds, where it is in the stream;
    `takes`: how long; `gaps`: as `LaunchProfile` has them, empty where they are not known."""

    in_call: bool
    ends: float
    takes: float
    gaps: list[float]

    def closes(self, now: float, margin: float, unknown_gap: float) -> float:
        """When its next call is predicted to begin; in the past if it is at work, infinity if it is away."""
        elapsed = now - self.ends
        if self.in_call or elapsed < (margin - 1) * self.takes:
            return float("-inf")
        if not self.gaps:
            return float("inf") if elapsed > unknown_gap else float("-inf")
        gap = LaunchProfile([self.takes] * SAMPLES, self.gaps).gap_after(elapsed)
        return float("inf") if gap is None else self.ends + gap


@dataclass(frozen=True)
class OtherProcesses:
    """What the others do on a device. `calls`: of their threads that are there; `out`: their launches of low priority
    that may be on the device, the last of which is predicted to end at `ends`; `waits_since`: since when the oldest
    call of low priority waits in one of them, infinity: none does."""

    calls: tuple[OtherCall, ...] = ()
    out: int = 0
    ends: float = float("-inf")
    waits_since: float = float("inf")


class DeviceBoard:
    """The board of one device, with a place for this process. Times are in seconds of the host's clock."""

    def __init__(self, path: str) -> None:
        """Open the board, or make it, and join. Raises `SetupError` where that cannot be."""
        self._board = BoardFile(path, HEADER, SIZE, PLACES)
        self._words, self._own = self._board.words, -1
        self._dead = dict[int, int]()
        try:
            self._board.take_place(self._enter)
        except BaseException:
            self._board.close()
            raise

    def close(self) -> None:
        """Close the file, as a forked child does."""
        self._board.close()

    # What this process writes

    def saw_low(self, now: float) -> None:
        """A call of low priority is made, or waits."""
        self._words[LOW_SEEN] = _nanoseconds(now)

    def begin_call(self, slot: int) -> None:
        """A thread of higher priority is about to call."""
        self._words[self._upper(slot) + STATE] = IN_CALL

    def end_call(self, slot: int, ends: float, profile: LaunchProfile | None) -> None:
        """Its call is in the stream, and predicted to end then."""
        at, words = self._upper(slot), self._words
        gaps = profile.gaps[:SAMPLES] if profile is not None and profile.is_frozen else []
        words[at + GAPS_KNOWN] = 0
        words[at + GAPS : at + GAPS + len(gaps)] = [_nanoseconds(gap) for gap in gaps]
        words[at + TAKES] = _nanoseconds((profile.seconds if profile is not None else None) or 0.0)
        words[at + ENDS], words[at + GAPS_KNOWN] = _nanoseconds(ends), len(gaps)
        words[at + STATE] = CALLED

    def ended(self, slot: int, when: float) -> None:
        """Its latest call was seen to have ended."""
        at = self._upper(slot)
        self._words[at + ENDS], self._words[at + TAKES] = _nanoseconds(when), 0

    def forget_call(self, slot: int) -> None:
        """The thread is not there any more."""
        self._words[self._upper(slot) + STATE] = NOBODY

    def put_out(self, launches: int, ends: float) -> None:
        """So many launches of low priority are on the device, or about to be."""
        words, at = self._words, self._start(self._own)
        words[at + OUT_ENDS], words[at + OUT] = _nanoseconds(ends), launches

    def count_fill(self) -> None:
        """One more launch of low priority; within `starting`."""
        self._words[FILLS] += 1

    def wait(self, since: float | None, now: float) -> None:
        """The oldest call of low priority waits since then, and looks now; None: none waits."""
        words, at = self._words, self._start(self._own)
        words[at + LOOKED], words[at + WAITS_SINCE] = _nanoseconds(now), 0 if since is None else _nanoseconds(since)

    @contextmanager
    def starting(self) -> Iterator[bool]:
        """Look and start launches while no other process does; False within where one does just now."""
        has_lock = self._board.try_lock(STARTING)
        try:
            yield has_lock
        finally:
            if has_lock:
                self._board.unlock(STARTING)

    # What others wrote

    def has_low(self, now: float, recent: float) -> bool:
        """Whether any process made a call of low priority in the last so many seconds."""
        return now - self._words[LOW_SEEN] / 1e9 < recent

    @property
    def fills(self) -> int:
        """Launches of low priority of all processes so far."""
        return self._words[FILLS]

    def look(self, now: float, recent: float, stale: float, fresh: float) -> OtherProcesses:
        """What living others do. `recent`: seconds that a thread counts as present after its last call; `stale`: that
        launches count after they should have ended, since nobody else sees that they did; `fresh`: after its last
        look that a call counts as waiting."""
        calls, out, ends, since = list[OtherCall](), 0, float("-inf"), float("inf")
        for place in range(min(self._words[USED], PLACES)):
            if place == self._own:
                continue
            start = self._start(place)
            here = self._words[start : start + FIRST_UPPER]
            its_calls = [each for each in self._calls_at(start) if each.in_call or now - each.ends < recent]
            its_ends, waits = here[OUT_ENDS] / 1e9, here[WAITS_SINCE] / 1e9
            has_out = here[OUT] > 0 and now < its_ends + stale
            is_waiting = waits > 0 and now - here[LOOKED] / 1e9 < fresh
            if not (its_calls or has_out or is_waiting) or not self._lives(place, here[NUMBER]):
                continue
            calls += its_calls
            if has_out:
                out, ends = out + here[OUT], max(ends, its_ends)
            if is_waiting:
                since = min(since, waits)
        return OtherProcesses(tuple(calls), out, ends, since)

    def _calls_at(self, start: int) -> Iterator[OtherCall]:
        """The latest calls of a process's threads, whatever is in its words."""
        words = self._words
        for at in range(start + FIRST_UPPER, start + FIRST_UPPER + UPPERS * UPPER_WORDS, UPPER_WORDS):
            if (state := words[at]) in (IN_CALL, CALLED):
                known = words[at + GAPS_KNOWN]
                first, last = at + GAPS, at + GAPS + (known if 0 < known <= SAMPLES else 0)
                gaps = sorted(gap / 1e9 for gap in words[first:last])
                yield OtherCall(state == IN_CALL, words[at + ENDS] / 1e9, max(0, words[at + TAKES]) / 1e9, gaps)

    def _lives(self, place: int, number: int) -> bool:
        """Whether the process with this number still has its place."""
        if self._dead.get(place) == number:
            return False
        if self._board.is_held(place):
            return True
        self._dead[place] = number
        return False

    def _enter(self, number: int) -> None:
        start, words = self._start(number), self._words
        before = words[start + NUMBER]
        words[start + 1 : start + WORDS] = [0] * (WORDS - 1)
        words[start + PROCESS], words[start + NUMBER] = os.getpid(), before % NEVER + 1
        words[USED] = max(min(words[USED], PLACES), number + 1)
        self._own = number

    def _start(self, place: int) -> int:
        return FIRST + WORDS * place

    def _upper(self, slot: int) -> int:
        return self._start(self._own) + FIRST_UPPER + UPPER_WORDS * slot


def _nanoseconds(seconds: float) -> int:
    return round(1e9 * seconds) if abs(seconds) < NEVER / 1e9 else NEVER if seconds > 0 else -NEVER


_boards: dict[str, DeviceBoard] = {}
_joining = threading.Lock()


def board_of(device: str) -> DeviceBoard | None:
    """This user's board of a device, by what tells it from all others; None, and logged, where there can be none."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", device)
    with _joining:
        try:
            path = f"{board_folder(shared_board.FOLDERS)}/vkernels-gpu-{name}-{os.geteuid()}-v{VERSION}"
            found = _boards.get(path)
            if found is None:
                found = _boards[path] = DeviceBoard(path)
            return found
        except SetupError as error:
            _log.warning("priorities on %s do not reach other processes: %s", device, error)
            return None


def _after_fork_in_child() -> None:
    """The parent keeps its places; the child takes its own at its first call."""
    global _joining
    _joining = threading.Lock()
    for board in _boards.values():
        board.close()
    _boards.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
