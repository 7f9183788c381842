"""The pool for machines without a native one: Python threads, each in native code while it runs programs."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from functools import partial
from itertools import count

from vkernels.ir.system_resources import ThreadPool

from .pool_ir import CALL_WORDS
from .torch_team import Team
from .work_descriptor import WorkDescriptor

LaunchFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
PIECES_PER_THREAD = 8
"""Parts that a launch is cut into, for each thread."""

LEAST_SECONDS = 3e-4
"""A call that takes less on one thread stays there."""


class PythonPool:
    """Reads the same calls as `vkernels.runtime.pool.Pool`, at some hundred microseconds a call."""

    least_seconds = LEAST_SECONDS
    takes_team = False

    def __init__(self) -> None:
        self._executor: ThreadPool | None = None
        self._size = 0
        self._busy = threading.Lock()

    def join(self, team: Team) -> None:
        """None joins: OpenMP would not give way to threads of Python."""

    def reserve(self, threads: int) -> None:
        """Start threads until there are `threads`, the calling one included."""
        with self._busy:
            if threads - 1 > self._size:
                self.stop()
                self._executor, self._size = ThreadPool(threads - 1, "vkernels"), threads - 1

    def side(self, number: int, threads: int) -> PythonPool:
        """The same pool: a call that finds its threads taken runs alone."""
        return self

    def run(self, call: WorkDescriptor) -> None:
        """Run a call until it is complete; on the calling thread alone where another call has the threads."""
        header = (ctypes.c_int64 * CALL_WORDS).from_address(call.address)
        launches, arguments, threads, base, stride, own, takes, words = header
        wants = self._executor is not None and threads > 1 and takes >= 1e9 * LEAST_SECONDS
        mine = wants and self._busy.acquire(blocking=False)
        helpers = [base + number * stride for number in range(threads - 1)] if mine else []
        try:
            for number in range(launches):
                at = call.address + 8 * (CALL_WORDS + words * number)
                self._launch((ctypes.c_int64 * 3).from_address(at), arguments, [own, *helpers])
        finally:
            if mine:
                self._busy.release()

    def runner(self, call: WorkDescriptor) -> Callable[[], None]:
        """A function that runs this call."""
        return partial(self.run, call)

    def caller(
        self, call: WorkDescriptor, slots: int, positions: Sequence[tuple[int, bool]]
    ) -> tuple[Callable[..., object], object]:
        """As `Pool.caller`."""
        places = [
            (ctypes.c_double if is_float else ctypes.c_int64).from_address(slots + 8 * slot)
            for slot, is_float in positions
        ]

        def run(*values: float) -> None:
            for place, value in zip(places, values, strict=True):
                place.value = value
            self.run(call)

        return run, None

    def _launch(self, launch: ctypes.Array[ctypes.c_int64], arguments: int, workspaces: list[int]) -> None:
        address, programs, grain = launch
        function = LaunchFunction(address)
        piece = grain * max(1, -(-programs // (PIECES_PER_THREAD * len(workspaces) * grain)))
        turns = count()

        def work(workspace: int) -> None:
            while (begin := next(turns) * piece) < programs:
                function(arguments, begin, min(begin + piece, programs), workspace)

        helping = [self._executor.submit(work, address) for address in workspaces[1:]] if self._executor else []
        work(workspaces[0])
        wait(helping)

    def stop(self) -> None:
        """End the threads, after what they are doing."""
        if self._executor is not None:
            self._executor.shutdown()
        self._executor, self._size = None, 0
