"""One request on its way to code: its IR, its plans, and the code of a plan. `CompilerSession.compile` starts it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from vkernels.ir.analysis.warp_roles import why_not_on
from vkernels.ir.errors import PlanError
from vkernels.ir.facts import Facts
from vkernels.ir.occupancy import AmdSizes
from vkernels.ir.plan import Plan
from vkernels.ir.plan_json import frozen
from vkernels.ir.planning.resources import OutOfResources, RefusedCodeError
from vkernels.ir.tensor_formats import TensorFormats
from vkernels.targets.host_cpu import cpu_limits

from .arguments import Arguments, Same
from .artifact_cache import ArtifactCache
from .kernel_variants import KernelIR, KernelVariants
from .plan_fallback import SpillError, author_plan_error, refusals, shortages
from .plans import Plans, stated_rung
from .protocols import Constant, Signature
from .request import CompileRequest, CompileTarget, Executable
from .size_classes import EXACT, ClassPlanning, SizeClass, with_sizes
from .size_history import SizeHistory
from .specialise import specialised
from .timeline import working
from .tuned_constants import tuned_constants

_log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from vkernels.ir.disk_cache import DiskCache
    from vkernels.targets.instruction_sets import InstructionSet

    from .background_calibration import BackgroundCalibration
    from .compile_cpu import CpuObject
    from .compile_gpu import Lowering
    from .counters import CompileCounters
    from .gpu_binaries import BinaryCompiler
    from .judge_by_static_bound import Judging
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
    exact_shapes: int
    judge: int
    calibration: BackgroundCalibration

    def note_pending(self, best: Future[Any]) -> None: ...

    @property
    def plan_cache(self) -> PlanCache: ...
    @property
    def binaries(self) -> BinaryCompiler: ...


@dataclass(frozen=True)
class Compilation:
    """Compiles what calls like a request need. `tuned`: values of the constants left open, where they were tuned.

    `size_class`: which other sizes the plan and the code serve, if not `EXACT`.
    """

    session: SessionLike
    request: CompileRequest
    variants: KernelVariants
    tuned: Mapping[str, Constant] = field(default_factory=dict)
    size_class: SizeClass = EXACT

    def with_tuned_constants(self) -> Compilation:
        """The compilation with the tuned values of the constants that the request leaves open, where there are any."""
        request, tuned_plans = self.request, self.session.tuned_plans
        names = [p.name for p in request.kernel.parameters if p.tunable is not None and p.name in request.left_open]
        if not names or tuned_plans.provider is None or request.is_deterministic:
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

    def by_sizes(self) -> Compilation:
        """The same for the class of the request's sizes, where sizes of the kernel's calls change.

        A plan that the author gives, pins or bounds is for the sizes of a call, as are tuned plans. Which class a call
        is of depends on the calls before, so deterministic calls are of none. Raises the author's mistakes in the plan.
        """
        kernel = self.request.kernel
        if self.request.is_deterministic:
            return self
        if kernel.pin is not None or kernel.budget is not None or self.tuned or self.plans.author_plan() is not None:
            return self
        return self.of_class(self._history.class_of(self.request.arguments.sizes, lambda: self.plans.is_ready))

    def exact(self) -> Compilation | None:
        """The same for the request's sizes alone, where they run so often that it pays; None if too many do."""
        is_new = self._history.make_exact(self.request.arguments.sizes)
        return self.of_class(EXACT) if is_new else None

    @property
    def _history(self) -> SizeHistory:
        request = self.request
        key = request.arguments.signature, request.target.architecture
        return self.variants.history(key, request.target.on_gpu, self.session.exact_shapes)

    def of_class(self, size_class: SizeClass) -> Compilation:
        """The same for all sizes of a class that holds the request's."""
        return replace(self, size_class=size_class)

    def on(self, target: CompileTarget) -> Compilation:
        """The same for another target."""
        return replace(self, request=replace(self.request, target=target))

    @cached_property
    def ir(self) -> KernelIR:
        """The kernel's IR as written, for tensors that share no memory. Raises the author's mistakes."""
        return self.variants.ir(self.request.kernel, self.request.arguments.signature)

    @cached_property
    def plans(self) -> Plans:
        """The plans of the request, chosen knowing which tensors are the same."""
        signature, same = self.request.arguments.signature, self.request.same
        plans = self._plans_of(signature)
        if not same:
            return plans
        return replace(plans, built=self.variants.ir(self.request.kernel, signature, same).kernel, apart=plans.built)

    def _plans_of(self, signature: Signature) -> Plans:
        """The plans for tensors that share no memory."""
        kernel, arguments, session = self.request.kernel, self.request.arguments, self.session
        planning = None if self.size_class is EXACT else ClassPlanning(self.size_class, kernel, arguments)
        if planning is not None:
            arguments = with_sizes(kernel, arguments, self.size_class.largest(arguments.sizes))
        return Plans(
            kernel, self.variants.ir(kernel, signature).kernel, arguments.sizes, arguments.dtypes,
            self.request.limits, arguments.strides, session.tuned_plans, session.plan_cache, of_class=planning,
            is_deterministic=self.request.is_deterministic, judging=self._judging,
        )  # fmt: skip

    @property
    def _judging(self) -> Judging | None:
        """How plans are judged by their binaries: those of a GPU for the sizes of a call. Plans of deterministic calls
        follow from the kernel alone."""
        request = self.request
        count = self.session.judge if request.judge is None else request.judge
        if count < 2 or not request.target.on_gpu or request.is_deterministic or self.size_class is not EXACT:
            return None
        from .judge_by_static_bound import Judging

        return Judging(count, request.target.architecture)

    def executable(self) -> Executable:
        """The plan, its rung and the code that calls run.

        Raises the author's mistakes, and `PlanError` where no plan has code that fits.
        """
        own = self.request.plan or self.plans.author_plan()
        if own is None:
            fallback, code = self.plans.first_fit(self.fitting_code)
            if self.plans.may_judge:
                from .judge_plans import judge_plans

                fallback, code = judge_plans(self, fallback.chosen) or (fallback, code)
            return Executable(fallback.chosen.plan, fallback.chosen.rung, code)
        try:
            code = self.author_code(own)
            code.refuse_unless_fits(self.plans.allowed)
            return Executable(own, stated_rung(own), code)
        except SpillError as error:  # an author's plan may spill
            return Executable(own, stated_rung(own), error.code)
        except OutOfResources as error:
            raise author_plan_error(self.request.kernel.name, error) from error

    def fitting_code(self, plan: Plan) -> Code:
        """The code of a plan. Raises `OutOfResources` where there is none, or it does not fit."""
        code = self.code_or_shortage(plan)
        code.refuse_unless_fits(self.plans.allowed)
        return code

    def code_or_shortage(self, plan: Plan) -> Code:
        """The code of a plan, whether it fits or not. Raises `OutOfResources` where a compiler gives none; a refusal is
        logged, once for each kernel and slice."""
        try:
            with shortages(lasting=self.request.is_deterministic):
                return self.code(plan)
        except RefusedCodeError as error:
            kernel, slice = self.request.kernel.name, self.request.target.slice
            self.session.log_once.warning(
                _log, ("refused", kernel, slice),
                "%s on %s: a compiler refuses the code of a plan, so another is tried. This is a mistake of vkernels "
                "or of the compiler: please report it. The plan %s\nThe plan: %s",
                kernel, slice, error.shortage.reason, frozen(plan).decode(),
            )  # fmt: skip
            raise

    def author_code(self, plan: Plan) -> Code:
        """The code of the author's plan. Raises `RefusedCodeError` where a compiler refuses it."""
        with refusals():
            return self.code(plan)

    def code(self, plan: Plan) -> Code:
        """The code of a plan, whether it fits or not. Raises `PlanError` where the kernel cannot have the plan."""
        request = self.request
        built = self.variants.ir(request.kernel, request.arguments.signature, request.same)
        plan = self._possible(plan, built)

        def compiled(facts: Facts) -> Code:
            compile = partial(self._compile, built, plan, facts)
            return self.variants.code(self._code_key(plan, facts), compile, request.keep_stages)

        return self._specialised(plan, compiled)

    def known_code(self, plan: Plan) -> Code | None:
        """The code of a plan, if it is compiled and fits."""
        request = self.request
        plan = self._possible(plan, self.variants.ir(request.kernel, request.arguments.signature, request.same))
        try:
            code = self._specialised(plan, lambda facts: self.variants.known_code(self._code_key(plan, facts)))
            if code is not None:
                code.refuse_unless_fits(self.plans.allowed)
        except (PlanError, OutOfResources):
            return None
        return code

    def _code_key(self, plan: Plan, facts: Facts) -> Hashable:
        request = self.request
        made_for = request.target.architecture, request.is_deterministic
        return request.arguments.signature, request.same, frozen((plan, facts)), made_for

    def lower(self, plan: Plan) -> Lowering:
        """A plan's launches as Triton IR, for a GPU. Raises `PlanError` where the kernel cannot have the plan."""
        built = self.variants.ir(self.request.kernel, self.request.arguments.signature, self.request.same)
        plan = self._possible(plan, built)
        return self._specialised(plan, lambda facts: self._lowering(built, plan, facts))

    def _lowering(self, built: KernelIR, plan: Plan, facts: Facts) -> Lowering:
        from .compile_gpu import lower_for

        keep, limits = self.request.keep_stages, self.request.target.limits
        is_amd = isinstance(limits.sizes, AmdSizes)
        return lower_for(built.module, plan, facts, keep, TensorFormats.of(limits), limits.warp, is_amd)

    def assembly(self, plan: Plan) -> str:
        """The assembly of a plan for the target's processor, a CPU that is not this machine's."""
        from .compile_cpu import assembly_for_processor

        built = self.variants.ir(self.request.kernel, self.request.arguments.signature, self.request.same)
        plan = self._possible(plan, built)
        limits = self.request.target.limits
        return self._specialised(plan, lambda facts: assembly_for_processor(built.module, plan, facts, limits))

    def object_code(self, plan: Plan, instructions: InstructionSet) -> CpuObject:
        """The code of a plan as an object file, for CPUs with these instructions, which the target's limits are of."""
        from .compile_cpu import object_for_instructions

        built = self.variants.ir(self.request.kernel, self.request.arguments.signature, self.request.same)
        plan, limits = self._possible(plan, built), self.request.target.limits
        return self._specialised(
            plan, lambda facts: object_for_instructions(built.module, plan, facts, limits, instructions)
        )

    def _possible(self, plan: Plan, built: KernelIR) -> Plan:
        """A plan that was chosen for tensors that share no memory, for a call in which some are the same.

        What atomics update may be read too then, and has no private copies; what is read and written is moved by no
        descriptor. Nothing is on a device without a unit for that, nor have its warps roles. Raises `PlanError` where
        they should, but are too many.
        """
        if plan.descriptors:
            plan = replace(plan, descriptors=self._described(plan, built))
        limits = self.request.target.limits
        if reason := why_not_on(limits, plan):
            raise PlanError(f"the plan cannot be had here: {reason}")
        if plan.warp_specialized and not limits.tensor_copies:
            plan = replace(plan, warp_specialized=())
        if not self.request.same or not plan.private_copies:
            return plan
        from vkernels.ir.analysis.private_copies import private_tensors

        return plan if private_tensors(built.kernel, distinct=True) else replace(plan, private_copies=0)

    def _described(self, plan: Plan, built: KernelIR) -> tuple[str, ...]:
        from vkernels.ir.analysis.descriptors import why_not_described

        if not self.request.target.limits.tensor_copies:
            return ()
        if not self.request.same:
            return plan.descriptors
        return tuple(name for name in plan.descriptors if why_not_described(built.kernel, name) is None)

    def _specialised(self, plan: Plan, make: Callable[[Facts], T]) -> T:
        """What `make` makes of the facts that calls like the request may be compiled with."""
        arguments, target = self.request.arguments, self.request.target
        return specialised(
            make, self.ir.kernel, plan, arguments.sizes, arguments.tensors, target.on_gpu, self.size_class
        )

    def _compile(self, built: KernelIR, plan: Plan, facts: Facts) -> Code:
        with working("compile", self.request.kernel):
            return self._timed_compile(built, plan, facts)

    def _timed_compile(self, built: KernelIR, plan: Plan, facts: Facts) -> Code:
        start = time.perf_counter()
        target, keep = self.request.target, self.request.keep_stages
        if target.on_gpu:
            from .compile_gpu import with_binaries

            lowering = self._lowering(built, plan, facts)
            binaries = self.session.binaries.compile(lowering.jobs(target.architecture))
            code: Code = with_binaries(lowering, target.architecture, binaries, keep)
        else:
            from .compile_cpu import compile_kernel

            width = cpu_limits().register_bytes if self.request.is_deterministic else None  # else as calibrated
            code = compile_kernel(built.module, plan, facts, keep, ArtifactCache(self.session.disk), width)
        self.session.counters.count_compile(self.request.kernel.name, time.perf_counter() - start)
        return code
