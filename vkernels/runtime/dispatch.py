"""Dispatch a kernel call: use the cached entry of calls like it, or bind the arguments, compile, and make one."""

from __future__ import annotations

import sys
import time
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from vkernels.compiler.arguments import CPU, Arguments, Same
from vkernels.compiler.default_session import default_session
from vkernels.compiler.protocols import Constant, KernelLike, file_of, line_of
from vkernels.compiler.request import CompileRequest
from vkernels.compiler.session import CompilerSession
from vkernels.compiler.size_classes import EXACT
from vkernels.ir.errors import OutOfMemoryError
from vkernels.ir.fork_safe import fork_safe_lock
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan

from . import cohosted_calls, determinism, events, observed_calls, recording, torch_profiler
from .aliasing import check_written, same_tensors
from .arrays import address_reader, adopted, is_foreign, is_torch
from .bind_arguments import as_scalar, bind, in_order
from .bound_executable import bind_cpu
from .call_entry import NONE_YET, CallEntry, Runnable, filled, version_counter
from .class_calls import GPU_SECONDS, ClassCalls
from .dispatch_keys import KEYS
from .like_calls import Addresses
from .present_target import present_target
from .shared_launchers import shared_launcher
from .threads import on_threads_change, the_pool

if TYPE_CHECKING:
    from vkernels.compiler.code_providers import CodeProvider
    from vkernels.compiler.compilation import Compilation
    from vkernels.compiler.request import Code

    from .gpu.calls import GpuCalls

__all__ = ["Launcher", "call", "compile", "launcher_of", "limits"]

MAX_CACHED_CALLS = 2048
"""Keys of calls that a kernel caches; the oldest goes first. Each holds some KB; code is shared by a class of sizes."""


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
    launcher: Launcher = shared_launcher(kernel, Launcher)
    return launcher


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
        self._lock = fork_safe_lock()
        self._calls: tuple[dict[Hashable, CallEntry], ...] = {}, {}
        self._latest: list[tuple[Any, Addresses]] = [NONE_YET, NONE_YET]
        _launchers.add(self)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Run the kernel on these arguments."""
        listeners, is_cache_miss = events.LISTENERS, False
        if listeners:
            start = time.perf_counter()
        if kwargs or len(args) != len(self._keys):
            args = in_order(self.kernel, args, kwargs, leave_open=True)
        is_deterministic = determinism.enabled()
        entry, addresses_if_like = self._latest[is_deterministic]
        addresses = addresses_if_like(args)
        if addresses is None:
            entry, addresses, is_new, args = self._looked_up(args, is_deterministic)
            is_cache_miss = is_cache_miss or is_new
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
        scalars = [
            value if type(value := args[position]) is float else as_scalar(value, name)
            for position, name in entry.scalars
        ] if entry.scalars else ()  # fmt: skip
        if listeners:
            ran = time.perf_counter()
        try:
            if torch_profiler.module._is_profiler_enabled:
                with torch_profiler.range_of(self.kernel.name):
                    runnable.run(addresses, scalars)
            else:
                runnable.run(addresses, scalars)
        except OutOfMemoryError as error:
            runnable = self._run_with_less_memory(entry, args, runnable, error, addresses, scalars)
        self._counters.calls += 1
        if recording.recording and (recorder := recording.current()) is not None:
            recorder.launched(entry, runnable, addresses, scalars)
        if entry.tracked:
            entry.count_writes([args[position] for position in entry.tracked])
        if listeners:
            times = start, ran, time.perf_counter()
            events.notify(self.kernel.name, runnable.launch_record(), times, not is_cache_miss, entry.call_record)

    def _looked_up(
        self, args: tuple[Any, ...], is_deterministic: bool
    ) -> tuple[CallEntry, list[int], bool, tuple[Any, ...]]:
        """The entry of calls with the key of these arguments, their addresses, whether the entry is new, and the
        arguments with arrays of other libraries as ours."""
        key = tuple([describe(value) for describe, value in zip(self._keys, args)])  # noqa: B905 (as many, and in haste)
        latest = self._latest  # before the calls: `forget` replaces both
        calls, is_new = self._calls[is_deterministic], False
        entry = calls.get(key)
        if entry is None:
            if any(map(is_foreign, args)):
                return self._looked_up(tuple(map(adopted, args)), is_deterministic)
            entry, is_new = self._enter(calls, key, args, is_deterministic), True
        try:
            addresses = [read(args[position]) for position, read in entry.readers]
            for number, position, needed, itemsize in entry.extents:
                tensor = args[position]
                left = len(tensor.untyped_storage()) - tensor.storage_offset() * itemsize
                if left < needed or not addresses[number]:
                    entry.bind(args)  # which raises
        except RuntimeError:  # torch's, of tensors without memory
            entry.bind(args)
            raise
        entry.looked_up += 1
        if entry.looked_up % 2 == 0:  # so that of calls that alternate some are found fast
            latest[is_deterministic] = entry, entry.addresses_if_like(args, self._keys)
        return entry, addresses, is_new, args

    @property
    def session(self) -> CompilerSession:
        """The session that compiles for this launcher."""
        return self._session or default_session()

    @property
    def entries(self) -> tuple[CallEntry, ...]:
        """The cached calls."""
        return tuple(entry for calls in self._calls for entry in calls.values())

    def forget(self) -> None:
        """Drop the cached calls, but not compiled code: they depend on the number of threads and on what is tuned."""
        self._calls, self._latest = ({}, {}), [NONE_YET, NONE_YET]

    def compile(self, args: Sequence[Any], kwargs: Mapping[str, Any], plan: Plan | None = None) -> Code:
        """The code that this call would run, with the text of every stage; `plan` replaces the kernel's own."""
        values = tuple(map(adopted, in_order(self.kernel, args, kwargs, leave_open=plan is None)))
        is_deterministic = determinism.enabled()
        compilation = self._compilation(values, self._left_open(values), is_deterministic, plan, keep_stages=True)
        arguments, ir = compilation.request.arguments, compilation.ir
        return compilation.given(arguments, same_tensors(ir.kernel, ir.written, arguments.tensors)).executable().code

    # Calls with a new key

    def _enter(
        self, calls: dict[Hashable, CallEntry], key: Hashable, values: Sequence[Any], is_deterministic: bool
    ) -> CallEntry:
        """Check arguments of a new key, and make the entry of calls like them."""
        self.session.users.add(self)
        left_open = self._left_open(values)
        compilation = self._compilation(values, left_open, is_deterministic)
        if getattr(self.kernel, "tuning", None) is not None and not is_deterministic:
            compilation = self._tuned_first(compilation, values, left_open)
        arguments, written = compilation.request.arguments, compilation.ir.written
        check_written(self.kernel.name, written, arguments.tensors)
        compilation = compilation.by_sizes()
        names = {position: self.kernel.parameters[position].name for position in left_open}
        positions = {parameter.name: position for position, parameter in enumerate(self.kernel.parameters)}
        torch = sys.modules.get("torch")
        torch_profiler.find()
        entry = CallEntry(
            compilation=compilation,
            constants={position: arguments.constants[name] for position, name in names.items()},
            readers=tuple((positions[name], address_reader(values[positions[name]])) for name in arguments.tensors),
            scalars=tuple((positions[name], f"{self.kernel.name}: argument `{name}`") for name in arguments.scalars),
            extents=tuple(
                (number, positions[name], view.reach[1], values[positions[name]].element_size())
                for number, (name, view) in enumerate(arguments.tensors.items())
                if view.size and is_torch(values[positions[name]])
            ),
            pairs=_pairs(written, arguments),
            tracked=tuple(positions[name] for name in written if is_torch(values[positions[name]])),
            # Autograd notices values that it saved before a tensor was written in place.
            count_writes=tuple if torch is None else version_counter(torch),
            counters=self._counters,
            call_record=events.CallRecord(
                file_of(self.kernel), arguments.sizes, arguments.dtypes, arguments.constants, tuple(names.values()),
                bool(compilation.tuned), line_of(self.kernel),
            ),
        )  # fmt: skip
        with self._lock:
            while len(calls) >= MAX_CACHED_CALLS:
                del calls[next(iter(calls))]
            return calls.setdefault(key, entry)

    def _tuned_first(
        self, compilation: Compilation, values: Sequence[Any], left_open: Mapping[int, Constant]
    ) -> Compilation:  # fmt: skip
        """The compilation of a kernel that tunes itself, after it has done so, if no plan was tuned for it before."""
        tune = self.session.tune_first_use
        if tune is None or compilation.plans.tuned is not None:
            return compilation
        given = {p.name: v for at, (p, v) in enumerate(zip(self.kernel.parameters, values, strict=True))
                 if at not in left_open}  # fmt: skip
        tune(self.kernel, given)
        return self._compilation(values, left_open, is_deterministic=False)

    def _left_open(self, values: Sequence[Any]) -> dict[int, Constant]:
        """The default values of the tunable constants that a call leaves open, by position (see `in_order`)."""
        pairs = enumerate(zip(self.kernel.parameters, values, strict=True))
        return {n: p.default for n, (p, value) in pairs if p.tunable is not None and value is p.tunable}

    def _compilation(
        self, values: Sequence[Any], left_open: Mapping[int, Constant], is_deterministic: bool,
        plan: Plan | None = None, keep_stages: bool = False,
    ) -> Compilation:  # fmt: skip
        """Start to compile for a call. Raises `ArgumentError` for arguments that do not fit."""
        arguments = bind(self.kernel, filled(values, left_open))
        target, names = present_target(arguments.device), tuple(self.kernel.parameters[n].name for n in left_open)
        return self.session.compile(
            CompileRequest(self.kernel, arguments, target, (), names, plan, keep_stages, is_deterministic)
        )  # fmt: skip

    def _overlapping(self, entry: CallEntry, values: Sequence[Any], addresses: Sequence[int]) -> tuple[Runnable, bool]:
        """The code for tensors whose memory may overlap, and whether it is new.

        Raises `ArgumentError` for an overlap that the kernel does not allow.
        """
        distances = tuple([addresses[other] - addresses[one] for one, other, _, _ in entry.pairs])
        same = entry.same_by_distances.get(distances)
        if same is None:
            same = self._same_tensors(entry.compilation, entry.bind(values))
            if len(entry.same_by_distances) >= MAX_CACHED_CALLS:
                entry.same_by_distances = {}
            entry.same_by_distances[distances] = same
        runnable = entry.shared.get(same) if same else entry.distinct
        return (self._compiled(entry, values, same), True) if runnable is None else (runnable, False)

    def _same_tensors(self, compilation: Compilation, arguments: Arguments) -> Same:
        """The tensors of a call that are the same. Raises `ArgumentError` for an overlap that is not allowed."""
        return same_tensors(compilation.ir.kernel, compilation.ir.written, arguments.tensors)

    def _compiled(self, entry: CallEntry, values: Sequence[Any], same: Same) -> Runnable:
        """The code that an entry's calls run by now; better code may follow."""
        provider = entry.providers.get(same)
        if provider is None:
            compilation = entry.compilation.given(entry.bind(values), same)
            if compilation.request.target.on_gpu:
                shared = self._gpu_calls(entry, compilation)
                entry.put(same, shared)
                return shared
            provider = self._cpu_provider(entry, compilation)
            provider.start()
            the_pool()  # compiles its own code meanwhile, at the first call of all
        runnable = provider.get()
        if cohosted_calls.in_use:
            given = entry.compilation.given(entry.bind(values), same)
            bind = partial(bind_cpu, self.kernel, given.request.arguments)
            runnable = cohosted_calls.cohosted(runnable, given, bind)
        if observed_calls.OBSERVERS:
            runnable = observed_calls.observed(runnable, entry.compilation.given(entry.bind(values), same))
        entry.put(same, runnable)
        provider.on_better(lambda: entry.put(same, None))
        if provider.is_final:
            entry.providers.pop(same, None)
        return runnable

    def _gpu_calls(self, entry: CallEntry, compilation: Compilation) -> Runnable:
        """What runs an entry's calls on a GPU. It compiles when it is known which addresses are aligned."""
        from .gpu.calls import GpuCalls
        from .gpu.device import gpu_device

        calls = GpuCalls(compilation, gpu_device(compilation.request.arguments.device))
        if compilation.size_class is EXACT:
            return calls
        make_exact = partial(self._make_exact_on_gpu, entry, compilation, calls)
        return ClassCalls(calls, make_exact, GPU_SECONDS)

    def _cpu_provider(self, entry: CallEntry, compilation: Compilation) -> CodeProvider[Runnable]:
        """The provider of an entry's code on a CPU, stored in the entry."""
        from vkernels.compiler.code_providers import provider_of

        bind = partial(bind_cpu, self.kernel, compilation.request.arguments)
        if compilation.size_class is EXACT:
            provider: CodeProvider[Runnable] = provider_of(compilation, bind)
        else:
            make_exact = partial(self._make_exact, entry, compilation)
            provider = provider_of(compilation, lambda *code: ClassCalls(bind(*code), make_exact))
        return entry.providers.setdefault(compilation.request.same, provider)

    def _make_exact(self, entry: CallEntry, compilation: Compilation, addresses: Sequence[int]) -> None:
        """Compile code for the sizes of an entry alone, in the background; then its calls run that."""
        from vkernels.compiler.code_providers import provider_of

        exact, same = compilation.exact(), compilation.request.same
        if exact is None:
            return
        provider: CodeProvider[Runnable] = provider_of(
            exact, partial(bind_cpu, self.kernel, compilation.request.arguments)
        )

        def take() -> None:
            entry.providers[same] = provider
            entry.put(same, None)

        provider.start()
        provider.on_better(take)

    def _make_exact_on_gpu(
        self, entry: CallEntry, compilation: Compilation, calls: GpuCalls, addresses: Sequence[int]
    ) -> None:
        """The same on a GPU. Code is loaded by the first call outside of a graph's capture."""
        exact = compilation.exact()
        if exact is not None:
            better = calls.with_better(exact)
            better.prepare(addresses, lambda: entry.put(compilation.request.same, better))

    def _run_with_less_memory(
        self, entry: CallEntry, values: Sequence[Any], runnable: Runnable, error: OutOfMemoryError,
        addresses: Sequence[int], scalars: Sequence[Any],
    ) -> Runnable:  # fmt: skip
        """Run a call on a CPU by a plan that takes less memory than `runnable`, which had too little."""
        if entry.compilation.request.target.on_gpu:  # whose calls have tried that
            raise error
        from vkernels.compiler.code_providers import run_with_less_memory

        same = next((same for same, shared in entry.shared.items() if shared is runnable), ())
        compilation = entry.compilation.given(entry.bind(values), same)
        provider = entry.providers.get(same) or self._cpu_provider(entry, compilation)
        return run_with_less_memory(
            provider, error, partial(entry.put, same), lambda bound: bound.run(addresses, scalars)
        )  # fmt: skip


def _pairs(written: Sequence[str], arguments: Arguments) -> tuple[tuple[int, int, int, int], ...]:
    """For each written tensor and each other one, the distances of their addresses between which they may overlap."""
    numbers = {name: number for number, name in enumerate(arguments.tensors)}
    pairs = []
    for name in written:
        low, high = arguments.tensors[name].reach
        for other, view in arguments.tensors.items():
            other_low, other_high = view.reach
            if (other in written and numbers[other] <= numbers[name]) or low == high or other_low == other_high:
                continue
            pairs.append((numbers[name], numbers[other], low - other_high, high - other_low))
    return tuple(pairs)


_launchers: WeakSet[Launcher] = WeakSet()


def _forget_calls() -> None:
    for launcher in list(_launchers):
        launcher.forget()


on_threads_change(_forget_calls)
