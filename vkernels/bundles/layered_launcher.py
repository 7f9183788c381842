"""Dispatch of calls for which a bundle is the lowest layer of plans: tuned plans win, and what it lacks is compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from vkernels.compiler.arguments import CPU, Arguments, Same
from vkernels.compiler.protocols import Constant
from vkernels.ir.errors import NotInBundleError, OutOfMemoryError
from vkernels.ir.plan import Plan
from vkernels.runtime.call_entry import CallEntry, Runnable
from vkernels.runtime.dispatch import Launcher

from .frozen_launcher import FrozenCompilation, FrozenLauncher, present_gpu

if TYPE_CHECKING:
    from vkernels.compiler.code_providers import CodeProvider
    from vkernels.compiler.compilation import Compilation


@dataclass(frozen=True)
class LayeredCompilation(FrozenCompilation):
    """A call that the bundle has code for. `compiled`: what compiles it where that code does not fit after all, as for
    tensors that are the same."""

    compiled: Compilation = field(kw_only=True)

    def given(self, arguments: Arguments, same: Same) -> LayeredCompilation:
        request = replace(self.request, arguments=arguments, same=same)
        return replace(self, request=request, compiled=self.compiled.given(arguments, same))


class LayeredLauncher(FrozenLauncher):
    """Calls one kernel by its record in a bundle, unless a plan was tuned for the call or the bundle has no code of its
    own for it: then it is compiled as without a bundle."""

    def _compilation(
        self, values: Sequence[Any], left_open: Mapping[int, Constant], is_deterministic: bool,
        plan: Plan | None = None, keep_stages: bool = False,
    ) -> Compilation:  # fmt: skip
        compiled = Launcher._compilation(self, values, left_open, is_deterministic, plan, keep_stages)
        if keep_stages or plan is not None or compiled.tuned or compiled.plans.tuned is not None:
            return compiled
        try:
            frozen = cast(FrozenCompilation, super()._compilation(values, left_open, is_deterministic))
            self._check_code(frozen)
        except NotInBundleError:
            return compiled
        made = LayeredCompilation(frozen.request, frozen.variant, compiled=compiled)
        return cast("Compilation", made)

    def _check_code(self, frozen: FrozenCompilation) -> None:
        """Raise `NotInBundleError` where the bundle has no code for a call whose tensors share no memory."""
        arguments = frozen.request.arguments
        if arguments.device == CPU:
            self._cpu_code(frozen)
        else:
            self._gpu_code(frozen, present_gpu(arguments.device), arguments)

    def _same_tensors(self, compilation: Compilation, arguments: Arguments) -> Same:
        if isinstance(compilation, LayeredCompilation):
            return super()._same_tensors(compilation, arguments)
        return Launcher._same_tensors(self, compilation, arguments)

    def _cpu_provider(self, entry: CallEntry, compilation: Compilation) -> CodeProvider[Runnable]:
        if isinstance(compilation, LayeredCompilation):
            try:
                return super()._cpu_provider(entry, compilation)
            except NotInBundleError:
                compilation = compilation.compiled
        return Launcher._cpu_provider(self, entry, compilation)

    def _gpu_calls(self, entry: CallEntry, compilation: Compilation) -> Runnable:
        if isinstance(compilation, LayeredCompilation):
            return super()._gpu_calls(entry, compilation)
        return Launcher._gpu_calls(self, entry, compilation)

    def _run_with_less_memory(
        self, entry: CallEntry, values: Sequence[Any], runnable: Runnable, error: OutOfMemoryError,
        addresses: Sequence[int], scalars: Sequence[Any],
    ) -> Runnable:  # fmt: skip
        is_of_bundle = isinstance(entry.compilation, LayeredCompilation)
        way = FrozenLauncher._run_with_less_memory if is_of_bundle else Launcher._run_with_less_memory
        return way(self, entry, values, runnable, error, addresses, scalars)
