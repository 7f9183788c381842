"""A pool of native threads that run the programs of a kernel.

Helpers wait for work in native code: they spin for some microseconds, then sleep, so an idle pool costs nothing.
Programs are handed out dynamically, and the thread that calls works too; a call never waits for a helper that has
not begun. Where another call has the helpers, the caller runs everything itself.
"""

from __future__ import annotations

import ctypes
import platform
import signal
import sys
import threading
from collections.abc import Callable
from functools import cache, partial

from vkernels.ir.errors import SetupError

from .memory_blocks import Block
from .pool_ir import FUTEX, POOL_WORDS, pool_ir
from .work_descriptor import WorkDescriptor

SPINS = 2000
"""Iterations of a waiting loop before it sleeps: some 30 to 100 microseconds."""


class Pool:
    """Native threads; `run` may be called from any thread. The process has one, in `vkernels.runtime.threads`."""

    def __init__(self, spins: int = SPINS) -> None:
        self._state = Block(8 * POOL_WORDS)
        ctypes.memset(self._state.address, 0, self._state.size)
        (ctypes.c_int64 * POOL_WORDS).from_address(self._state.address)[34] = spins
        self._address = self._state.address
        self._code = _native_code()
        self._helpers: list[ctypes.c_void_p] = []
        self._lock = threading.Lock()

    @property
    def helpers(self) -> int:
        """Threads of the pool; the calling thread comes on top."""
        return len(self._helpers)

    def reserve(self, threads: int) -> None:
        """Start helpers until there are `threads` threads, with the calling one. Raises `SetupError`."""
        if threads <= len(self._helpers) + 1:
            return
        with self._lock:
            while len(self._helpers) < threads - 1:
                self._helpers.append(self._start())

    def run(self, call: WorkDescriptor) -> None:
        """Run a call until it is complete. Other Python threads run meanwhile."""
        self._code.run(self._address, call.address)

    def runner(self, call: WorkDescriptor) -> Callable[[], None]:
        """A function that runs this call, with less Python overhead than `run`."""
        return partial(self._code.run, self._address, call.address)

    def stop(self) -> None:
        """End the helpers, after what they are doing; `run` still works, on the calling thread."""
        with self._lock:
            self._code.stop(self._address)
            for thread in self._helpers:
                self._code.join(thread, None)
            self._helpers.clear()
            (ctypes.c_int64 * POOL_WORDS).from_address(self._address)[36] = 0  # their ids mean nothing now

    def _start(self) -> ctypes.c_void_p:
        """Start a helper with every signal blocked: signals are for Python's own threads."""
        thread = ctypes.c_void_p()
        blocked = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
        try:
            status = self._code.create(ctypes.byref(thread), None, self._code.helper, self._address)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        if status != 0:
            raise SetupError(
                f"cannot start a thread (error {status}); vkernels.runtime.set_threads takes a lower number"
            )
        return thread


class _Code:
    def __init__(self) -> None:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        process = ctypes.CDLL(None, use_errno=False)
        target = llvm.Target.from_default_triple().create_target_machine(opt=2, jit=True)
        module = llvm.parse_assembly(pool_ir(platform.machine()))
        module.verify()
        # What helpers run must outlive them all, and they outlive Python's own clearing up: never collected.
        self.jit = llvm.create_lljit_compiler(target)
        library = llvm.JITLibraryBuilder().add_ir(module)
        for name in ("syscall", "sched_getcpu"):
            library.import_symbol(name, ctypes.cast(getattr(process, name), ctypes.c_void_p).value)
        for name in ("vk_run", "vk_helper", "vk_stop"):
            library.export_symbol(name)
        self.library = library.link(self.jit, "vk_pool")
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

        self.run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(self.library["vk_run"])
        self.stop = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.library["vk_stop"])
        self.helper = self.library["vk_helper"]
        self.create, self.join = process.pthread_create, process.pthread_join
        self.create.argtypes = [ctypes.c_void_p] * 4
        self.join.argtypes = [ctypes.c_void_p] * 2


@cache
def _native_code() -> _Code:
    return _Code()


def is_native() -> bool:
    """Whether this machine runs the native pool: Linux on a processor that `pool_ir` knows."""
    return sys.platform == "linux" and platform.machine() in FUTEX
