"""Dispatch a kernel call: use the cached executable for this signature, or bind, plan and compile one."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from vkernels.compiler.arguments import CPU, Arguments, Same
from vkernels.compiler.code_providers import Binder, CodeProvider, run_with_less_memory
from vkernels.compiler.default_session import default_session
from vkernels.compiler.protocols import KernelLike
from vkernels.compiler.request import CompileRequest
from vkernels.compiler.session import CompilerSession
from vkernels.ir.errors import OutOfMemoryError
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan

from . import events, recording
from .aliasing import check_written, same_tensors
from .bind_arguments import as_scalar, bind, in_order
from .bind_tunables import resolve_tunables
from .call_entry import CallEntry, Runnable, bind_cpu, make_entry
from .dispatch_keys import KEYS
from .present_target import present_target
from .threads import on_threads_change, the_pool

if TYPE_CHECKING:
    from vkernels.compiler.request import Code

    from .gpu.calls import GpuCalls

__all__ = ["Launcher", "call", "compile", "launcher_of", "limits"]

MAX_CACHED_CALLS = 512
"""Keys of calls that a kernel caches; the oldest goes first. Each holds its code: some 80 KB for a small kernel."""


def call(kernel: KernelLike, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Run a kernel on these arguments.

    Raises `ArgumentError` for arguments that do not fit; errors in the kernel's text and plan at its first call.
    """
    launcher_of(kernel)(*args, **kwargs)


def compile(kernel: KernelLike, args: Sequence[Any], kwargs: Mapping[str, Any], plan: Plan | None = None) -> Code:
    """Compile a kernel as this call would, with the text of every stage; `plan` replaces the kernel's own."""
    return launcher_of(kernel).compile(args, kwargs, plan)


def launcher_of(kernel: KernelLike) -> Launcher:
    """The launcher that calls of a kernel share."""
    attributes = vars(kernel)  # with the kernel itself, so that both go together
    launcher: Launcher | None = attributes.get("_launcher")
    return attributes.setdefault("_launcher", Launcher(kernel)) if launcher is None else launcher


def limits(device: str = CPU) -> Limits:
    """The limits that plans are made for: a GPU's, or this machine's with the threads that calls may use."""
    return present_target(device).limits


class Launcher:
    """Calls one kernel. May be used by several threads: what is new is compiled once.

    `session`: compiles for it; the default session unless given.
    """

    def __init__(self, kernel: KernelLike, session: CompilerSession | None = None):
        self.kernel = kernel
        self._session = session
        self._counters = events.counters_for(kernel.name)
        self._keys = tuple(KEYS[parameter.kind] for parameter in kernel.parameters)
        self._lock = threading.Lock()
        self._calls: dict[Hashable, CallEntry] = {}
        _launchers.add(self)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Run the kernel on these arguments."""
        listeners, is_cache_miss = events.LISTENERS, False
        if listeners:
            start = time.perf_counter()
        if kwargs or len(args) != len(self._keys):
            args = in_order(self.kernel, args, kwargs, leave_open=True)
        key = tuple([describe(value) for describe, value in zip(self._keys, args)])  # noqa: B905 (as many, and in haste)
        entry = self._calls.get(key)
        if entry is None:
            entry, is_cache_miss = self._enter(key, args), True
        try:
            addresses = [read(args[position]) for position, read in entry.readers]
            for number, position, needed, itemsize in entry.extents:
                tensor = args[position]
                left = len(tensor.untyped_storage()) - tensor.storage_offset() * itemsize
                if left < needed or not addresses[number]:
                    self._refuse(args)
        except RuntimeError:  # torch's, of tensors without memory
            self._refuse(args)
            raise
        runnable = entry.distinct
        for one, other, low, high in entry.pairs:
            if low < addresses[other] - addresses[one] < high:
                runnable, is_new = self._overlapping(entry, args, addresses)
                is_cache_miss = is_cache_miss or is_new
                break
        else:
            if runnable is None:
                runnable, is_cache_miss = self._compiled(entry, args, ()), True
        if is_cache_miss:
            events.count_miss(self._counters)
        scalars = [as_scalar(args[position], name) for position, name in entry.scalars] if entry.scalars else ()
        try:
            runnable.run(addresses, scalars)
        except OutOfMemoryError as error:
            runnable = self._run_with_less_memory(entry, args, runnable, error, addresses, scalars)
        self._counters.calls += 1
        if recording.recording and (recorder := recording.current()) is not None:
            recorder.launched(entry, runnable, addresses, scalars)
        if entry.tracked:
            entry.count_writes([args[position] for position in entry.tracked])
        if listeners:
            end = time.perf_counter()
            events.notify(self.kernel.name, runnable.launch_record(), start, end, not is_cache_miss, entry.call_record)

    @property
    def session(self) -> CompilerSession:
        """The session that compiles for this launcher."""
        return self._session or default_session()

    def forget(self) -> None:
        """Drop the cached calls, but not compiled code: they depend on the number of threads and on what is tuned."""
        self._calls = {}

    def renew_lock(self) -> None:
        """After a fork, in the child: the thread that held the lock may not exist."""
        self._lock = threading.Lock()

    def compile(self, args: Sequence[Any], kwargs: Mapping[str, Any], plan: Plan | None = None) -> Code:
        """The code that this call would run, with the text of every stage; `plan` replaces the kernel's own."""
        session = self.session
        values = in_order(self.kernel, args, kwargs, leave_open=plan is None)
        arguments = bind(self.kernel, resolve_tunables(self.kernel, values, session).fill(values))
        target = present_target(arguments.device)
        same = self._same_tensors(arguments)
        return session.compile(CompileRequest(self.kernel, arguments, target, same, plan, keep_stages=True)).code

    # Calls with a new key

    def _enter(self, key: Hashable, values: Sequence[Any]) -> CallEntry:
        """Check arguments of a new key, and make the entry of calls like them."""
        session = self.session
        session.users.add(self)
        tunables = resolve_tunables(self.kernel, values, session)
        arguments = bind(self.kernel, tunables.fill(values))
        written = session.ir(self.kernel, arguments.signature).written
        check_written(self.kernel.name, written, arguments.tensors)
        entry = make_entry(self.kernel, values, arguments, written, tunables, self._counters)
        with self._lock:
            while len(self._calls) >= MAX_CACHED_CALLS:
                del self._calls[next(iter(self._calls))]
            return self._calls.setdefault(key, entry)

    def _refuse(self, values: Sequence[Any]) -> None:
        """Raise `ArgumentError` where arguments are like earlier ones but for their memory."""
        bind(self.kernel, resolve_tunables(self.kernel, values, self.session).fill(values))

    def _overlapping(self, entry: CallEntry, values: Sequence[Any], addresses: Sequence[int]) -> tuple[Runnable, bool]:
        """The code for tensors whose memory may overlap, and whether it is new.

        Raises `ArgumentError` where it overlaps as the kernel cannot have it.
        """
        distances = tuple([addresses[other] - addresses[one] for one, other, _, _ in entry.pairs])
        same = entry.same_by_distances.get(distances)
        if same is None:
            same = self._same_tensors(bind(self.kernel, entry.tunables.fill(values)))
            if len(entry.same_by_distances) >= MAX_CACHED_CALLS:
                entry.same_by_distances = {}
            entry.same_by_distances[distances] = same
        runnable = entry.get(same)
        return (self._compiled(entry, values, same), True) if runnable is None else (runnable, False)

    def _same_tensors(self, arguments: Arguments) -> Same:
        built = self.session.ir(self.kernel, arguments.signature)
        return same_tensors(built.kernel, built.written, arguments.tensors)

    def _compiled(self, entry: CallEntry, values: Sequence[Any], same: Same) -> Runnable:
        """The code that an entry's calls run by now; better code may follow."""
        provider = entry.providers.get(same)
        if provider is None:
            arguments = bind(self.kernel, entry.tunables.fill(values))
            if arguments.device != CPU:
                calls = self._gpu_calls(arguments, same)
                entry.put(same, calls)
                return calls
            provider = self._cpu_provider(entry, arguments, same)
            provider.start()
            the_pool()  # compiles its own code meanwhile, at the first call of all
        runnable = provider.get()
        entry.put(same, runnable)
        provider.on_better(lambda: entry.put(same, None))
        if provider.is_final:
            entry.providers.pop(same, None)
        return runnable

    def _cpu_provider(self, entry: CallEntry, arguments: Arguments, same: Same) -> CodeProvider[Runnable]:
        """The provider of an entry's code on a CPU, from now on."""
        request = CompileRequest(self.kernel, arguments, present_target(CPU), same)
        provider = self.session.code_provider(request, partial(bind_cpu, self.kernel, arguments))
        return entry.providers.setdefault(same, provider)

    def _gpu_calls(self, arguments: Arguments, same: Same) -> GpuCalls:
        """Calls on a GPU: compiled when it is known which addresses are aligned, at the first call of each kind."""
        from .gpu.calls import GpuCalls
        from .gpu.device import gpu_device

        def provider(aligned: Arguments, bind: Binder[Any, Any]) -> CodeProvider[Any]:
            request = CompileRequest(self.kernel, aligned, present_target(arguments.device), same)
            return self.session.code_provider(request, bind)

        return GpuCalls(self.kernel.name, gpu_device(arguments.device), arguments, provider)

    def _run_with_less_memory(
        self, entry: CallEntry, values: Sequence[Any], runnable: Runnable, error: OutOfMemoryError,
        addresses: Sequence[int], scalars: Sequence[Any],
    ) -> Runnable:  # fmt: skip
        """Run a call on a CPU, where there was not memory enough for `runnable`, by a plan that takes less of it."""
        arguments = bind(self.kernel, entry.tunables.fill(values))
        if arguments.device != CPU:  # whose calls have tried that
            raise error
        same = next((same for same, shared in entry.shared.items() if shared is runnable), ())
        provider = entry.providers.get(same) or self._cpu_provider(entry, arguments, same)
        return run_with_less_memory(
            provider, error, partial(entry.put, same), lambda bound: bound.run(addresses, scalars)
        )  # fmt: skip


_launchers: WeakSet[Launcher] = WeakSet()


def _forget_calls() -> None:
    for launcher in list(_launchers):
        launcher.forget()


def _after_fork_in_child() -> None:
    for launcher in list(_launchers):
        launcher.renew_lock()


on_threads_change(_forget_calls)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
