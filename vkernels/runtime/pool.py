"""A pool of native threads that run the programs of a kernel.

Helpers wait for work in native code: they spin for some microseconds, then sleep, so an idle pool costs nothing.
Every thread begins with its own part of the programs, the calling thread at once. A thread that is done takes what
others have not begun, so a call never waits for a helper that comes late. Where torch's threads spin, they take the
place of helpers: see `pool_team_ir`. The caller runs everything itself where
another call has the helpers, where it may use no other core, and where the call is too short to pay for helpers.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from vkernels.ir.errors import SetupError
from vkernels.targets.host_cpu import SHARE_SECONDS, WAKE_SECONDS

from .memory_blocks import Block
from .native_functions import NativeFunction, address_in_python, can_link, linked
from .pool_board_ir import (
    BELL_ENDS,
    BELLS,
    ENDS,
    ENDS_AT,
    HAS_BELL,
    HIGH,
    LOW,
    NORMAL,
    OWN_PROCESS,
    POLICY_OF_BELL,
    SCHED_BATCH,
    SCHED_IDLE,
)
from .pool_call_ir import CODE_WORDS, IMPORTED
from .pool_ir import POOL_WORDS, pool_ir
from .pool_shared_ir import ENDS_OF_CALLS
from .pool_wait_ir import FUTEX
from .torch_team import Team
from .work_descriptor import WorkDescriptor

SPIN_SECONDS = 5e-5
"""How long a helper waits for a call before it sleeps: about what waking it costs."""

FINISH_SECONDS = 4e-4
"""How long a thread waits within a call before it sleeps: others are at work on what it waits for."""


@dataclass(frozen=True)
class Waiting:
    """Seconds. `spin`: a helper waits so long for a call before it sleeps; `finish`: any thread, within a call.
    `share`: a call that takes less on one thread stays there; `wake`: it does too, if helpers sleep, unless calls right
    before it bring the sum to as much."""

    spin: float = SPIN_SECONDS
    finish: float = FINISH_SECONDS
    share: float = SHARE_SECONDS
    wake: float = WAKE_SECONDS


class Pool:
    """Native threads; `run` may be called from any thread. The process has one, in `vkernels.runtime.threads`.

    `priority`: of its helpers' work, as `pool_board_ir` counts them. One of normal priority can be given others for
    calls of high and low priority, with helpers of their own: see `separate`.
    """

    def __init__(self, waiting: Waiting | None = None, priority: int = NORMAL) -> None:
        self._waiting = waiting = waiting or Waiting()
        self.least_seconds = waiting.share
        self._state = Block(8 * POOL_WORDS)
        self._address = self._state.address
        ctypes.memset(self._address, 0, self._state.size)
        self._words = (ctypes.c_int64 * POOL_WORDS).from_address(self._address)
        for at, seconds in ((32, waiting.finish), (34, waiting.spin), (37, waiting.share), (38, waiting.wake)):
            self._words[at] = round(1e9 * seconds)
        self._words[27], self._words[121] = os.getpid(), priority
        self._others: dict[int, Pool] = {}
        self._sides: dict[int, Pool] = {}
        self._bells: dict[int, ctypes.c_void_p] = {}
        self._code = _native_code()
        self._helpers: list[ctypes.c_void_p] = []
        self._lock = threading.Lock()

    @property
    def helpers(self) -> int:
        """Threads of the pool; the calling thread comes on top."""
        return len(self._helpers)

    @property
    def asleep(self) -> int:
        """How many of the first 31 helpers sleep; all others count as one."""
        return (self._words[8] & 0xFFFFFFFF).bit_count()

    @property
    def takes_team(self) -> bool:
        """Whether the pool has no team of OpenMP's threads to run calls on, or that has ended."""
        return not self._words[127] or not os.path.exists(f"/proc/self/task/{self._words[31]}")

    @property
    def team_ended(self) -> int:
        """When a team last ended a call, in nanoseconds; 0 if none has."""
        ended: int = self._words[28]
        return ended

    def reserve(self, threads: int) -> None:
        """Start helpers until there are `threads` threads, with the calling one. Raises `SetupError`."""
        if threads <= len(self._helpers) + 1:
            return
        with self._lock:
            while len(self._helpers) < threads - 1:
                self._helpers.append(_start(self._code.helper, self._address))
        for other in self._others.values():
            if other.helpers:
                other.reserve(max(threads, other.helpers + 1))

    def join(self, team: Team) -> None:
        """Run calls of this thread on its team of OpenMP's threads while these spin, if they are about as many threads
        as a call uses and no thread has a priority."""
        self._words[29], self._words[30], self._words[127] = team.most, team.number, team.parallel
        self._code.meet(self._address)

    def separate(self, board: int) -> None:
        """Give calls of high and low priority pools of their own, which share the board at this address."""
        first = Pool(self._waiting, HIGH)
        last = Pool(replace(self._waiting, spin=0.0, finish=0.0), LOW)
        for pool in (first, last, self):
            pool._words[122], pool._words[123] = first._address, last._address
            pool._words[120] = board
        self._others = {HIGH: first, LOW: last}
        for side in self._sides.values():
            self._lend_board(side)

    def side(self, number: int, threads: int) -> Pool:
        """Another pool of normal priority, with so many threads: calls on it run beside those on this one."""
        with self._lock:
            side = self._sides.get(number)
            if side is None:
                side = self._sides[number] = Pool(self._waiting)
                self._lend_board(side)
        side.reserve(threads)
        return side

    def _lend_board(self, side: Pool) -> None:
        for word in (122, 123, 120):  # the board last
            side._words[word] = self._words[word]

    def reserve_for(self, priority: int, threads: int) -> None:
        """Start helpers for calls of this priority, and the bell that wakes threads which pause for them, or in them.

        Those of low priority have a helper for their caller too.
        """
        self._others[priority].reserve(threads + (priority == LOW))
        self.hang_bell(min(priority, NORMAL))

    def hang_bell(self, level: int) -> None:
        """Start the bell that wakes threads of this priority, low or normal, which paused."""
        with self._lock:
            if level not in self._bells:
                address = self._bell_address(level)
                words = (ctypes.c_int64 * 8).from_address(address)
                own = self._board_word(OWN_PROCESS)
                words[ENDS_AT] = own + 8 * (ENDS_OF_CALLS + level) if own else address + 8 * ENDS
                words[BELL_ENDS], words[POLICY_OF_BELL] = 0, SCHED_IDLE if level == LOW else SCHED_BATCH
                self._bells[level] = _start(self._code.bell, address)
                words[HAS_BELL] = 1

    def _bell_address(self, level: int) -> int:
        return self._words[120] + 8 * (BELLS + 8 * level)

    def _board_word(self, word: int) -> int:
        return ctypes.c_int64.from_address(self._words[120] + 8 * word).value

    def run(self, call: WorkDescriptor) -> None:
        """Run a call until it is complete. Other Python threads run meanwhile."""
        self._code.run(self._address, call.address)

    def runner(self, call: WorkDescriptor) -> Callable[[], None]:
        """A function that runs this call, with less Python overhead than `run`."""
        return partial(self._code.run, self._address, call.address)

    def caller(
        self, call: WorkDescriptor, slots: int, positions: Sequence[tuple[int, bool]]
    ) -> tuple[Callable[..., object], object]:
        """A function that writes its arguments into slots and runs this call, for one thread at a time.

        `slots`: the slots' address. `positions`: slot of each argument, True for an f64. The second result is memory
        that must live as long as the function, as must the call and the slots.
        """
        codes = [2 * slot + is_float for slot, is_float in positions]
        words = Block(8 * (CODE_WORDS + len(codes)))
        values: list[ctypes.c_int64 | int] = [self._address, call.address, slots, len(codes), *codes]
        (ctypes.c_int64 * len(values)).from_address(words.address)[:] = values
        return self._code.call.bound(words.address), words

    def stop(self) -> None:
        """End the helpers, after what they are doing; `run` still works, on the calling thread."""
        for other in (*self._others.values(), *self._sides.values()):
            other.stop()
        with self._lock:
            for level, bell in self._bells.items():
                self._code.stop_bell(self._bell_address(level))
                self._code.join(bell, None)
            self._bells.clear()
            self._code.stop(self._address)
            for thread in self._helpers:
                self._code.join(thread, None)
            self._helpers.clear()
            self._words[36] = self._words[8] = 0  # their ids mean nothing now


class _Code:
    def __init__(self) -> None:
        process = ctypes.CDLL(None, use_errno=False)
        imported = {
            name: ctypes.cast(getattr(process, name), ctypes.c_void_p).value or 0
            for name in ("syscall", "sched_getcpu", "clock_gettime")
        } | {name: address_in_python(name) for name in IMPORTED}
        exported = "vk_run", "vk_call", "vk_helper", "vk_stop", "vk_bell", "vk_stop_bell", "vk_meet", "this_thread"
        self.library = linked(pool_ir(platform.machine()), imported, exported, "vk_pool")
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))  # what helpers run outlives them all

        self.run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(self.library["vk_run"])
        self.stop = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.library["vk_stop"])
        self.meet = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.library["vk_meet"])
        self.this_thread = ctypes.CFUNCTYPE(ctypes.c_int64)(self.library["this_thread"])
        self.stop_bell = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.library["vk_stop_bell"])
        self.helper, self.bell = self.library["vk_helper"], self.library["vk_bell"]
        self.call = NativeFunction(b"run", self.library["vk_call"])
        self.create, self.join = process.pthread_create, process.pthread_join
        self.create.argtypes = [ctypes.c_void_p] * 4
        self.join.argtypes = [ctypes.c_void_p] * 2


@cache
def _native_code() -> _Code:
    return _Code()


def _start(function: int, argument: int) -> ctypes.c_void_p:
    """Start a native thread with every signal blocked: signals are for Python's own threads."""
    thread = ctypes.c_void_p()
    blocked = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    try:
        status = _native_code().create(ctypes.byref(thread), None, function, argument)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    if status != 0:
        raise SetupError(f"cannot start a thread (error {status}); vkernels.runtime.set_threads takes a lower number")
    return thread


def this_thread() -> int:
    """What tells the calling thread from others while it lives."""
    address: int = _native_code().this_thread()
    return address


def is_native() -> bool:
    """Whether this machine runs the native pool: Linux on a processor that `pool_ir` knows, with a compiler for it or
    a bundle that has it compiled."""
    machine = platform.machine()
    return sys.platform == "linux" and machine in FUTEX and can_link(pool_ir(machine))
