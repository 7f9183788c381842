"""A `@vk.kernel` on its way to devices that are not here: planned for their limits, lowered to TTIR."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from vkernels.compiler.arguments import CPU, check_native, example_arguments
from vkernels.compiler.compilation import Compilation
from vkernels.compiler.compile_cpu import CompiledCpu
from vkernels.compiler.compile_gpu import Lowering
from vkernels.compiler.default_session import default_session
from vkernels.compiler.plan_fallback import PlanFallback, shortages
from vkernels.compiler.plans import Plans
from vkernels.compiler.protocols import Constant, KernelLike, Signature
from vkernels.compiler.request import CompileRequest, CompileTarget
from vkernels.ir.errors import Error, PlanError
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan
from vkernels.ir.plan_json import frozen
from vkernels.ir.planning.choose_plan import Chosen
from vkernels.ir.planning.resources import OutOfResources, Resource, Shortage
from vkernels.runtime.bound_executable import bind_cpu

from .plan_summary import AUTHOR, CHOSEN, PLAIN, PlanSummary, describe_plan

_ANY_TARGET = CompileTarget(Limits(1, 1, 1, 1, 1), CPU, "")
"""What reading the kernel's IR takes, before a target is known."""


@dataclass(frozen=True)
class LoweredPlan:
    """Code to be compiled, of one plan.

    `launches`: of each its `name`, `text` of its TTIR, `options`, the fields of `GpuOptions`; and for the sizes that it
    was lowered for: `programs`, `swap_bytes` of each that is resident, `persistent` if they go on to others, and the
    `resident` ones that the plan asks for. None on a CPU.
    `own_bytes`: of memory that a call takes beside its tensors and swap space.
    """

    launches: tuple[dict[str, Any], ...]
    own_bytes: int


@dataclass(frozen=True)
class Prepared:
    """What runs within some limits: the number of its `LoweredPlan`, and the plan."""

    number: int
    planned: PlanSummary


class KernelPreparer:
    """Prepares one kernel, for certain arguments, for one target after another. `lowered`: for each plan so far.

    `fixed`: the plan that every target gets. `strides`: of the tensors that do not lie row after row.
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
    ):
        """Raises the author's mistakes in the kernel's text, and `ArgumentError` for a size that is missing."""
        self.kernel, self.sizes, self.dtypes, self.fixed = kernel, sizes, dtypes, fixed
        signature = Signature(tuple(dtypes.items()), tuple(scalars.items()), tuple(constants.items()))
        self.arguments = example_arguments(kernel, signature, sizes, strides)
        self._compilation = default_session().compile(CompileRequest(kernel, self.arguments, _ANY_TARGET))
        self.module: ModuleOp = self._compilation.ir.module
        self.tensors = self.arguments.tensors
        self.lowered: list[LoweredPlan] = []
        self._numbers: dict[Hashable, int | Error] = {}

    def prepare(self, limits: Limits, tried: Sequence[str] = ()) -> Prepared:
        """What runs within these limits. `tried`: what the code of each plan so far took too much of (`Resource`),
        where plans are chosen: the next plan down comes then.

        Raises what the kernel's plan cannot do, `ArgumentError` for a dtype that the target has no code for, and
        `PlanError` where there is no plan left.
        """
        check_native(self.kernel, self.dtypes, limits)
        plans = self._within(limits).plans
        own = self.fixed or plans.author_plan()
        if own is None:
            return self._down(plans, tried)
        if tried:
            raise PlanError(f"{self.kernel.name} has a plan of its author's: there is no other")
        return self._of(own, AUTHOR, plans.allowed)

    @property
    def tensor_bytes(self) -> int:
        """Of all tensors together."""
        return sum(view.size * view.itemsize for view in self.tensors.values())

    def _down(self, plans: Plans, tried: Sequence[str]) -> Prepared:
        """The plan that a call would come to, if the code of those before took too much of this."""
        lacks = iter(tried)

        def attempt(plan: Plan) -> None:
            lack = next(lacks, None)
            if lack is not None:
                raise OutOfResources(Shortage(Resource(lack), 0, 0, f"takes too much: {lack}"))
            with shortages():
                self._lowered(plan, plans.allowed)

        fallback: PlanFallback[None] = PlanFallback(self.kernel.name, plans.ranked, attempt)
        fallback.compile_first_fit()
        chosen = fallback.chosen
        assert isinstance(chosen, Chosen), "no cached plan was given"
        origin = CHOSEN if chosen.times.parts else PLAIN
        return self._of(chosen.plan, origin, plans.allowed, chosen, tuple(s.lack.value for _, s in fallback.tried))

    def _of(
        self,
        plan: Plan,
        origin: str,
        limits: Limits,
        chosen: Chosen | None = None,
        tried: tuple[str, ...] = (),
    ) -> Prepared:
        number = self._lowered(plan, limits)
        return Prepared(number, describe_plan(self.module, plan, origin, self.sizes, limits, chosen, tried))

    def _lowered(self, plan: Plan, limits: Limits) -> int:
        """The number of what a plan was lowered to. Raises what the kernel's plan cannot do."""
        cores = 0 if limits.warp > 1 else limits.multiprocessors
        key = (frozen(plan), cores)
        if key not in self._numbers:
            self._numbers[key] = self._lower(plan, limits)
        number = self._numbers[key]
        if isinstance(number, Error):
            raise number
        return number

    def _lower(self, plan: Plan, limits: Limits) -> int | Error:
        try:
            if limits.warp > 1:
                lowered = _lowered_plan(self._within(limits).lower(plan), plan, self.sizes)
            else:
                lowered = LoweredPlan((), self._native_bytes(plan, limits))
        except Error as error:
            return error
        self.lowered.append(lowered)
        return len(self.lowered) - 1

    def _within(self, limits: Limits) -> Compilation:
        """The compilation for a target; its architecture does not matter before a GPU's binaries."""
        return self._compilation.on(CompileTarget(limits, CPU if limits.warp == 1 else "gpu", ""))

    def _native_bytes(self, plan: Plan, limits: Limits) -> int:
        """Bytes of memory that a call of native code for this machine takes."""
        compiled = self._within(limits).code(plan)
        assert isinstance(compiled, CompiledCpu), "compiled for a CPU"
        call = bind_cpu(self.kernel, self.arguments, compiled, plan, "")
        return sum(call.buffer_bytes) + limits.multiprocessors * call.workspace


def _lowered_plan(lowering: Lowering, plan: Plan, sizes: Mapping[str, int]) -> LoweredPlan:
    """A plan's launches on a GPU."""
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
