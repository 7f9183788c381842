"""Analyse one kernel: its phases, needs, plan, homes and stages. Runs in a process that may execute users' files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from xdsl.dialects.builtin import ModuleOp

from vkernels.compiler.arguments import example_arguments
from vkernels.compiler.compilation import Compilation
from vkernels.compiler.compile_cpu import CompiledCpu
from vkernels.compiler.default_session import default_session
from vkernels.compiler.plan_cache import CachedPlan
from vkernels.compiler.plan_fallback import BOTTOM
from vkernels.compiler.plans import Plans
from vkernels.compiler.protocols import Constant, KernelLike, Signature
from vkernels.compiler.request import CompileRequest
from vkernels.compiler.specialise import kernel_in
from vkernels.ir.analyses import annotate_needs
from vkernels.ir.analysis.needs import NeedsDevice
from vkernels.ir.budget import within
from vkernels.ir.errors import Error, PlanError, UnsupportedError
from vkernels.ir.facts import Facts
from vkernels.ir.limits import Limits
from vkernels.ir.pin import with_pin
from vkernels.ir.plan import Plan
from vkernels.ir.plan_json import plan_to_json
from vkernels.ir.planning.choose_plan import choose_plan, rung_of
from vkernels.ir.planning.default_plan import default_plan
from vkernels.ir.planning.one_plan import registers_by_phase
from vkernels.ir.planning.space import read_space
from vkernels.ir.text import print_module
from vkernels.targets.deterministic import deterministic_limits

from ..check.cells import homes_under
from ..check.prepare_kernel import after_tried, target_with
from .decisions import Situation, decisions_of, kept_values
from .explanation import (
    ExplainedRejection,
    ExplainFindings,
    LaunchText,
    Native,
    Proposal,
    Totals,
    as_modelled,
    count_native,
)
from .phases import in_phases, on_units, phases_of, source_of, with_needs
from .supposed import Planned, costs_of, held_by_lines, judge_in


@dataclass(frozen=True)
class Question:
    """A kernel, its arguments, and the limits to plan for.

    `only_texts`: find only the stages. `left_open`: constants that a call does not pass, for which tuned values are
    used if there are any. `tried`: the shortage (`Resource`) of each plan so far; the next one is explained.
    `strides`: of tensors that are not row-major. `deterministic`: calls are set to be. `architecture`: of a GPU;
    `judge`: how many plans for it calls compile to choose one by its binaries. `plan`: explained instead of a call's.
    `supposed`: other limits to ask about, by question; `plan` is not compiled again for these.
    """

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
    deterministic: bool = False
    architecture: str = "gpu"
    judge: int = 1
    plan: Plan | None = None
    supposed: Mapping[str, Limits] = field(default_factory=dict)

    @property
    def request(self) -> CompileRequest:
        """A call's compile request, with separate memory for each tensor, which keeps the text of every stage."""
        signature = Signature(tuple(self.dtypes.items()), tuple(self.scalars.items()), tuple(self.constants.items()))
        arguments = example_arguments(self.kernel, signature, self.sizes, self.strides)
        target = target_with(self.limits, self.architecture)
        return CompileRequest(
            self.kernel, arguments, target, left_open=self.left_open, keep_stages=True,
            wants_deterministic=self.deterministic, judge=self.judge,
        )  # fmt: skip


@dataclass(frozen=True)
class _Outcome:
    """The plan that a call uses, and its code.

    `is_kept`: it was tuned, or fitted before, so that it stays even if it spills. `tried`: the shortages of the plans
    before it. `is_bottom`: it is the bottom rung.
    """

    plan: Plan
    origin: str
    stages: Mapping[str, str]
    launches: tuple[LaunchText, ...] = ()
    native: Native | None = None
    refused: str = ""
    is_kept: bool = False
    tried: tuple[str, ...] = ()
    is_bottom: bool = False


def find(asked: Question) -> ExplainFindings:
    """All findings that need no compiler of GPU code.

    Raises the author's mistakes, and `PlanError` if the plan leaves an axis out.
    """
    compilation = default_session().compile(asked.request)
    request = compilation.request
    asked = replace(asked, constants=request.arguments.constants, limits=within(request.limits, asked.kernel.budget))
    module = compilation.ir.module
    phases = in_phases(module)
    early = {"as-written": print_module(module), "after-split-phases": print_module(phases)}
    used = _outcome(asked, compilation, early)
    plans = compilation.plans
    is_judged = used.origin != "author" and plans.judged is not None and plans.judged.plan == used.plan
    bounds = asdict(asked.kernel.budget) if asked.kernel.budget is not None else {}
    begun = ExplainFindings(
        kernel=asked.kernel.name,
        source=source_of(kernel_in(phases)),
        plan=plan_to_json(used.plan),
        origin=used.origin,
        deterministic=request.is_deterministic,
        rung=BOTTOM if used.is_bottom else "",
        is_kept=used.is_kept,
        tried=used.tried,
        tuned=compilation.tuned,
        budget={name: bound for name, bound in bounds.items() if bound is not None},
        decisions=decisions_of(used.plan, asked.kernel.pin, {}, asked.limits),
        phases=phases_of(kernel_in(phases)),
        refused=used.refused,
        stages=used.stages,
        launches=used.launches,
        native=used.native,
        to_judge=used.origin != "author" and plans.may_judge,
        judged=asked.judge if is_judged else 0,
    )
    if asked.only_texts:
        return begun
    try:
        return _with_needs(begun, asked, module, used.plan)
    except (PlanError, UnsupportedError) as error:  # a plan without one of the axes, unknown extents
        return replace(begun, without_needs=str(error))


def _with_needs(found: ExplainFindings, asked: Question, module: ModuleOp, plan: Plan) -> ExplainFindings:
    kernel, strides = kernel_in(module), asked.request.arguments.strides
    needs = annotate_needs(kernel)
    space = read_space(kernel, asked.sizes, asked.limits, needs, strides)
    on_cpu = asked.limits.warp == 1
    plan = replace(plan, warps=1) if on_cpu else plan  # a CPU's programs are one thread
    use = needs.evaluate(plan, asked.sizes, NeedsDevice.of(asked.limits))
    judge = judge_in(space)
    misfit, times = judge(plan, use)
    phases = with_needs(found.phases, needs, use)
    if on_cpu:  # the planner counts vector registers of unrolled loops
        registers = registers_by_phase(space, plan, use)
        phases = tuple(replace(phase, registers=registers[phase.name]) for phase in phases)
        known = {name: tuple(strides) for name, strides in space.strides.items()}
        facts = Facts(dict(asked.sizes), strides=known, distinct=True)
        phases = on_units(phases, kernel, plan, facts, asked.limits.dot_units)
    chosen = choose_plan(kernel, asked.sizes, asked.limits, needs, strides)
    supposing = Planned(kernel, needs, asked.sizes, strides, asked.kernel.pin)
    return replace(
        found,
        extents=dict(space.extents),
        phases=phases,
        decisions=decisions_of(plan, asked.kernel.pin, space.extents, asked.limits),
        kept=kept_values(
            Situation(needs, plan, asked.sizes, asked.limits, homes_under(kernel, plan, asked.sizes), judge)
        ),
        totals=Totals(
            use.threads, float(use.registers_a_thread), float(use.shared_bytes), float(use.scratch_bytes),
            float(use.swap_bytes), float(use.tensor_memory_columns), float(use.global_read_bytes),
            float(use.distinct_read_bytes), float(use.global_write_bytes), float(use.operations),
            float(use.tensor_operations), tuple(int(programs) for programs in use.programs),
        ),
        misfit=misfit,
        rung=found.rung or rung_of(plan, space),
        modelled=as_modelled(times) if times is not None else None,
        proposal=Proposal(
            plan_to_json(chosen.plan),
            chosen.plan == plan or (on_cpu and replace(chosen.plan, warps=plan.warps) == plan),
            chosen.rung,
            as_modelled(chosen.times),
            tuple(ExplainedRejection(plan_to_json(e.plan), float(e.seconds), e.reason) for e in chosen.tried),
        ),
        costs=costs_of(space, plan, use),
        held=held_by_lines(kernel, plan, asked.sizes, asked.limits),
        unchanged=supposing.under("", asked.limits, plan) if asked.supposed else None,
        small_changes=supposing.small_changes(asked.limits, plan) if asked.supposed else (),
        supposed=tuple(supposing.under(text, _allowed(asked, limits), plan) for text, limits in asked.supposed.items()),
    )  # fmt: skip


def _allowed(asked: Question, limits: Limits) -> Limits:
    """The limits that a call plans for on a device with others."""
    limits = deterministic_limits(limits) if asked.request.is_deterministic else limits
    return within(limits, asked.kernel.budget)


def _fallen_back(compilation: Compilation, tried: Sequence[str], early: Mapping[str, str]) -> _Outcome:
    """Try the plans as a call does, up to the first that has code. `early`: the stages before any plan."""
    plans = compilation.plans
    own = plans.author_plan()
    if own is not None:
        try:
            return replace(_compiled(compilation, own), origin="author")
        except Error as error:
            return _Outcome(own, "author", early, refused=str(error))
    seen: list[str] = []
    fallback = plans.fallback(after_tried(tried, lambda plan: _compiled(compilation, plan), seen))
    first = fallback.chosen.plan
    try:
        made = fallback.compile_first_fit()
    except Error as error:
        return _Outcome(first, _origin(plans, first), early, refused=str(error), tried=tuple(seen))
    chosen = fallback.chosen
    return replace(
        made, plan=chosen.plan, origin=_origin(plans, chosen.plan), is_kept=isinstance(chosen, CachedPlan),
        tried=tuple(seen), is_bottom=chosen.rung == BOTTOM,
    )  # fmt: skip


def _outcome(asked: Question, compilation: Compilation, early: Mapping[str, str]) -> _Outcome:
    if asked.plan is None:
        return _fallen_back(compilation, asked.tried, early)
    return _Outcome(asked.plan, "", early) if asked.supposed else _given(compilation, asked.plan)


def _given(compilation: Compilation, plan: Plan) -> _Outcome:
    """The code of a plan that is known to have some."""
    return replace(_compiled(compilation, plan), origin=_origin(compilation.plans, plan))


def _origin(plans: Plans, plan: Plan) -> str:
    if plan == plans.tuned:
        return "tuned"
    plain = default_plan(plans.built, plans.sizes, plans.allowed)
    pin = plans.kernel.pin
    return "plain" if plan == (plain if pin is None else with_pin(plain, pin)) else "chosen"


def _compiled(compilation: Compilation, plan: Plan) -> _Outcome:
    request = compilation.request
    if not request.target.on_gpu:
        compiled = compilation.code(plan)
        assert isinstance(compiled, CompiledCpu), "compiled for a CPU"
        native = count_native(compiled.stages["assembly"], compiled.native.workspace)
        return _Outcome(plan, "", compiled.stages, native=native)
    lowering = compilation.lower(plan)
    prepared = lowering.lowered.prepare(request.arguments.sizes)
    launches = []
    for number, (launch, job) in enumerate(zip(lowering.lowered.launches, lowering.jobs(""), strict=True)):
        swap = launch.swap_bytes + prepared.more_swap(number)
        options = job.options
        launches.append(LaunchText(launch.name, job.text, options.warps, options.stages, options.scratch_bytes, swap))
    return _Outcome(plan, "", lowering.stages, tuple(launches))
