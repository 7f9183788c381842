"""Native code bound to the layout of a call's arguments, with its memory and threads."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from vkernels.compiler.arguments import CPU, Arguments
from vkernels.compiler.protocols import KernelLike

from .events import LaunchRecord
from .memory_blocks import Block, aligned, borrow, give_back, helper_workspaces
from .threads import followed, forget_calls, get_threads, reserve, the_pool
from .work_descriptor import NativeLaunch, WorkDescriptor

if TYPE_CHECKING:
    from vkernels.compiler.compile_cpu import CompiledCpu
    from vkernels.ir.plan import Plan

    from .pool import Pool
    from .python_pool import PythonPool


class NativeCode(Protocol):
    """Native functions of a kernel in memory, which live as long as the object; see `NativeKernel`, which is one."""

    @property
    def prepare(self) -> int: ...
    @property
    def launches(self) -> Sequence[int]: ...
    @property
    def sizes(self) -> Sequence[str]: ...
    @property
    def buffers(self) -> int: ...
    @property
    def workspace(self) -> int: ...
    @property
    def in_turn(self) -> int: ...


INLINE_BYTES = 1 << 22
"""Calls whose tensors have more bytes go to the pool at once, and wake it; smaller ones are tried on one thread."""

TRIALS = 20
"""First calls of small work, the fastest of which tells the pool how long it takes on one thread."""

TRIAL_SECONDS = 5e-4
"""What they may take together; there are fewer then."""

OWN_BYTES = 1 << 14
"""A call that needs at most so much memory keeps it; others borrow it each time."""

PIECES_PER_THREAD = 256
"""A launch is cut into at most this many pieces for each thread."""

UNITS_PER_THREAD = 8
"""With so many units of work for each thread, threads have as much to do as others, but for one unit."""

_Prepare = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class BoundExecutable:
    """Compiled code, ready for arguments of one shape; may be called from several threads at once.

    `template`: every argument slot, 0 where a call writes: tensor addresses at the slots `tensors`, scalars at the
    slots `scalars` (True for f64), and last the buffers. `touched`: bytes of all tensors together.
    `plan`, `rung`: of the code, for launch events.
    `ready`: functions that run a call, given its addresses and scalars. Who takes one out is its only user until it is
    put back. There are some once it is settled how many threads calls run on. `threads`, `pool`: those that calls may
    use, if not those of the process.
    """

    is_repeatable = True

    def __init__(
        self,
        compiled: NativeCode,
        template: Sequence[int],
        tensors: Sequence[int],
        scalars: Sequence[tuple[int, bool]],
        touched: int,
        plan: Plan | None = None,
        rung: str = "",
        threads: int | None = None,
        pool: Pool | PythonPool | None = None,
    ):
        self.pool = pool
        self.compiled, self.template, self.plan, self.rung = compiled, list(template), plan, rung
        self.tensors, self.scalars = tuple(tensors), tuple(scalars)
        self.buffer_bytes, self.programs, swap = self._prepare()
        self.in_turn = self._in_turn()
        self.swap = aligned(swap)
        self.workspace = aligned(compiled.workspace) + self.swap
        self.memory = self.workspace + sum(map(aligned, self.buffer_bytes))
        self.wanted = max(1, min(threads or get_threads(), max(self.programs, default=0)))
        small = touched < INLINE_BYTES
        self.threads = 1 if small else self.wanted
        follows = None if small or threads is not None else followed()
        self._follows = None if follows is None else (follows, follows())
        self.trials = TRIALS if small and self.wanted > 1 else 0
        self.fastest, self.tried = float("inf"), 0.0
        self.idle = not any(programs > 0 for programs in self.programs)
        self.ready: list[Callable[..., object]] = []
        self._frames: list[_Frame] = []
        self._settled: list[_Frame] = []  # those of `ready`

    def _prepare(self) -> tuple[list[int], list[int], int]:
        """Bytes of each buffer, programs of each launch and bytes of swap space, as the kernel works them out."""
        buffers, launches = self.compiled.buffers, len(self.compiled.launches)
        slots = (ctypes.c_int64 * len(self.template))(*self.template)
        outcome = (ctypes.c_int64 * (buffers + launches + 1))()
        _Prepare(self.compiled.prepare)(ctypes.addressof(slots), ctypes.addressof(outcome))
        return outcome[:buffers], outcome[buffers:-1], outcome[-1]

    def _in_turn(self) -> list[int]:
        """Of each launch, how many programs find in turn what the first of them kept."""
        numbers = (ctypes.c_int64 * len(self.programs))(*(1 for _ in self.programs))
        if self.compiled.in_turn:
            slots = (ctypes.c_int64 * len(self.template))(*self.template)
            _Prepare(self.compiled.in_turn)(ctypes.addressof(slots), ctypes.addressof(numbers))
        return list(numbers)

    def run(self, addresses: Sequence[int], scalars: Sequence[bool | int | float]) -> None:
        """Run the kernel on tensors at these addresses, with these scalars, in the order of the slots."""
        if self.idle:
            return
        try:
            call = self.ready.pop()
        except IndexError:
            self._run_slowly(addresses, scalars)
        else:
            call(*addresses, *scalars)
            self.ready.append(call)

    def _run_slowly(self, addresses: Sequence[int], scalars: Sequence[bool | int | float]) -> None:
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = _Frame(self)
        words = frame.words
        for slot, address in zip(self.tensors, addresses):  # noqa: B905 (a call is checked before, and this is its time)
            words[slot] = address
        if scalars:
            for (slot, is_float), value in zip(self.scalars, scalars, strict=True):
                if is_float:
                    frame.floats[slot] = value
                else:
                    words[slot] = int(value)
        if self.memory > OWN_BYTES:
            block = borrow(self.memory)
            frame.use(block.address)
            self._run(frame)
            give_back(block)
        else:
            self._run(frame)
        if self.trials or self._follows is not None or self.memory > OWN_BYTES or frame.threads != self.threads:
            self._frames.append(frame)
        else:
            self._settled.append(frame)
            self.ready.append(frame.caller([*((slot, False) for slot in self.tensors), *self.scalars]))

    @property
    def is_settled(self) -> bool:
        """Whether it was found out on how many threads calls run."""
        return not self.trials

    def launch_record(self) -> LaunchRecord:
        """How calls are run now; the first calls find out whether small ones go to several threads."""
        swap = self.swap * self.threads + sum(self.buffer_bytes)
        return LaunchRecord(self.plan, CPU, f"{CPU}:cores={self.threads}", 0, len(self.programs), swap, self.rung)

    def _run(self, frame: _Frame) -> None:
        if self._follows is not None:
            read, seen = self._follows
            if read() != seen:
                self._threads_changed(read())
        if frame.threads != self.threads:
            frame.set_threads(self.threads, self.fastest)
        if not self.trials:
            frame.run()
            return
        start = time.perf_counter()
        frame.run()
        seconds = time.perf_counter() - start
        self.fastest = min(self.fastest, seconds)
        self.tried += seconds
        self.trials -= 1
        if self.trials <= 0 or self.tried > TRIAL_SECONDS:
            self.trials = 0
            self.threads = self.wanted if self.fastest >= the_pool().least_seconds else 1

    def _threads_changed(self, number: int) -> None:
        """Finish on no more than this many threads what was bound for others; later calls are bound anew."""
        self._follows = None
        self.threads = min(self.threads, number)
        forget_calls()


def bind_cpu(
    kernel: KernelLike, arguments: Arguments, compiled: CompiledCpu, plan: Plan, rung: str,
    threads: int | None = None, pool: Pool | PythonPool | None = None,
) -> BoundExecutable:  # fmt: skip
    """Bind compiled code to the layout of a call's arguments."""
    return bind_native(kernel, arguments, compiled.native, plan, rung, threads, pool)


def bind_native(
    kernel: KernelLike, arguments: Arguments, native: NativeCode, plan: Plan | None, rung: str,
    threads: int | None = None, pool: Pool | PythonPool | None = None,
) -> BoundExecutable:  # fmt: skip
    """Bind native code to the layout of a call's arguments."""
    template: list[int] = []
    tensors: list[int] = []
    scalars: list[tuple[int, bool]] = []
    for parameter in kernel.parameters:
        if parameter.name in arguments.tensors:
            tensors.append(len(template))
            template += [0, *arguments.tensors[parameter.name].strides]
        elif parameter.name in arguments.scalars:
            scalars.append((len(template), isinstance(arguments.scalars[parameter.name], float)))
            template.append(0)
    template += [arguments.sizes[name] for name in native.sizes] + [0] * native.buffers
    touched = sum(view.size * view.itemsize for view in arguments.tensors.values())
    return BoundExecutable(native, template, tensors, scalars, touched, plan, rung, threads, pool)


def grain_of(programs: int, in_turn: int, threads: int) -> int:
    """The least number of programs that a thread takes at once.

    `in_turn`: programs of which the first computes something for the others, too, in each thread that runs some of
    them. Threads take them together, or equal parts of them where else threads would have more to do than others.
    """
    least = max(1, programs // (PIECES_PER_THREAD * threads))
    if in_turn < 2 or threads < 2:
        return least
    for parts in range(1, min(in_turn, UNITS_PER_THREAD * threads) + 1):
        units = programs // in_turn * parts
        idle = -units % threads
        if in_turn % parts == 0 and UNITS_PER_THREAD * idle <= units:
            return in_turn // parts * max(1, least * parts // in_turn)
    return least


class _Frame:
    """The memory of one call at a time: argument slots, and the call as the pool reads it."""

    def __init__(self, bound: BoundExecutable):
        compiled, count = bound.compiled, len(bound.template)
        self._slots = Block(8 * count)
        self.words = (ctypes.c_int64 * count).from_address(self._slots.address)
        self.floats = (ctypes.c_double * count).from_address(self._slots.address)
        self.words[:] = list[ctypes.c_int64 | int](bound.template)
        self._first_buffer = count - compiled.buffers
        self._buffer_bytes, self._workspace = bound.buffer_bytes, bound.workspace
        launches = [
            NativeLaunch(function, programs, grain_of(programs, in_turn, bound.wanted))
            for function, programs, in_turn in zip(compiled.launches, bound.programs, bound.in_turn, strict=True)
        ]
        helpers = _helpers_of(bound)
        self.call = WorkDescriptor(launches, self._slots.address, bound.wanted, self._workspace, helpers)
        self.threads = 1
        self.call.set_threads(1)
        self._memory = 0
        self._pool = bound.pool
        self.run = (bound.pool or the_pool()).runner(self.call)
        self._kept: list[object] = []
        if 0 < bound.memory <= OWN_BYTES:
            own = Block(bound.memory)
            self._kept.append(own)
            self.use(own.address)

    def caller(self, positions: Sequence[tuple[int, bool]]) -> Callable[..., object]:
        """A function that writes its arguments to these slots, True for an f64, and runs the call."""
        function, memory = (self._pool or the_pool()).caller(self.call, self._slots.address, positions)
        self._kept.append(memory)
        return function

    def use(self, address: int) -> None:
        """Work in this memory: the caller's workspace, then the buffers."""
        if address == self._memory:
            return
        self._memory = address
        self.call.set_workspace(address)
        address += self._workspace
        for slot, size in enumerate(self._buffer_bytes, self._first_buffer):
            self.words[slot] = address
            address += aligned(size)

    def set_threads(self, threads: int, seconds: float) -> None:
        """How many threads may work on the call, which takes so long on one; infinity where that is not known."""
        if self._pool is None:
            reserve(threads)
        self.threads = threads
        self.call.set_threads(threads)
        self.call.set_seconds(seconds)


def _helpers_of(bound: BoundExecutable) -> Block | None:
    """Workspaces of helpers: those that all calls of the process's pool share, or of another pool its own."""
    if bound.pool is None:
        return helper_workspaces(bound.wanted - 1, bound.workspace)
    size = (bound.wanted - 1) * aligned(bound.workspace)
    return Block(size) if size else None
