"""The compiler session: the one road from a kernel and its arguments to a plan and its code.

Calls, compiling ahead, `check`, `explain` and tuning all ask a session. It holds what compiling remembers: the cache of
plans, the cache of artifacts, the provider of tuned plans, the compile workers, and how long first calls wait.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from .counters import CompileCounters
from .log_once import LogOnce
from .tuned_plans import TunedPlanProvider, TunedPlans

if TYPE_CHECKING:
    from vkernels.ir.dialect import KernelOp
    from vkernels.ir.disk_cache import DiskCache
    from vkernels.ir.facts import Facts
    from vkernels.ir.limits import Limits
    from vkernels.ir.plan import Plan

    from .arguments import Arguments, Same
    from .artifact_cache import ArtifactCache
    from .code_providers import Binder, CodeProvider
    from .compile_gpu import Lowering
    from .gpu_binaries import BinaryCompiler
    from .kernel_variants import KernelIR, KernelVariants
    from .plan_cache import PlanCache
    from .plan_fallback import PlanFallback
    from .plans import Plans
    from .protocols import Constant, KernelLike, Signature
    from .request import Code, CompileRequest, Executable

PATIENCE = 2.0
"""Seconds that a first call waits for the best plan, before it runs a plain one."""

T = TypeVar("T")


class SessionUser(Protocol):
    """Holds what depends on the tuned plans of a session."""

    def forget(self) -> None:
        """Ask the session again, from the next call on."""
        ...


class CompilerSession:
    """Compiles kernels, and remembers what it compiled. May be used by several threads.

    `disk`: keeps plans, artifacts and binaries for later processes; None keeps nothing. `provider`: gives tuned plans.
    `patience`: seconds that a first call waits for the best plan.
    """

    def __init__(
        self, disk: DiskCache | None = None, provider: TunedPlanProvider | None = None, patience: float = PATIENCE
    ):
        self.disk, self.patience = disk, patience
        self.counters = CompileCounters()
        self.users: WeakSet[SessionUser] = WeakSet()
        self.log_once = LogOnce()
        self.tuned_plans = TunedPlans(provider, self.log_once)
        self._kernels: WeakKeyDictionary[KernelLike, KernelVariants] = WeakKeyDictionary()
        self._lock = threading.Lock()
        self._waiters = 0
        _sessions.add(self)

    # Caches, each made at first use, as some take long to import

    @cached_property
    def plan_cache(self) -> PlanCache:
        """Plans whose code was found to fit."""
        from .plan_cache import PlanCache

        return PlanCache(self.disk, self.log_once)

    @cached_property
    def artifacts(self) -> ArtifactCache:
        """Lowered kernels and native code, on disk."""
        from .artifact_cache import ArtifactCache

        return ArtifactCache(self.disk)

    @cached_property
    def binaries(self) -> BinaryCompiler:
        """Compiles and keeps GPU binaries."""
        from .gpu_binaries import BinaryCompiler

        return BinaryCompiler(self.disk, self.counters)

    def variants(self, kernel: KernelLike) -> KernelVariants:
        """The IR and the code of a kernel; they go with the kernel."""
        with self._lock:
            found = self._kernels.get(kernel)
            if found is None:
                from .kernel_variants import KernelVariants

                found = self._kernels[kernel] = KernelVariants()
            return found

    # Tuned plans and patience

    def use_provider(self, provider: TunedPlanProvider | None) -> None:
        """Take tuned plans from this provider from now on, or from none."""
        self.tuned_plans.provider = provider
        self.forget_tuned_plans()

    def forget_tuned_plans(self) -> None:
        """Ask the provider again, at the next call of each kernel: its plans may have changed."""
        self.tuned_plans.forget()
        for user in list(self.users):
            user.forget()

    @contextmanager
    def patient(self) -> Iterator[None]:
        """Within, first calls wait for the best plan however long compiling it takes."""
        self._waiters += 1
        try:
            yield
        finally:
            self._waiters -= 1

    # From a request to a plan

    def ir(self, kernel: KernelLike, signature: Signature, same: Same = ()) -> KernelIR:
        """A kernel's IR for a signature, as written but with one tensor in place of all that are the `same`.

        Raises the author's mistakes.
        """
        return self.variants(kernel).ir(kernel, signature, same)

    def plans(self, request: CompileRequest) -> Plans:
        """The plans of a request: those for memory of its own for each tensor."""
        arguments = request.arguments
        built = self.ir(request.kernel, arguments.signature).kernel
        return self.plans_for(
            request.kernel, built, arguments.sizes, arguments.dtypes, request.target.limits, arguments.strides
        )

    def plans_for(
        self,
        kernel: KernelLike,
        built: KernelOp,
        sizes: Mapping[str, int],
        dtypes: Mapping[str, str],
        limits: Limits,
        strides: Mapping[str, Sequence[int]] | None = None,
    ) -> Plans:
        """The plans of a kernel, whose IR as written is `built`, for sizes, dtypes and `strides` of tensors by name."""
        from .plans import Plans

        return Plans(kernel, built, sizes, dtypes, limits, strides, self.tuned_plans, self.plan_cache)

    def tuned_constants(
        self, kernel: KernelLike, arguments: Arguments, limits: Limits, left_open: Sequence[str]
    ) -> dict[str, Constant] | None:
        """The tuned values of the tunable constants that a call leaves open; None where there are none.

        `arguments`: with any values of these constants.
        """
        names = [p.name for p in kernel.parameters if p.tunable is not None and p.name in left_open]
        if not names or self.tuned_plans.provider is None:
            return None
        from .tuned_constants import tuned_constants

        def plans(built: KernelOp) -> Plans:
            return self.plans_for(kernel, built, arguments.sizes, arguments.dtypes, limits, arguments.strides)

        found = tuned_constants(
            self.tuned_plans, kernel, arguments.signature, names,
            lambda signature: self.ir(kernel, signature).kernel, plans,
        )  # fmt: skip
        return None if found is None else {name: found[name] for name in names}

    def with_tuned_constants(self, request: CompileRequest, left_open: Sequence[str]) -> CompileRequest:
        """The request with the tuned values of the constants that its calls leave open, where there are any."""
        found = self.tuned_constants(request.kernel, request.arguments, request.target.limits, left_open)
        if not found:
            return request
        return request.with_constants(found)

    def fallback(
        self, request: CompileRequest, attempt: Callable[[Plan], T], plans: Plans | None = None
    ) -> PlanFallback[T]:
        """The plans of a request in the order in which a call tries them, where the author gives none.

        `attempt`: makes a plan's code, or part of it, and raises `OutOfResources` where a resource is short. `plans`:
        the request's, where they are at hand.
        """
        plans = plans or self.plans(request)
        cached = plans.cached(_cache_key(plans, request.same)) if request.same else None
        return plans.fallback(attempt, cached)

    # From a plan to code

    def compile(self, request: CompileRequest) -> Executable:
        """The plan, its rung and the code that calls like the request run.

        Raises the author's mistakes, and `PlanError` where no plan has code that fits.
        """
        from .plans import stated_rung
        from .request import Executable

        plans = self.plans(request)
        own = request.plan or plans.author_plan()
        if own is not None:
            return Executable(own, stated_rung(own), self._author_code(request, own, plans.allowed))
        fallback, code = self.first_fit(request, plans)
        return Executable(fallback.chosen.plan, fallback.chosen.rung, code)

    def code_provider(self, request: CompileRequest, bind: Binder[Any, Any]) -> CodeProvider[Any]:
        """A provider of the code of calls like the request: at first it may give a plain plan's code. `bind`: binds
        code to the arguments.

        Raises the author's mistakes in the plan.
        """
        from .arguments import check_native
        from .code_providers import FixedPlanProvider, TieredProvider
        from .plans import stated_rung

        check_native(request.kernel, request.arguments.dtypes, request.target.limits)
        plans = self.plans(request)
        own = plans.author_plan()
        if own is not None:
            return FixedPlanProvider(
                request.kernel.name, own, stated_rung(own), lambda: self.code(request, own), bind
            )  # fmt: skip
        return TieredProvider(
            request.kernel.name, request.target.slice, lambda: self.first_fit(request, plans), plans.plain,
            lambda plan: self.code(request, plan), bind, lambda: None if self._waiters else self.patience,
            self.log_once,
        )  # fmt: skip

    def first_fit(self, request: CompileRequest, plans: Plans | None = None) -> tuple[PlanFallback[Code], Code]:
        """The code of the first plan whose code fits, which is stored, and the plans that are left."""
        from .compile_cpu import CompiledCpu
        from .plan_cache import CachedPlan
        from .plan_fallback import shortages

        plans = plans or self.plans(request)

        def attempt(plan: Plan) -> Code:
            with shortages():
                code = self.code(request, plan)
            if not isinstance(code, CompiledCpu):
                from .check_binary import refuse_unless_fits

                refuse_unless_fits(code, plans.allowed)
            return code

        fallback = self.fallback(request, attempt, plans)
        code = fallback.compile_first_fit()
        chosen = fallback.chosen
        if not isinstance(chosen, CachedPlan):
            self.plan_cache.put(_cache_key(plans, request.same), chosen.plan, chosen.rung)
        return fallback, code

    def code(self, request: CompileRequest, plan: Plan) -> Code:
        """The code of a plan, whether it fits or not. Raises what the kernel's plan cannot do."""
        signature, target = request.arguments.signature, request.target
        variants = self.variants(request.kernel)
        built = variants.ir(request.kernel, signature, request.same)

        def compiled(facts: Facts) -> Code:
            from .frozen import frozen

            key = (signature, request.same, frozen(plan), frozen(facts), target.architecture)
            return variants.code(key, lambda: self._compile(request, built, plan, facts), request.keep_stages)

        return self._specialised(request, plan, compiled)

    def lower(self, request: CompileRequest, plan: Plan) -> Lowering:
        """A plan's launches as Triton IR, for a GPU. Raises what the kernel's plan cannot do."""
        from .compile_gpu import lower_for

        built = self.ir(request.kernel, request.arguments.signature, request.same)
        return self._specialised(
            request, plan, lambda facts: lower_for(built.module, plan, facts, request.keep_stages)
        )  # fmt: skip

    def _specialised(self, request: CompileRequest, plan: Plan, make: Callable[[Facts], T]) -> T:
        """What `make` makes of the facts that calls like the request may be compiled with."""
        from .arguments import check_native
        from .specialise import specialised

        arguments, target = request.arguments, request.target
        check_native(request.kernel, arguments.dtypes, target.limits)
        kernel = self.ir(request.kernel, arguments.signature).kernel
        return specialised(make, kernel, plan, arguments.sizes, arguments.tensors, target.on_gpu)

    def _compile(self, request: CompileRequest, built: KernelIR, plan: Plan, facts: Facts) -> Code:
        start = time.perf_counter()
        architecture, keep = request.target.architecture, request.keep_stages
        if request.target.on_gpu:
            from .compile_gpu import lower_for, with_binaries

            lowering = lower_for(built.module, plan, facts, keep)
            binaries = self.binaries.compile(lowering.jobs(architecture))
            code: Code = with_binaries(lowering, architecture, binaries, keep)
        else:
            from .compile_cpu import compile_kernel

            code = compile_kernel(built.module, plan, facts, keep, self.artifacts)
        self.counters.count_compile(request.kernel.name, time.perf_counter() - start)
        return code

    def _author_code(self, request: CompileRequest, plan: Plan, allowed: Limits) -> Code:
        """The code of the author's plan, within what is allowed. Raises `OutOfResources` where it does not fit."""
        from vkernels.ir.planning.resources import OutOfResources

        from .code_providers import author_plan_error
        from .compile_cpu import CompiledCpu

        code = self.code(request, plan)
        if not isinstance(code, CompiledCpu):
            from .check_binary import refuse_unless_fits

            try:
                refuse_unless_fits(code, allowed, may_spill=True)
            except OutOfResources as error:
                raise author_plan_error(request.kernel.name, error) from error
        return code

    # The life of the process

    def close(self) -> None:
        """End the compile workers."""
        if "binaries" in vars(self):
            self.binaries.close()

    def after_fork_in_child(self) -> None:
        """Renew locks that a thread of the parent may have held, and leave the workers to the parent."""
        self._lock = threading.Lock()
        self.counters.renew_lock()
        for variants in list(self._kernels.values()):
            variants.renew_lock()
        if "binaries" in vars(self):
            self.binaries.forget_workers()


def _cache_key(plans: Plans, same: Same) -> str:
    """The key of the plan in the plan cache: where some tensors are the same, another plan's code may fit."""
    key = plans.cache_key
    return hashlib.sha256(f"{key} {same!r}".encode()).hexdigest() if same else key


_sessions: WeakSet[CompilerSession] = WeakSet()


def _close_all() -> None:
    for session in list(_sessions):
        session.close()


def _after_fork_in_child() -> None:
    for session in list(_sessions):
        session.after_fork_in_child()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
