"""Finds out about one kernel: its phases, needs, plan, homes and stages. Runs where users' files may be executed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from xdsl.dialects.builtin import ModuleOp

from vkernels.compiler.arguments import CPU, example_arguments
from vkernels.compiler.compilation import Compilation
from vkernels.compiler.compile_cpu import CompiledCpu
from vkernels.compiler.compile_gpu import Lowering
from vkernels.compiler.default_session import default_session
from vkernels.compiler.plan_cache import CachedPlan
from vkernels.compiler.plan_fallback import BOTTOM, shortages
from vkernels.compiler.plans import Plans
from vkernels.compiler.protocols import Constant, KernelLike, Signature
from vkernels.compiler.request import CompileRequest, CompileTarget
from vkernels.compiler.specialise import kernel_in
from vkernels.ir.analyses import annotate_needs
from vkernels.ir.analysis.needs import Needs, NeedsDevice, NeedsUse
from vkernels.ir.budget import within
from vkernels.ir.cost_model.plan_batch import ModeledTimes
from vkernels.ir.errors import Error, PlanError, UnsupportedError
from vkernels.ir.limits import Limits
from vkernels.ir.pin import with_pin
from vkernels.ir.plan import Plan
from vkernels.ir.plan_json import plan_to_json
from vkernels.ir.planning.choose_plan import choose_plan, rung_of
from vkernels.ir.planning.default_plan import default_plan
from vkernels.ir.planning.fits import why_not
from vkernels.ir.planning.one_plan import batch_of, model_use, registers_by_phase, registers_of
from vkernels.ir.planning.resources import OutOfResources, Resource, Shortage
from vkernels.ir.planning.space import PlanSearchSpace, read_space
from vkernels.ir.text import print_module

from ..homes_under import homes_under
from .decisions import decisions_of
from .explanation import ExplainedRejection, ExplainFindings, LaunchText, Native, Phase, Proposal, Totals
from .homes import Judge, Situation, kept_values
from .modelled import as_modelled
from .native import count_native
from .phases import in_phases, phases_of, source_of, with_needs


@dataclass(frozen=True)
class Question:
    """A kernel, what it is called with, and the limits to plan for. `only_texts`: nothing but its stages is wanted.
    `left_open`: constants that a call does not give, so that tuned values are taken where there are any. `tried`: what
    the binaries of each plan so far took too much of (`Resource`): the next that a call would try is wanted.
    `strides`: of the tensors that do not lie row after row."""

    kernel: KernelLike
    sizes: Mapping[str, int]
    dtypes: Mapping[str, str]
    scalars: Mapping[str, str]
    constants: Mapping[str, Constant]
    limits: Limits
    only_texts: bool = False
    left_open: tuple[str, ...] = ()
    tried: tuple[str, ...] = ()
    strides: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @property
    def request(self) -> CompileRequest:
        """What a call asks the compiler for, each tensor in memory of its own, with the text of every stage."""
        signature = Signature(tuple(self.dtypes.items()), tuple(self.scalars.items()), tuple(self.constants.items()))
        arguments = example_arguments(self.kernel, signature, self.sizes, self.strides)
        target = CompileTarget(self.limits, CPU if self.limits.warp == 1 else "gpu", "")
        return CompileRequest(self.kernel, arguments, target, left_open=self.left_open, keep_stages=True)


@dataclass(frozen=True)
class _Code:
    stages: Mapping[str, str]
    launches: tuple[LaunchText, ...] = ()
    native: Native | None = None
    refused: str = ""


def find(asked: Question) -> ExplainFindings:
    """All that can be told without a compiler of GPU code.

    Raises the author's mistakes, and `PlanError` where the plan leaves an axis out.
    """
    compilation = default_session().compile(asked.request)
    constants = compilation.request.arguments.constants
    asked = replace(asked, constants=constants, limits=within(asked.limits, asked.kernel.budget))
    module = compilation.ir.module
    phases = in_phases(module)
    landed = _land(compilation, asked.tried, module, phases)
    plan, code = landed.plan, landed.code
    begun = ExplainFindings(
        kernel=asked.kernel.name,
        source=source_of(kernel_in(phases)),
        plan=plan_to_json(plan),
        origin=landed.origin,
        rung=BOTTOM if landed.is_bottom else "",
        is_kept=landed.is_kept,
        tried=landed.tried,
        tuned=compilation.tuned,
        budget=_budget(asked.kernel),
        decisions=decisions_of(plan, asked.kernel.pin, {}, asked.limits),
        phases=phases_of(kernel_in(phases)),
        refused=code.refused,
        stages=code.stages,
        launches=code.launches,
        native=code.native,
    )
    if asked.only_texts:
        return begun
    try:
        return _with_needs(begun, asked, module, plan)
    except (PlanError, UnsupportedError) as error:  # a plan without one of the axes, extents that nobody can tell
        return replace(begun, without_needs=str(error))


def _with_needs(found: ExplainFindings, asked: Question, module: ModuleOp, plan: Plan) -> ExplainFindings:
    needs = annotate_needs(kernel_in(module))
    space = read_space(kernel_in(module), asked.sizes, asked.limits, needs, _strides(asked))
    plan = replace(plan, warps=1) if asked.limits.warp == 1 else plan  # a CPU's programs are one thread
    use = needs.evaluate(plan, asked.sizes, NeedsDevice.of(asked.limits))
    judge = _judge(space)
    misfit, times = judge(plan, use)
    homes = homes_under(kernel_in(module), plan, asked.sizes)
    return replace(
        found,
        extents=dict(space.extents),
        phases=_phases(found.phases, space, plan, use),
        decisions=decisions_of(plan, asked.kernel.pin, space.extents, asked.limits),
        kept=kept_values(Situation(needs, plan, asked.sizes, asked.limits, homes, judge)),
        totals=_totals(use),
        misfit=misfit,
        rung=found.rung or rung_of(plan, space),
        modelled=as_modelled(times) if times is not None else None,
        proposal=_proposal(asked, module, needs, plan),
    )


def _strides(asked: Question) -> dict[str, tuple[int, ...]]:
    return asked.request.arguments.strides


@dataclass(frozen=True)
class _Landed:
    """The plan that a call comes to, who made it, and its code. `is_kept`: it was tuned, or found to fit before, so
    that it stays where it merely spills. `tried`: what each plan so far took too much of. `is_bottom`: it is the bottom
    rung's."""

    plan: Plan
    origin: str
    code: _Code
    is_kept: bool = False
    tried: tuple[str, ...] = ()
    is_bottom: bool = False


def _land(compilation: Compilation, tried: Sequence[str], module: ModuleOp, phases: ModuleOp) -> _Landed:
    """Go down the plans as a call does, to the first that has code."""
    early = {"as-written": print_module(module), "after-split-phases": print_module(phases)}
    plans = compilation.plans
    own = plans.author_plan()
    if own is not None:
        try:
            return _Landed(own, "author", _code(compilation, own))
        except Error as error:
            return _Landed(own, "author", _Code(early, refused=str(error)))
    lacks, seen = iter(tried), list[str]()

    def attempt(plan: Plan) -> _Code:
        lack = next(lacks, None)
        try:
            if lack is not None:
                raise OutOfResources(Shortage(Resource(lack), 0, 0, f"takes too much: {lack}"))
            with shortages():
                return _code(compilation, plan)
        except OutOfResources as error:
            seen.append(error.shortage.lack.value)
            raise

    fallback = plans.fallback(attempt)
    first = fallback.chosen.plan
    try:
        made = fallback.compile_first_fit()
    except Error as error:
        return _Landed(first, _origin(plans, first), _Code(early, refused=str(error)), tried=tuple(seen))
    chosen = fallback.chosen
    is_kept, is_bottom = isinstance(chosen, CachedPlan), chosen.rung == BOTTOM
    return _Landed(chosen.plan, _origin(plans, chosen.plan), made, is_kept, tuple(seen), is_bottom)


def _origin(plans: Plans, plan: Plan) -> str:
    """Who made a plan that its author did not."""
    if plan == plans.tuned:
        return "tuned"
    plain = default_plan(plans.built, plans.sizes, plans.allowed)
    pin = plans.kernel.pin
    return "plain" if plan == (plain if pin is None else with_pin(plain, pin)) else "chosen"


def _budget(kernel: KernelLike) -> dict[str, int]:
    bounds = asdict(kernel.budget) if kernel.budget is not None else {}
    return {name: bound for name, bound in bounds.items() if bound is not None}


def _phases(phases: Sequence[Phase], space: PlanSearchSpace, plan: Plan, use: NeedsUse) -> tuple[Phase, ...]:
    """Phases with what each needs; of a CPU's registers the planner's own count, made for vectors that are unrolled."""
    found = with_needs(phases, space.needs, use)
    if space.limits.warp > 1:
        return found
    registers = registers_by_phase(space, plan, use)
    return tuple(replace(phase, registers=registers[phase.name]) for phase in found)


def _judge(space: PlanSearchSpace) -> Judge:
    """What judges a plan that takes so much: why it does not fit, and its modelled time."""

    def judged(plan: Plan, use: NeedsUse) -> tuple[str, ModeledTimes | None]:
        try:
            setting = batch_of(space, plan)
        except PlanError:
            return why_not(use, space.limits, use.registers_a_thread) or "", None
        registers = registers_of(setting, use, space.limits)
        return why_not(use, space.limits, registers) or "", model_use(setting, use, space.limits)

    return judged


def _totals(use: NeedsUse) -> Totals:
    return Totals(
        use.threads, float(use.registers_a_thread), float(use.shared_bytes), float(use.scratch_bytes),
        float(use.swap_bytes), float(use.tensor_memory_columns), float(use.global_read_bytes),
        float(use.distinct_read_bytes), float(use.global_write_bytes), float(use.operations),
        float(use.tensor_operations), tuple(int(programs) for programs in use.programs),
    )  # fmt: skip


def _proposal(asked: Question, module: ModuleOp, needs: Needs, plan: Plan) -> Proposal:
    """What the planner chooses within the limits, whoever made the plan that a call gets."""
    chosen = choose_plan(kernel_in(module), asked.sizes, asked.limits, needs, _strides(asked))
    is_taken = replace(chosen.plan, warps=plan.warps) == plan if asked.limits.warp == 1 else chosen.plan == plan
    tried = tuple(
        ExplainedRejection(plan_to_json(each.plan), float(each.seconds), each.reason) for each in chosen.tried
    )
    return Proposal(plan_to_json(chosen.plan), is_taken, chosen.rung, as_modelled(chosen.times), tried)


# Code


def _code(compilation: Compilation, plan: Plan) -> _Code:
    """A plan's code. Raises what compiling it raises."""
    if compilation.request.target.on_gpu:
        return _on_gpu(compilation.lower(plan), compilation.request.arguments.sizes)
    compiled = compilation.code(plan)
    assert isinstance(compiled, CompiledCpu), "compiled for a CPU"
    return _Code(compiled.stages, native=count_native(compiled.stages["assembly"], compiled.native.workspace))


def _on_gpu(lowering: Lowering, sizes: Mapping[str, int]) -> _Code:
    prepared = lowering.lowered.prepare(sizes)
    launches = []
    for number, (launch, job) in enumerate(zip(lowering.lowered.launches, lowering.jobs(""), strict=True)):
        swap = launch.swap_bytes + prepared.more_swap(number)
        options = job.options
        launches.append(LaunchText(launch.name, job.text, options.warps, options.stages, options.scratch_bytes, swap))
    return _Code(lowering.stages, tuple(launches))
