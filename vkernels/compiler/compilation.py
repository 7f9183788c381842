"""One request on its way to code: its IR, its plans, and the code of a plan. `CompilerSession.compile` starts it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, TypeVar

from vkernels.ir.analysis.private_copies import private_tensors
from vkernels.ir.facts import Facts
from vkernels.ir.plan import Plan
from vkernels.ir.plan_json import frozen
from vkernels.ir.planning.resources import OutOfResources

from .arguments import Arguments, Same, check_native
from .artifact_cache import ArtifactCache
from .kernel_variants import KernelIR, KernelVariants
from .plan_fallback import SpillError, author_plan_error, shortages
from .plans import Plans, stated_rung
from .protocols import Constant, Signature
from .request import CompileRequest, CompileTarget, Executable
from .specialise import specialised
from .tuned_constants import tuned_constants

if TYPE_CHECKING:
    from vkernels.ir.disk_cache import DiskCache

    from .compile_gpu import Lowering
    from .counters import CompileCounters
    from .gpu_binaries import BinaryCompiler
    from .log_once import LogOnce
    from .plan_cache import PlanCache
    from .request import Code
    from .tuned_plans import TunedPlans

T = TypeVar("T")


class SessionLike(Protocol):
    """The part of a `CompilerSession` that compiling uses."""

    disk: DiskCache | None
    patience: float
    waiters: int
    counters: CompileCounters
    log_once: LogOnce
    tuned_plans: TunedPlans

    @property
    def plan_cache(self) -> PlanCache: ...
    @property
    def binaries(self) -> BinaryCompiler: ...


@dataclass(frozen=True)
class Compilation:
    """Compiles what calls like a request need. `tuned`: values of the constants left open, where they were tuned."""

    session: SessionLike
    request: CompileRequest
    variants: KernelVariants
    tuned: Mapping[str, Constant] = field(default_factory=dict)

    def with_tuned_constants(self) -> Compilation:
        """The compilation with the tuned values of the constants that the request leaves open, where there are any."""
        request, tuned_plans = self.request, self.session.tuned_plans
        names = [p.name for p in request.kernel.parameters if p.tunable is not None and p.name in request.left_open]
        if not names or tuned_plans.provider is None:
            return self
        signature = request.arguments.signature
        found = tuned_constants(tuned_plans, request.kernel, signature, names, self._plans_of)
        if found is None:
            return self
        tuned = {name: found[name] for name in names}
        return replace(self, request=request.with_constants(tuned), tuned=tuned)

    def given(self, arguments: Arguments, same: Same) -> Compilation:
        """The same for a call with other addresses, of which some tensors are the `same`."""
        return replace(self, request=replace(self.request, arguments=arguments, same=same))

    def on(self, target: CompileTarget) -> Compilation:
        """The same for another target."""
        return replace(self, request=replace(self.request, target=target))

    @cached_property
    def ir(self) -> KernelIR:
        """The kernel's IR as written, for tensors that share no memory. Raises the author's mistakes."""
        return self.variants.ir(self.request.kernel, self.request.arguments.signature)

    @cached_property
    def plans(self) -> Plans:
        """The plans of the request, chosen for tensors that share no memory."""
        return replace(self._plans_of(self.request.arguments.signature), same=self.request.same)

    def _plans_of(self, signature: Signature) -> Plans:
        kernel, arguments, session = self.request.kernel, self.request.arguments, self.session
        return Plans(
            kernel, self.variants.ir(kernel, signature).kernel, arguments.sizes, arguments.dtypes,
            self.request.target.limits, arguments.strides, session.tuned_plans, session.plan_cache,
        )  # fmt: skip

    def executable(self) -> Executable:
        """The plan, its rung and the code that calls run.

        Raises the author's mistakes, and `PlanError` where no plan has code that fits.
        """
        own = self.request.plan or self.plans.author_plan()
        if own is None:
            fallback, code = self.plans.first_fit(self.fitting_code)
            return Executable(fallback.chosen.plan, fallback.chosen.rung, code)
        try:
            code = self.code(own)
            code.refuse_unless_fits(self.plans.allowed)
            return Executable(own, stated_rung(own), code)
        except SpillError as error:  # an author's plan may spill
            return Executable(own, stated_rung(own), error.code)
        except OutOfResources as error:
            raise author_plan_error(self.request.kernel.name, error) from error

    def fitting_code(self, plan: Plan) -> Code:
        """The code of a plan. Raises `OutOfResources` where there is none, or it does not fit."""
        with shortages():
            code = self.code(plan)
        code.refuse_unless_fits(self.plans.allowed)
        return code

    def code(self, plan: Plan) -> Code:
        """The code of a plan, whether it fits or not. Raises `PlanError` where the kernel cannot have the plan."""
        request = self.request
        signature = request.arguments.signature
        built = self.variants.ir(request.kernel, signature, request.same)
        plan = self._possible(plan, built)

        def compiled(facts: Facts) -> Code:
            key = (signature, request.same, frozen((plan, facts)), request.target.architecture)
            return self.variants.code(key, lambda: self._compile(built, plan, facts), request.keep_stages)

        return self._specialised(plan, compiled)

    def lower(self, plan: Plan) -> Lowering:
        """A plan's launches as Triton IR, for a GPU. Raises `PlanError` where the kernel cannot have the plan."""
        from .compile_gpu import lower_for

        built = self.variants.ir(self.request.kernel, self.request.arguments.signature, self.request.same)
        plan = self._possible(plan, built)
        return self._specialised(plan, lambda facts: lower_for(built.module, plan, facts, self.request.keep_stages))

    def _possible(self, plan: Plan, built: KernelIR) -> Plan:
        """A plan that was chosen for tensors that share no memory, for a call in which some are the same.

        What atomics update may be read too then, and has no private copies.
        """
        if not self.request.same or not plan.private_copies or private_tensors(built.kernel, distinct=True):
            return plan
        return replace(plan, private_copies=0)

    def _specialised(self, plan: Plan, make: Callable[[Facts], T]) -> T:
        """What `make` makes of the facts that calls like the request may be compiled with."""
        arguments, target = self.request.arguments, self.request.target
        check_native(self.request.kernel, arguments.dtypes, target.limits)
        return specialised(make, self.ir.kernel, plan, arguments.sizes, arguments.tensors, target.on_gpu)

    def _compile(self, built: KernelIR, plan: Plan, facts: Facts) -> Code:
        start = time.perf_counter()
        target, keep = self.request.target, self.request.keep_stages
        if target.on_gpu:
            from .compile_gpu import lower_for, with_binaries

            lowering = lower_for(built.module, plan, facts, keep)
            binaries = self.session.binaries.compile(lowering.jobs(target.architecture))
            code: Code = with_binaries(lowering, target.architecture, binaries, keep)
        else:
            from .compile_cpu import compile_kernel

            code = compile_kernel(built.module, plan, facts, keep, ArtifactCache(self.session.disk))
        self.session.counters.count_compile(self.request.kernel.name, time.perf_counter() - start)
        return code
