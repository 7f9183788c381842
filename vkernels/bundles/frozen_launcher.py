"""Dispatch of calls whose code is in a bundle: as for other calls, but nothing is planned and nothing is compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from vkernels.compiler.arguments import CPU, Arguments, Same
from vkernels.compiler.protocols import Constant, KernelLike
from vkernels.compiler.request import CompileRequest, CompileTarget
from vkernels.compiler.size_classes import EXACT, SizeClass
from vkernels.compiler.timeline import working
from vkernels.ir.errors import NotInBundleError, OutOfMemoryError
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan
from vkernels.runtime.aliasing import same_where
from vkernels.runtime.bind_arguments import bind
from vkernels.runtime.bound_executable import BoundExecutable, bind_native
from vkernels.runtime.call_entry import CallEntry, Runnable, filled
from vkernels.runtime.dispatch import Launcher
from vkernels.runtime.threads import get_threads

from .frozen_gpu import FrozenGpuCalls, GpuLoader, gpu_runnable, reachable
from .loaded_code import LoadedCode
from .manifest import Code, Kernel, Variant
from .match import code_for, variant_for

if TYPE_CHECKING:
    from vkernels.compiler.code_providers import CodeProvider
    from vkernels.compiler.compilation import Compilation
    from vkernels.runtime.gpu.bound_executable import BoundGpuExecutable
    from vkernels.runtime.gpu.device import GpuDevice

_NO_LIMITS = Limits(registers=0, register_bytes=0, shared=0, multiprocessors=0, cache=0)
"""Of targets that nothing is planned for."""


@dataclass(frozen=True)
class Written:
    """The part of a kernel's IR that a launcher asks for: names of the tensors that it writes."""

    written: tuple[str, ...]


@dataclass(frozen=True)
class FrozenCompilation:
    """What a launcher uses of a `Compilation`, for a call that compiles nothing. `variant`: whose code it may run."""

    request: CompileRequest
    variant: Variant
    tuned: Mapping[str, Constant] = field(default_factory=dict)
    size_class: SizeClass = EXACT

    @property
    def ir(self) -> Written:
        return Written(self.variant.written)

    def by_sizes(self) -> FrozenCompilation:
        """The same: which sizes code serves was decided when the bundle was built."""
        return self

    def given(self, arguments: Arguments, same: Same) -> FrozenCompilation:
        """The same for a call with other addresses, of which some tensors are the `same`."""
        return replace(self, request=replace(self.request, arguments=arguments, same=same))


class FrozenProvider:
    """Provides a bundle's code of calls of one shape: it is there, and no better follows."""

    is_final, is_plain = True, False

    def __init__(self, make: Callable[[], BoundExecutable]):
        self._make = make

    def start(self) -> None:
        """There is nothing to start."""

    def get(self) -> BoundExecutable:
        return self._make()

    def on_better(self, callback: Callable[[], None]) -> None:
        """There is no better code."""


class FrozenLauncher(Launcher):
    """Calls one kernel by its record in a bundle. `read`: loads the code of a record; `runnable`: code of a variant
    that runs on this machine, the best first; `fallback`: what calls without code of their own do; `gpu`: loads code
    for GPUs."""

    def __init__(
        self, kernel: KernelLike, record: Kernel, runnable: Callable[[Variant], Sequence[Code]],
        read: Callable[[Code], LoadedCode], fallback: str, gpu: GpuLoader,
    ):  # fmt: skip
        super().__init__(kernel)
        self._record, self._runnable, self._read, self._fallback = record, runnable, read, fallback
        self._gpu = gpu

    def _compilation(
        self, values: Sequence[Any], left_open: Mapping[int, Constant], is_deterministic: bool,
        plan: Plan | None = None, keep_stages: bool = False,
    ) -> Compilation:  # fmt: skip
        if keep_stages or plan is not None:
            raise NotInBundleError(f"{self.kernel.name}: frozen calls compile nothing")
        arguments = bind(self.kernel, filled(values, left_open))
        names = tuple(self.kernel.parameters[number].name for number in left_open)
        target = _target(arguments.device)
        request = CompileRequest(
            self.kernel, arguments, target, (), names, wants_deterministic=is_deterministic
        )  # fmt: skip
        if request.is_deterministic and not self._record.deterministic:
            raise NotInBundleError(f"{self.kernel.name}: the bundle was built for calls that are not deterministic")
        variant = variant_for(self._record, arguments, names)
        return cast("Compilation", FrozenCompilation(request, variant))

    def _same_tensors(self, compilation: Compilation, arguments: Arguments) -> Same:
        variant = cast(FrozenCompilation, compilation).variant
        allowed = set(variant.in_place)
        return same_where(
            self.kernel.name, lambda name, other: (name, other) in allowed, variant.written, arguments.tensors
        )  # fmt: skip

    def _cpu_provider(self, entry: CallEntry, compilation: Compilation) -> CodeProvider[Runnable]:
        request = compilation.request
        code = self._cpu_code(cast(FrozenCompilation, compilation))
        provider = FrozenProvider(partial(self._bound, code, request.arguments))
        return entry.providers.setdefault(request.same, cast("CodeProvider[Runnable]", provider))

    def _gpu_calls(self, entry: CallEntry, compilation: Compilation) -> Runnable:
        frozen = cast(FrozenCompilation, compilation)
        arguments, name = frozen.request.arguments, self.kernel.name
        device = present_gpu(arguments.device)

        def choose(arguments: Arguments) -> BoundGpuExecutable:
            return self._gpu.bound(device, self._gpu_code(frozen, device, arguments), arguments, name)

        return FrozenGpuCalls(device, arguments, choose, name)

    def _cpu_code(self, frozen: FrozenCompilation) -> Code:
        """The code of calls on this CPU. Raises `NotInBundleError` where there is none."""
        request, runnable = frozen.request, self._runnable(frozen.variant)
        return code_for(self._record, frozen.variant, runnable, request.arguments, request.same, self._fallback)

    def _gpu_code(self, frozen: FrozenCompilation, device: GpuDevice, arguments: Arguments) -> Code:
        """The code of calls on a GPU with arguments at these addresses. Raises `NotInBundleError` where there is
        none."""
        found, same = reachable(gpu_runnable(frozen.variant, device), arguments), frozen.request.same
        return code_for(self._record, frozen.variant, found, arguments, same, self._fallback, device.target.name)

    def _bound(self, code: Code, arguments: Arguments) -> BoundExecutable:
        with working("load", self.kernel):
            loaded = self._read(code)
        return bind_native(self.kernel, arguments, loaded, loaded.plan, code.rung)

    def _run_with_less_memory(
        self, entry: CallEntry, values: Sequence[Any], runnable: Runnable, error: OutOfMemoryError,
        addresses: Sequence[int], scalars: Sequence[Any],
    ) -> Runnable:  # fmt: skip
        """Raise the error: a frozen call has one plan."""
        raise error


def _target(device: str) -> CompileTarget:
    """The device of a call, that nothing is planned for."""
    if device == CPU:
        return CompileTarget(_NO_LIMITS, CPU, f"{CPU}:cores={get_threads()}")
    found = present_gpu(device)
    return CompileTarget(_NO_LIMITS, found.architecture, found.slice)


def present_gpu(device: str) -> GpuDevice:
    """The GPU of a torch device; its modules are imported when there is one."""
    from vkernels.runtime.gpu import device as gpus

    return gpus.present_gpu(device)
