"""Calls of one shape on a GPU: code that assumes aligned addresses for those that are, other code for the rest."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from vkernels.compiler.arguments import Arguments
from vkernels.compiler.background import InBackground
from vkernels.compiler.call_profiles import CallKey, call_key
from vkernels.compiler.code_providers import CodeProvider, provider_of, run_with_less_memory
from vkernels.compiler.compilation import Compilation
from vkernels.compiler.compile_gpu import CompiledGpu
from vkernels.compiler.size_classes import WIDE
from vkernels.ir.errors import ArgumentError, OutOfMemoryError, SlowPlanWarning, warn_caller
from vkernels.ir.plan import Plan

from .. import cohosted_calls
from ..coordinator.gpu_company import company_on
from ..events import LaunchRecord
from .bound_executable import BoundGpuExecutable
from .device import GpuDevice
from .loading import loaded_on
from .packing import pack

if TYPE_CHECKING:
    from .shares import SharingCalls

Run = Callable[[Sequence[int], Sequence[bool | int | float]], None]
"""Starts a call on tensors at these addresses, with these scalars."""


class GpuCalls:
    """The calls with one key on a GPU. `compilation`: of the first of them. `before`: calls by other code, which is
    loaded already.

    While a graph is captured nothing is loaded: calls run code that is loaded, even where better code is compiled.
    """

    is_repeatable, is_settled = True, True

    def __init__(self, compilation: Compilation, device: GpuDevice, before: GpuCalls | None = None):
        self._compilation, self._device, self._before = compilation, device, before
        self._current: dict[Hashable, BoundGpuExecutable | None] = {}
        self._loaded: dict[Hashable, BoundGpuExecutable] = {}
        self._providers: dict[Hashable, CodeProvider[BoundGpuExecutable]] = {}
        self._plain: set[Hashable] = set()
        self._warned: set[Hashable] = set()
        self._last: BoundGpuExecutable | None = None
        self._kinds: dict[Hashable, SharingCalls] = {}

    def run(self, addresses: Sequence[int], scalars: Sequence[bool | int | float]) -> None:
        """Start the kernel on tensors at these addresses, with these scalars, in the order of the parameters."""
        together = 0
        for address in addresses:
            together |= address
        key = None if together % WIDE == 0 else _alignment(addresses)
        runnable = self._current.get(key) or self._compiled(key, addresses)
        run: Run = runnable.run
        if cohosted_calls.in_use and cohosted_calls.shares_devices():
            run = self._in_company(key, addresses, runnable)
        if self._plain and key in self._plain and self._is_captured():
            self._warn_of_plain(key)
        try:
            run(addresses, scalars)
        except OutOfMemoryError as error:
            if self._is_captured():
                raise
            provider = self._providers.get(key) or self._new_provider(key, addresses)
            run_with_less_memory(provider, error, partial(self._put, key), lambda bound: bound.run(addresses, scalars))

    def with_better(self, compilation: Compilation) -> GpuCalls:
        """The same calls by better code."""
        return GpuCalls(compilation, self._device, self)

    def prepare(self, addresses: Sequence[int], ready: Callable[[], None]) -> None:
        """Compile for calls aligned like these addresses, in the background, and call `ready` when that is done."""
        provider = self._new_provider(_alignment(addresses), addresses)
        provider.start()
        provider.on_better(ready)

    def launch_record(self) -> LaunchRecord:
        """How calls are run; other alignments differ little."""
        if self._last is None and self._before is not None:
            return self._before.launch_record()
        assert self._last is not None, "after a call"
        return self._last.launch_record()

    def _put(self, key: Hashable, runnable: BoundGpuExecutable | None) -> None:
        if runnable is not None:
            self._last = self._loaded[key] = runnable
        self._current[key] = runnable

    def _compiled(self, key: Hashable, addresses: Sequence[int]) -> BoundGpuExecutable:
        """The best code by now. Raises `ArgumentError` if none is loaded while a graph is captured."""
        if self._is_captured():
            if key in self._loaded:
                return self._loaded[key]
            if self._before is not None:
                return self._before._compiled(key, addresses)
            raise ArgumentError(
                f"{self._compilation.request.kernel.name}: a first call with tensors of these shapes, dtypes and "
                "alignments loads code, which cannot be done while a CUDA graph is captured: make a call like it before"
            )
        provider = self._providers.get(key) or self._new_provider(key, addresses)
        runnable = provider.get()
        self._put(key, runnable)
        if provider.is_final:
            self._providers.pop(key, None)
        (self._plain.add if provider.is_plain else self._plain.discard)(key)
        provider.on_better(lambda: self._put(key, None))
        return runnable

    def _warn_of_plain(self, key: Hashable) -> None:
        """Warn the caller, once, that a graph keeps a plain plan for good."""
        if key in self._warned:
            return
        self._warned.add(key)
        name = self._compilation.request.kernel.name
        warn_caller(
            SlowPlanWarning(
                f"{name}: the graph that is captured keeps a plain plan, since the best one was not ready at the last "
                "call before: make a call like this within `vk.patient()` first"
            )
        )

    def _new_provider(self, key: Hashable, addresses: Sequence[int]) -> CodeProvider[BoundGpuExecutable]:
        """The provider of code for an alignment, stored for later calls."""
        arguments = self._at(addresses)
        compilation = self._compilation.given(arguments, self._compilation.request.same)
        return self._providers.setdefault(key, provider_of(compilation, partial(self._bind, arguments)))

    def _at(self, addresses: Sequence[int]) -> Arguments:
        """The arguments of a call with these addresses."""
        arguments = self._compilation.request.arguments
        views = zip(arguments.tensors.items(), addresses, strict=True)
        return replace(arguments, tensors={name: replace(view, address=at) for (name, view), at in views})

    def _in_company(self, key: Hashable, addresses: Sequence[int], whole: BoundGpuExecutable) -> Run:
        """What runs a call of this thread's task: code for the part of the device that it has now, or for all of it."""
        if self._compilation.request.is_deterministic or self._is_captured():
            return whole.run
        company, kind = company_on(self._device.number), self._kind(key, addresses)
        decided, runnable = company.decide(kind), whole
        if decided.company is not None:
            cohosted_calls.show()
        if decided.tasks > 1:
            share = kind.share(decided.tasks)
            if share is None:
                return whole.run
            runnable = share.bound
        if not decided.is_sampled:
            return runnable.run

        def run(addresses: Sequence[int], scalars: Sequence[bool | int | float]) -> None:
            driver = self._device.driver
            with driver.on(self._device.number), company.measured(decided, kind.key, driver.mark):
                runnable.run(addresses, scalars)

        return run

    def _kind(self, key: Hashable, addresses: Sequence[int]) -> SharingCalls:
        """What tells these calls from those of other tasks, with their code for parts of the device."""
        kind = self._kinds.get(key)
        if kind is None:
            from .shares import SharingCalls, share_for  # which most processes need not

            make = partial(share_for, self._compilation, self._device, self._at(addresses), bind=self._bind)
            kind = self._kinds.setdefault(key, SharingCalls(str(self._call_key), self._call_key.digest, make))
        return kind

    @cached_property
    def _call_key(self) -> CallKey:
        """What calls are known by where they are measured."""
        return call_key(self._compilation, self._compilation.request.arguments, self._device.target.name)

    def _is_captured(self) -> bool:
        """Whether work that starts now goes into a graph instead of to the device."""
        with self._device.driver.on(self._device.number):
            return self._device.driver.is_capturing()

    def _bind(self, arguments: Arguments, compiled: CompiledGpu, plan: Plan, rung: str) -> BoundGpuExecutable:
        prepared = compiled.lowered.prepare(arguments.sizes)
        loaded = loaded_on(self._device, compiled)
        bound = BoundGpuExecutable(self._device, pack(loaded, prepared, arguments), plan, rung)
        bound.kernel = self._compilation.request.kernel
        bound.call_key = partial(call_key, self._compilation, arguments, self._device.target.name)
        if not plan.resident_programs and not self._compilation.request.is_deterministic:
            resident = max(launch.resident for launch in loaded)
            bind = partial(self._bind_divided, arguments, plan, rung, resident)
            bound.divided = InBackground(bind, compiled.lowered.name, "ranges of programs")
        return bound

    def _bind_divided(self, arguments: Arguments, plan: Plan, rung: str, resident: int) -> BoundGpuExecutable:
        """The code of the same plan with persistent launches, which can be started in ranges of programs."""
        persistent = replace(plan, resident_programs=resident)
        compiled = self._compilation.given(arguments, self._compilation.request.same).fitting_code(persistent)
        assert isinstance(compiled, CompiledGpu), "code for a GPU"
        return self._bind(arguments, compiled, persistent, rung)


def _alignment(addresses: Sequence[int]) -> Hashable:
    """The key of code that assumes which addresses are aligned; None where all are."""
    together = 0
    for address in addresses:
        together |= address
    return None if together % WIDE == 0 else tuple(address % WIDE == 0 for address in addresses)
