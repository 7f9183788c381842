"""Explain a kernel on a target: analyse it in a worker process, compile its launches in others, judge the binaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import msgspec

from vkernels.compiler.backends.architectures import refuse_unless_compiles
from vkernels.compiler.backends.triton_adapter import GpuOptions
from vkernels.compiler.plan_fallback import BOTTOM
from vkernels.compiler.workers.compile_cached import compile_cached
from vkernels.compiler.workers.jobs import CompiledBinary, CompileJob
from vkernels.ir.budget import Budget, within
from vkernels.ir.errors import FileError, SetupError
from vkernels.ir.limits import Limits
from vkernels.ir.planning.resources import Shortage
from vkernels.targets import Target
from vkernels.targets.deterministic import deterministic_limits
from vkernels.targets.slices import planned_limits
from vkernels.targets.what_if import WhatIf

from ..cases import KernelCase
from ..check.cells import CellLaunch, judge, with_loops
from ..check.check import Checking, CheckTools, shortage_of, use_of
from ..check.judge_cells import judged_plans, number_of_best
from ..check.prepare_cells import CellRequest
from ..worker_client import answer_of
from .explanation import ExplainFindings

BEFORE_PLANS = ("as-written", "after-split-phases")
"""Stages that no plan changes."""


@dataclass(frozen=True)
class Explanation:
    """All that is known of a kernel on a target.

    `launches`: of the binaries, none on a CPU. `stages`: texts by name, including those of the binaries. `unknown`: why
    the resources of the binary are unknown. `rejected`: why the binaries of plans that are modelled to be better are
    not used, the best plan's first. `questions`: about other limits, which `findings.supposed` answers.
    """

    case: KernelCase
    target: Target
    findings: ExplainFindings
    launches: tuple[CellLaunch, ...] = ()
    stages: Mapping[str, str] = field(default_factory=dict, repr=False)
    unknown: str = ""
    rejected: tuple[str, ...] = ()
    questions: tuple[WhatIf, ...] = ()

    @property
    def is_cpu(self) -> bool:
        return self.target.vendor == "cpu"

    @property
    def limits(self) -> Limits:
        """The limits that are planned for: the target's within the author's budget."""
        limits = planned_limits(self.target)
        if self.findings.deterministic:
            limits = deterministic_limits(limits)
        return within(limits, Budget(**self.findings.budget) if self.findings.budget else None)

    @property
    def fits(self) -> bool | None:
        """Whether the kernel runs there; None if unknown."""
        if self.findings.refused:
            return False
        return None if self.unknown else all(launch.fits for launch in self.launches)

    @property
    def reason(self) -> str:
        """Why the kernel does not run there, or why that is unknown; empty if it does."""
        found = next((launch.reason for launch in self.launches if not launch.fits), "")
        return self.findings.refused or self.unknown or found


def explain(
    case: KernelCase, target: Target, tools: CheckTools, only_stage: str = "", questions: Sequence[WhatIf] = ()
) -> Explanation:
    """Explain a kernel on a target. `only_stage`: compile only as far as this stage needs. `questions`: about limits
    that the target does not have.

    Raises mistakes in kernel, plan and arguments, and `SetupError` if worker processes cannot run.
    """
    found = _judged(case, target, tools, only_stage)
    if not questions:
        return found
    plan = found.findings.plan
    answers = _found(found.case, target, tools, only_stage, plan=plan, questions=questions)
    findings = replace(
        found.findings, supposed=answers.supposed, unchanged=answers.unchanged, small_changes=answers.small_changes
    )
    return replace(found, findings=findings, questions=tuple(questions))


def _judged(case: KernelCase, target: Target, tools: CheckTools, only_stage: str) -> Explanation:
    """The kernel by the plan that a call uses."""
    case = case.on(target.vendor != "cpu")
    found = _without_judging(case, target, tools, only_stage)
    if not found.findings.to_judge or found.unknown or found.findings.rung == BOTTOM or only_stage in BEFORE_PLANS:
        return found
    checking = Checking(tools, lambda *step: None)
    want = CellRequest(case, target, present=found.findings.plan)
    ((plans, verdicts),) = judged_plans([want], tools.judge, tools.preparing, checking.verdicts)
    best = number_of_best(plans, verdicts)
    planned = None if best is None else plans[best].planned
    if planned is None or planned.plan == found.findings.plan:
        return replace(found, findings=replace(found.findings, judged=len(plans)))
    findings = replace(_found(case, target, tools, only_stage, plan=planned.plan), judged=len(plans))
    if only_stage in findings.stages:
        return Explanation(case, target, findings, stages=findings.stages)
    return replace(_compiled(case, target, findings, tools)[0], rejected=found.rejected)


def _without_judging(case: KernelCase, target: Target, tools: CheckTools, only_stage: str) -> Explanation:
    """The kernel by the plan that fits of those that are tried in the order of the model."""
    spilling: Explanation | None = None
    tried: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    while True:
        findings = _found(case, target, tools, only_stage, tried)
        if target.vendor == "cpu" or findings.refused or only_stage in findings.stages:
            return Explanation(case, target, findings, stages=findings.stages)
        if findings.rung == BOTTOM and spilling is not None:
            return spilling  # which is faster
        try:
            refuse_unless_compiles(target.architecture, tools.triton)
        except SetupError as error:
            return Explanation(case, target, findings, stages=findings.stages, unknown=str(error))
        found, shortage = _compiled(case, target, findings, tools)
        found = replace(found, rejected=rejected)
        if shortage is None or findings.origin == "author" or findings.rung == BOTTOM:
            return found
        if found.fits and findings.is_kept:
            return found
        spilling = spilling or (found if found.fits else None)
        tried, rejected = (*findings.tried, shortage.lack.value), (*rejected, shortage.reason)


def _found(
    case: KernelCase,
    target: Target,
    tools: CheckTools,
    only_stage: str,
    tried: tuple[str, ...] = (),
    plan: Mapping[str, Any] | None = None,
    questions: Sequence[WhatIf] = (),
) -> ExplainFindings:
    request = {
        **case.as_request(), "kind": "explain", "limits": asdict(planned_limits(target)),
        "only_texts": bool(only_stage), "tried": tried, "architecture": target.architecture, "judge": tools.judge,
        "plan": plan, "supposed": {each.text: asdict(each.limits) for each in questions},
    }  # fmt: skip
    answer = answer_of(tools.preparing.submit(request).result(), case.source.shown)
    try:
        return msgspec.convert(answer, ExplainFindings)
    except msgspec.ValidationError as error:
        raise FileError(f"{case.source.shown}: the process that executes it answered nonsense: {error}") from error


def _compiled(
    case: KernelCase, target: Target, findings: ExplainFindings, tools: CheckTools
) -> tuple[Explanation, Shortage | None]:
    jobs = [
        CompileJob(each.text, target.architecture, GpuOptions(each.warps, each.stages, each.scratch_bytes))
        for each in findings.launches
    ]
    done = sorted(compile_cached(jobs, tools.compiling, tools.cache), key=lambda finished: finished.index)
    uses = [use_of(finished, tools.cache) for finished in done]
    programs = findings.totals.programs if findings.totals is not None else ()
    grids = [(count,) for count in programs] if len(programs) == len(jobs) else [None for _ in jobs]
    launches = [
        with_loops(judge(launch.name, use, target), launch.text, target, grid, case.shape)
        for launch, use, grid in zip(findings.launches, uses, grids, strict=True)
    ]
    binaries = [each.outcome.binary for each in done if isinstance(each.outcome, CompiledBinary)]
    names = [launch.name for launch in findings.launches]
    stages = dict(findings.stages)
    if len(binaries) == len(jobs):
        assembly = "ptx" if target.architecture.startswith("sm_") else "amdgcn"
        stages["ttgir"] = _joined(names, [binary.ttgir for binary in binaries])
        stages[assembly] = _joined(names, [binary.assembly for binary in binaries])
    return Explanation(case, target, findings, tuple(launches), stages), shortage_of(uses, target)


def _joined(names: list[str], texts: list[str]) -> str:
    if len(texts) == 1:
        return texts[0]
    return "\n".join(f"// {name}\n{text}" for name, text in zip(names, texts, strict=True))
