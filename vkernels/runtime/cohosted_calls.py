"""Calls of threads within `vk.cohost`, which run on all cores or on a share of them, as `coordinator.cohost` decides.

Once a process has used it, calls run through an object of its own that takes the place of the code that it runs.
"""

from __future__ import annotations

import inspect
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ContextDecorator
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from vkernels.compiler import timeline
from vkernels.compiler.arguments import CPU
from vkernels.compiler.background import start_in_background
from vkernels.ir.errors import Error, OptionError, OutOfMemoryError
from vkernels.ir.fork_safe import fork_safe_lock

from .coordinator import get_priority
from .coordinator.cohost import HOST, Lease, Task, Way
from .coordinator.gpu_company import gpu_company_stats
from .coordinator.priority import joined_board
from .coordinator.shown_company import show_companies
from .threads import forget_calls, get_threads, on_threads_change, the_pool

if TYPE_CHECKING:
    from vkernels.compiler.call_profiles import CallKey
    from vkernels.compiler.compilation import Compilation
    from vkernels.compiler.request import Executable

    from .call_entry import Runnable
    from .events import LaunchRecord

Function = TypeVar("Function", bound=Callable[..., Any])

_log = logging.getLogger(__name__)

WEIGHT = 0.1
"""Of a new duration in the average."""

SHOWN_EVERY = 0.1
"""Seconds between two looks that others get at companies."""

SHORT, SURE = 5e-5, 20
"""Seconds of calls that wait for nobody if they run on one thread, and after how many calls that is known."""


class CallKind:
    """Calls with one key, in all threads. `whole`: their seconds on all cores, on average; None before they ran so.

    `is_short`: whether they take so short on one thread that they wait for nobody.
    """

    def __init__(self, key: CallKey, compilation: Compilation, cores: int):
        self.name, self.key, self.kernel = str(key), key.digest, compilation.request.kernel
        self.whole: float | None = None
        self.is_short, self._noted = False, 0
        self._compilation, self._cores = compilation, cores
        self._shares: dict[int, Future[_Share | None]] = {}

    def note(self, seconds: float, calls: Runnable) -> None:
        """One of these calls took so long on all cores."""
        whole = self.whole
        self.whole = whole = seconds if whole is None else whole + WEIGHT * (min(seconds, 2 * whole) - whole)
        self._noted += 1
        if self._noted == SURE:
            self.is_short = whole < SHORT and calls.launch_record().slice == f"{CPU}:cores=1"

    def needs(self, tasks: int) -> Mapping[str, float] | None:
        """What calls need on the share of one of so many tasks; None while, or where, they cannot run there."""
        share = self.share(tasks)
        return None if share is None else share.needs

    def share(self, tasks: int) -> _Share | None:
        """Code for the share of one of so many tasks, made in the background when it is first asked for."""
        threads = self._cores // tasks
        if threads < 1:
            return None
        made = self._shares.get(threads)
        if made is None:
            made = start_in_background(lambda: self._made(threads), self.name)
            made = self._shares.setdefault(threads, made)
        return made.result() if made.done() and made.exception() is None else None

    def _made(self, threads: int) -> _Share | None:
        """The code that is tuned, or else planned, for so many cores with their part of the L3, as others run on the
        rest; or tuned for so many cores with all of it. Deterministic calls keep their plan."""
        from vkernels.compiler.request import CompileTarget
        from vkernels.compiler.size_classes import EXACT
        from vkernels.ir.planning.beside import demand_of
        from vkernels.ir.planning.needed_parts import needed_parts
        from vkernels.targets.slices import cpu_slice_limits
        from vkernels.targets.slices.shares import cores_beside

        whole, exact = self._compilation.request.target.limits, self._compilation.of_class(EXACT)
        try:
            name, limits = cores_beside(threads)
            on_share = exact.on(CompileTarget(limits, CPU, name))
            by_itself = exact.on(CompileTarget(cpu_slice_limits(threads), CPU, f"{CPU}:cores={threads}"))
            chosen = on_share if on_share.plans.tuned or not by_itself.plans.tuned else by_itself
            is_kept = self._compilation.request.is_deterministic
            executable = (self._compilation if is_kept else chosen).executable()
            demand = demand_of(on_share.plans.space, executable.plan)
        except Error as error:
            _log.info("%s does not run on %s of %s cores: %s", self.name, threads, self._cores, error)
            return None
        return _Share(executable, threads, needed_parts(demand, limits, whole))


class _Share:
    """Code for calls on so many threads, and what they need."""

    def __init__(self, executable: Executable, threads: int, needs: Mapping[str, float]):
        self.executable, self.threads, self.needs = executable, threads, needs


class CohostedCalls:
    """Runs calls as their thread's lease says. `bind`: binds the code of a share to their arguments, for a task."""

    def __init__(self, calls: Runnable, kind: CallKind, bind: Callable[[_Share, int], Runnable]):
        self._calls, self._kind, self._bind = calls, kind, bind
        self._on_shares: dict[tuple[int, int], Runnable] = {}
        self.is_repeatable = calls.is_repeatable

    def run(self, addresses: Sequence[int], scalars: Sequence[bool | int | float]) -> None:
        """Run the kernel on tensors at these addresses, with these scalars, in the order of the parameters."""
        task = _own.task
        if task is None or get_priority() != "normal":
            self._calls.run(addresses, scalars)
            return
        kind = self._kind
        if kind.is_short:
            task.kind = kind
            self._calls.run(addresses, scalars)
            task.ended = perf_counter()
            return
        lease, start = task.lease, perf_counter()
        if lease is None or lease.version != HOST.version or start >= lease.until:
            with timeline.working("wait", kind.kernel):
                lease = HOST.begin(task, kind)
                if lease.company is not None:
                    show()
            start = perf_counter()
        else:
            task.in_call, task.kind = True, kind
        runnable = self._calls
        try:
            if lease.way is Way.BESIDE:
                runnable = self._on_share(task, lease)
            _own.ran = self, runnable
            runnable.run(addresses, scalars)
        except OutOfMemoryError:
            if runnable is self._calls:
                raise
            self._calls.run(addresses, scalars)
        finally:
            task.ended = end = perf_counter()
            task.in_call = False
        if lease.way is not Way.BESIDE and self._calls.is_settled:
            kind.note(end - start, self._calls)
        if kind.whole is not None:
            lease.took += end - start
            lease.whole += kind.whole

    def _on_share(self, task: Task, lease: Lease) -> Runnable:
        """What runs on the share of a task; all cores where there is no code for it yet."""
        key = lease.tasks, task.slot
        found = self._on_shares.get(key)
        if found is None:
            share = self._kind.share(lease.tasks)
            if share is None:
                return self._calls
            found = self._on_shares[key] = self._bind(share, task.slot)
        return found

    @property
    def is_settled(self) -> bool:
        """Whether it was found out on how many threads calls run."""
        return self._calls.is_settled

    def launch_record(self) -> LaunchRecord:
        """How this thread's latest call was run, or else calls on all cores."""
        by, runnable = _own.ran
        on_share = by is self and not self._kind.is_short
        return runnable.launch_record() if on_share else self._calls.launch_record()


def show() -> None:
    """Show companies in `vk coordinate status`, now and then, if this process is on the board."""
    global _shown_at
    now = perf_counter()
    if now - _shown_at > SHOWN_EVERY and joined_board() is not None:
        with _lock:
            _shown_at = now
            show_companies(HOST.stats() + gpu_company_stats())


class _Own(threading.local):
    """A thread's task, and what ran its latest call."""

    task: Task | None = None
    ran: tuple[Any, Any] = None, None
    depth: int = 0


class Cohosting(ContextDecorator):
    """What `cohost` gives: a context, and a decorator."""

    def __call__(self, func: Function) -> Function:
        if inspect.iscoroutinefunction(func) or inspect.isgeneratorfunction(func) or inspect.isasyncgenfunction(func):
            raise OptionError(
                f"cohost: {func.__name__} is a coroutine or a generator, which runs later than it is called; "
                "use `with vk.cohost()` around its calls of kernels"
            )
        return super().__call__(func)

    def __enter__(self) -> None:
        global in_use
        with _lock:
            begins, in_use = not in_use, True
        if begins:
            forget_calls()
        if _own.depth == 0:
            _own.task = HOST.enter()
        _own.depth += 1

    def __exit__(self, *_: object) -> None:
        _own.depth -= 1
        if _own.depth == 0 and _own.task is not None:
            task, _own.task = _own.task, None
            HOST.leave(task)


def shares_devices() -> bool:
    """Whether this thread's calls share devices by need."""
    return _own.task is not None and get_priority() == "normal"


def cohost() -> Cohosting:
    """Let this thread's calls of kernels share the CPU by need, within a `with` or as a decorator.

    Threads within it whose calls meet run side by side, each on an equal part of the cores with the plan for that part,
    while what they need together is no more than there is; otherwise they take turns on all cores. It concerns calls of
    normal priority on the CPU; see docs/sharing.md. Raises `OptionError` for coroutines and generators as a decorator.
    """
    return Cohosting()


def cohosted(calls: Runnable, compilation: Compilation, bind: Callable[..., Runnable]) -> Runnable:
    """The calls as threads within `cohost` run them; the same where calls have one thread.

    `bind`: binds code to the arguments, given code, plan, rung, threads, and their pool; None: that of the process.
    """
    from vkernels.compiler.call_profiles import call_key
    from vkernels.compiler.default_session import default_session

    cores = get_threads()
    if cores < 2:
        return calls
    key = call_key(compilation, compilation.request.arguments)
    known = key.digest, compilation.request.same, compilation.request.is_deterministic
    kind = _kinds.by_key.setdefault(known, CallKind(key, compilation, cores))
    default_session().users.add(_kinds)

    def on_share(share: _Share, slot: int) -> Runnable:
        pool = None if share.threads == 1 else the_pool().side(slot, share.threads)
        found = share.executable
        return bind(found.code, found.plan, found.rung, share.threads, pool)

    return CohostedCalls(calls, kind, on_share)


class _Kinds:
    """The kinds of calls that were made, until the number of threads or tuned plans change."""

    def __init__(self) -> None:
        self.by_key: dict[Any, CallKind] = {}

    def forget(self) -> None:
        self.by_key.clear()


_own = _Own()
_shown_at = 0.0
in_use = False
"""Whether the process has used `cohost`."""
_lock = fork_safe_lock()
_kinds = _Kinds()


def _after_fork_in_child() -> None:
    """Of all threads, only the one that forked is there."""
    HOST.keep([] if _own.task is None else [_own.task])


on_threads_change(_kinds.forget)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
