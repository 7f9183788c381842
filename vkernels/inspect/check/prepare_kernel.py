"""Prepare a `@vk.kernel` for absent devices: plan it for their limits and lower it to Triton IR."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from xdsl.dialects.builtin import ModuleOp

from vkernels.compiler.arguments import CPU, example_arguments
from vkernels.compiler.compile_cpu import CompiledCpu
from vkernels.compiler.compile_gpu import Lowering
from vkernels.compiler.default_session import default_session
from vkernels.compiler.judge_plans import unseen_times
from vkernels.compiler.plan_fallback import PlanFallback, shortages
from vkernels.compiler.plans import Plans
from vkernels.compiler.plans_to_judge import neighbours, plans_to_judge
from vkernels.compiler.protocols import Constant, KernelLike, Signature
from vkernels.compiler.request import CompileRequest, CompileTarget
from vkernels.compiler.specialise import kernel_in
from vkernels.ir.dialect import KernelOp
from vkernels.ir.dot_units import DOT_UNITS
from vkernels.ir.errors import Error, IRError, PlanError
from vkernels.ir.limits import Limits
from vkernels.ir.occupancy import AmdSizes
from vkernels.ir.plan import Plan
from vkernels.ir.plan_json import frozen
from vkernels.ir.planning.choose_plan import Chosen
from vkernels.ir.planning.resources import OutOfResources, Resource, Shortage
from vkernels.ir.tensor_formats import NO_FORMATS, TensorFormats, has_few_bits
from vkernels.ir.unseen_time import UnseenTime
from vkernels.runtime.bound_executable import bind_cpu

from .cells import AUTHOR, CHOSEN, PLAIN, PlanSummary, describe_plan, units_under

T = TypeVar("T")

_ANY_TARGET = CompileTarget(Limits(1, 1, 1, 1, 1), CPU, "")
"""What reading the kernel's IR takes, before a target is known."""


@dataclass(frozen=True)
class LoweredPlan:
    """A lowered plan.

    `launches`: for each its `name`, the `text` of its Triton IR, `options` (the fields of `GpuOptions`), number of
    `programs`, `swap_bytes` of a resident program, whether it is `persistent`, and the number of `resident` programs
    that the plan requests; none on a CPU. `own_bytes`: memory of a call besides its tensors and swap space.
    """

    launches: tuple[dict[str, Any], ...]
    own_bytes: int


@dataclass(frozen=True)
class Prepared:
    """The number of a `LoweredPlan`, and its plan."""

    number: int
    planned: PlanSummary


@dataclass(frozen=True)
class ToJudge:
    """A plan to judge by its binaries. `unseen`: what a call takes by what no binary shows."""

    prepared: Prepared
    unseen: UnseenTime


class KernelPreparer:
    """Prepares one kernel, with fixed arguments, for one target after another. `lowered`: the plans so far.

    `fixed`: a plan for all targets. `strides`: of tensors that are not row-major. `deterministic`: calls are set to be.
    """

    def __init__(
        self,
        kernel: KernelLike,
        sizes: Mapping[str, int],
        dtypes: Mapping[str, str],
        scalars: Mapping[str, str],
        constants: Mapping[str, Constant],
        fixed: Plan | None = None,
        strides: Mapping[str, Sequence[int]] = {},
        deterministic: bool = False,
    ):
        """Raises the author's mistakes in the kernel's text, and `ArgumentError` for a missing size."""
        self.kernel, self.sizes, self.dtypes, self.fixed = kernel, sizes, dtypes, fixed
        signature = Signature(tuple(dtypes.items()), tuple(scalars.items()), tuple(constants.items()))
        self.arguments = example_arguments(kernel, signature, sizes, strides)
        self._compilation = default_session().compile(
            CompileRequest(kernel, self.arguments, _ANY_TARGET, wants_deterministic=deterministic)
        )
        self.module: ModuleOp = self._compilation.ir.module
        self.tensors = self.arguments.tensors
        self.lowered: list[LoweredPlan] = []
        self._numbers: dict[Hashable, int | Error] = {}

    def prepare(self, limits: Limits, tried: Sequence[str] = ()) -> Prepared:
        """The plan within these limits. `tried`: the shortage (`Resource`) of each plan so far; returns the next one.

        Raises what makes the plan impossible, and `PlanError` if no plan is left.
        """
        plans = self._compilation.on(target_with(limits)).plans
        own = self.fixed or plans.author_plan()
        if own is None:
            return self._down(plans, tried)
        if tried:
            raise PlanError(f"{self.kernel.name} has a plan of its author's: there is no other")
        return self._of(own, AUTHOR, plans.allowed)

    def to_judge(
        self, limits: Limits, count: int, present: Plan | None = None, of_use: Sequence[bool] = ()
    ) -> tuple[ToJudge | Error, ...]:
        """The next plans of which a call takes the best by their binaries, in the order of the model; an error for one
        that has no code. None where calls do not choose so. `present`, `of_use`: as in `plans_to_judge`."""
        plans = self._compilation.on(target_with(limits)).plans
        if self.fixed or plans.author_plan() is not None or plans.is_deterministic:
            return ()
        modelled = None if present is None else plans.modelled(present)
        return self._to_judge(plans, plans_to_judge(plans.ranked(), count, modelled, of_use))

    def near(
        self, limits: Limits, some: Sequence[Plan], judged: Sequence[Plan], spilling: Sequence[Plan]
    ) -> tuple[ToJudge | Error, ...]:
        """The neighbours to judge of some of the plans that were judged. `spilling`: those of `some` whose loops do."""
        plans = self._compilation.on(target_with(limits)).plans
        return self._to_judge(plans, neighbours(plans.ranked(), some, judged, spilling))

    def _to_judge(self, plans: Plans, ranked: Sequence[Chosen]) -> tuple[ToJudge | Error, ...]:
        found: list[ToJudge | Error] = []
        for chosen, unseen in zip(ranked, unseen_times(plans, ranked), strict=True):
            try:
                found.append(ToJudge(self._of(chosen.plan, CHOSEN, plans.allowed, chosen), unseen))
            except Error as error:
                found.append(error)
        return tuple(found)

    @property
    def ir_kernel(self) -> KernelOp:
        """The kernel as written."""
        return kernel_in(self.module)

    @property
    def tensor_bytes(self) -> int:
        """Size of all tensors."""
        return sum(view.size * view.itemsize for view in self.tensors.values())

    def _down(self, plans: Plans, tried: Sequence[str]) -> Prepared:
        seen: list[str] = []
        attempt = after_tried(tried, lambda plan: self._lowered(plan, plans.allowed), seen)
        fallback = PlanFallback(self.kernel.name, plans.ranked, attempt)
        fallback.compile_first_fit()
        chosen = fallback.chosen
        assert isinstance(chosen, Chosen), "no cached plan was given"
        origin = CHOSEN if chosen.times.parts else PLAIN
        return self._of(chosen.plan, origin, plans.allowed, chosen, tuple(seen), fallback.why_bottom)

    def _of(
        self,
        plan: Plan,
        origin: str,
        limits: Limits,
        chosen: Chosen | None = None,
        tried: tuple[str, ...] = (),
        why_bottom: str | None = None,
    ) -> Prepared:
        number = self._lowered(plan, limits)
        summary = describe_plan(
            self.module, plan, origin, self.sizes, limits, chosen, tried, why_bottom, self.arguments.strides
        )
        return Prepared(number, replace(summary, deterministic=self._compilation.request.is_deterministic))

    def _lowered(self, plan: Plan, limits: Limits) -> int:
        cores = 0 if limits.warp > 1 else limits.multiprocessors
        formats = TensorFormats.of(limits) if has_few_bits(self.ir_kernel) else NO_FORMATS
        key = (frozen(plan), cores, limits.processor, formats, limits.warp, isinstance(limits.sizes, AmdSizes))
        if key not in self._numbers:
            self._numbers[key] = self._lower(plan, limits)
        number = self._numbers[key]
        if isinstance(number, Error):
            raise number
        return number

    def _units(self, plan: Plan, limits: Limits) -> tuple[str, ...]:
        return units_under(self.ir_kernel, plan, self.sizes, limits, self.arguments.strides)

    def _lower(self, plan: Plan, limits: Limits) -> int | Error:
        compilation = self._compilation.on(target_with(limits))
        try:
            if compilation.request.target.on_gpu:
                lowered = _on_gpu(compilation.lower(plan), plan, self.sizes)
            else:
                if limits.processor:
                    _read_back(compilation.assembly(plan), self._units(plan, limits))
                compiled = compilation.code(plan)
                assert isinstance(compiled, CompiledCpu), "compiled for a CPU"
                call = bind_cpu(self.kernel, self.arguments, compiled, plan, "")
                lowered = LoweredPlan((), sum(call.buffer_bytes) + limits.multiprocessors * call.workspace)
        except Error as error:
            return error
        self.lowered.append(lowered)
        return len(self.lowered) - 1


def _read_back(assembly: str, units: Sequence[str]) -> None:
    """Raise `IRError` where machine code lacks the instructions of a dot unit that its plan uses."""
    for name in units:
        instructions = DOT_UNITS[name].instructions.values()
        if not any(f"\t{each}\t" in assembly for each in instructions):
            raise IRError(f"the code has no {' or '.join(instructions)}, of the dot unit {name}")


def after_tried(tried: Sequence[str], compile: Callable[[Plan], T], seen: list[str]) -> Callable[[Plan], T]:
    """Wrap `compile` for a plan fallback: its first calls report the shortages of the plans that were `tried` before.

    `seen`: gets the shortages of all plans.
    """
    known = iter(tried)

    def attempt(plan: Plan) -> T:
        lack = next(known, None)
        try:
            if lack is not None:
                raise OutOfResources(Shortage(Resource(lack), 0, 0, f"takes too much: {lack}"))
            with shortages():
                return compile(plan)
        except OutOfResources as error:
            seen.append(error.shortage.lack.value)
            raise

    return attempt


def target_with(limits: Limits, architecture: str = "gpu") -> CompileTarget:
    """A target with these limits. A GPU's architecture does not matter before binaries are compiled."""
    return CompileTarget(limits, CPU if limits.warp == 1 else architecture, "")


def _on_gpu(lowering: Lowering, plan: Plan, sizes: Mapping[str, int]) -> LoweredPlan:
    prepared = lowering.lowered.prepare(sizes)
    launches = tuple(
        {
            "name": launch.name, "text": job.text, "options": asdict(job.options),
            "programs": prepared.programs[number], "persistent": launch.is_persistent,
            "swap_bytes": launch.swap_bytes + prepared.more_swap(number), "resident": plan.resident_programs,
        }
        for number, (launch, job) in enumerate(zip(lowering.lowered.launches, lowering.jobs(""), strict=True))
    )  # fmt: skip
    return LoweredPlan(launches, sum(prepared.buffer_bytes))
