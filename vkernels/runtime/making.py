"""Making the code of one call: by the author's plan, or by a tuned one and chosen ones until one's code fits."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from xdsl.dialects.builtin import ModuleOp

from vkernels.ir.dialect import KernelOp
from vkernels.ir.facts import Facts
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan
from vkernels.ir.planning.shortage import ShortError

from .arguments import Arguments, check_native
from .arrays import CPU
from .compiling import Compiled, compile_kernel
from .events import stated_rung
from .ladder import Descent, shortages
from .overlap import Same
from .plans import Plans
from .protocols import KernelLike
from .remembered import Remembered, remember
from .slices import cpu_slice_limits
from .threads import get_threads
from .way import AuthorsWay, ChosenWay, Finish, Way, authors

if TYPE_CHECKING:
    from .gpu.compiling import CompiledGpu

    Code: TypeAlias = Compiled | CompiledGpu
    """Native code, or a GPU's binaries."""


@dataclass(frozen=True)
class Where:
    """What code is made for. `architecture`: `cpu`, `sm_90`, `gfx942`; `slice`: as events tell it."""

    limits: Limits
    architecture: str
    slice: str

    @property
    def on_gpu(self) -> bool:
        return self.architecture != CPU


def here(device: str) -> Where:
    """A device of this machine, as torch calls it; the CPU with the threads that calls may use."""
    if device == CPU:
        threads = get_threads()
        return Where(cpu_slice_limits(threads), CPU, f"{CPU}:cores={threads}")
    from .gpu.device import gpu_device

    found = gpu_device(device)
    return Where(found.limits, found.architecture, found.slice)


def make_code(module: ModuleOp, plan: Plan, facts: Facts, architecture: str, keep: bool) -> Code:
    """Compile the one kernel of a module, with the text of every stage if `keep`."""
    if architecture == CPU:
        return compile_kernel(module, plan, facts, keep)
    from .gpu.compile_jobs import compile_jobs
    from .gpu.compiling import lower_for, with_binaries

    lowering = lower_for(module, plan, facts, keep)
    return with_binaries(lowering, architecture, compile_jobs(lowering.jobs(architecture)), keep)


@dataclass(frozen=True)
class Making:
    """`built`: the kernel's IR for the arguments; `code`: makes the code of a plan; `same`: tensors that
    are the same."""

    kernel: KernelLike
    built: KernelOp
    arguments: Arguments
    where: Where
    code: Callable[[Plan], Code]
    same: Same = ()

    @cached_property
    def plans(self) -> Plans:
        """The plans that there are."""
        arguments = self.arguments
        strides = {name: view.strides for name, view in arguments.tensors.items()}
        return Plans(self.kernel, self.built, arguments.sizes, arguments.dtypes, self.where.limits, strides)

    def own_code(self, plan: Plan) -> Code:
        """The code of the plan that the author gives. Raises `ShortError` where it does not fit."""
        code = self.code(plan)
        if not isinstance(code, Compiled):
            from .gpu.judge import refuse_unless_fits

            try:
                refuse_unless_fits(code, self.plans.allowed, may_spill=True)
            except ShortError as error:
                raise authors(self.kernel.name, error) from error
        return code

    def descent(self) -> Descent[Code]:
        """The chosen plans, whose code has to fit."""
        allowed = self.plans.allowed

        def fitting(plan: Plan) -> Code:
            with shortages():
                code = self.code(plan)
            if not isinstance(code, Compiled):
                from .gpu.judge import refuse_unless_fits

                refuse_unless_fits(code, allowed)
            return code

        recalled = self.plans.remembered(self._question) if self.same else None
        return self.plans.descent(fitting, recalled)

    def best(self) -> tuple[Descent[Code], Code]:
        """The best chosen plan's code that fits, and what leads further down. The plan is remembered."""
        descent = self.descent()
        code = descent.land()
        chosen = descent.chosen
        if not isinstance(chosen, Remembered):
            remember(self._question, chosen.plan, chosen.rung)
        return descent, code

    @property
    def _question(self) -> str:
        """What the plan is remembered by: where some tensors are the same, its code may be another's."""
        asked = self.plans.question
        return hashlib.sha256(f"{asked} {self.same!r}".encode()).hexdigest() if self.same else asked

    def way(self, finish: Finish[Any, Any]) -> Way[Any]:
        """How calls come to the code. Raises the author's mistakes in the plan."""
        name = self.kernel.name
        check_native(self.kernel, self.arguments.dtypes, self.where.limits)
        own = self.plans.own()
        if own is not None:
            return AuthorsWay(name, own, stated_rung(own), lambda: self.code(own), finish)
        return ChosenWay(name, self.where.slice, self.best, self.plans.sure, self.code, finish)
