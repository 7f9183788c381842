"""Texts of explanations: what each section means, and sentences about the findings."""

from __future__ import annotations

from collections.abc import Mapping

from vkernels.inspect.explain.explain import Explanation
from vkernels.inspect.explain.explanation import ExplainFindings
from vkernels.ir.planning.decisions.decisions import DECISIONS

from ..formatting import format_plan, format_seconds, plural, printable

INTRODUCTIONS: Mapping[str, str] = {
    "source": (
        "The kernel as its author wrote it. A kernel runs as many programs; a program is one block of threads (on a "
        "CPU: one thread) that works on its own part of the tensors. An axis is a dimension of the work: a vk.tile "
        "axis is split over programs, a vk.whole axis belongs to one program however long it is, a vk.range axis is a "
        "loop."
    ),
    "phases": (
        "The compiler cuts a kernel into phases. Within a phase the work can run chunk by chunk; a phase ends where "
        "all of an axis must be known first, for example for a sum over it. The table shows what each phase needs "
        "under the plan, and the limits of the device or slice."
    ),
    "homes": (
        "A value that is computed in one phase and used in another must be kept in between. Its home says where: "
        "registers (fastest, fewest), shared (on-chip memory of the program; on a CPU its share of the core's cache), "
        "recompute (not kept, computed again), or memory (swap space in device memory, which holds anything). "
        "A ▸ marks what was chosen."
    ),
    "plan": "The plan is every decision about how this kernel runs here. The kernel's source contains none of them.",
    "tried": (
        "Plans are compared by modelled time: the time of the execution units, each level of memory and the launches. "
        "The rung is how far a plan had to fall back: registers, shared, recompute, memory, launches, bottom."
    ),
    "costs": (
        "Each part of the modelled time, with the phase and the line of the kernel that take most of it. The share of "
        "a line is the mean of what its work takes alone and what the kernel saves without it."
    ),
    "held": (
        "Where a phase holds the most: the lines that compute what waits in registers there. Addresses and what the "
        "compiler keeps for itself come on top."
    ),
    "what-if": (
        "Modelled times under other limits: of this plan, and of the plan that the planner would choose there. Nothing "
        "is compiled for these."
    ),
    "binary": (
        "The compiled code decides whether a plan fits. Occupancy is the number of programs that a multiprocessor "
        "holds at once; it is limited by registers, threads and shared memory, and it hides latency. A spill is a "
        "register that did not fit and went to memory."
    ),
    "native": "For the CPU the kernel becomes machine code of this machine. The counts are of its assembly text.",
    "stages": "Every stage of the compiler can be printed as text:",
}
"""What a reader needs to know first, by section."""

ORIGINS: Mapping[str, str] = {
    "author": "The kernel's author wrote this plan by hand; it depends on sizes, dtypes and limits.",
    "tuned": "This plan was tuned for these limits: it is the best plan in the tuning database that fits here.",
    "chosen": "This plan was chosen by the planner: of the plans that fit, it has the least modelled time.",
    "plain": "This is the default plan, which every kernel has; it is seldom the fastest.",
}

JUDGED = (
    "The planner chose {} plans of the least modelled time. They were compiled, and this is the one with the lowest "
    "static bound, by the instructions of its loops."
)

DETERMINISTIC = (
    "Calls are deterministic: this plan follows from kernel, sizes, strides and dtypes alone (on a CPU, from its "
    "instructions), not from rates, tuned plans, threads or earlier calls."
)

FIELDS: Mapping[str, str] = {each.field: each.title or each.field.replace("_", " ") for each in DECISIONS}


def origin_text(findings: ExplainFindings) -> str:
    """Return a sentence about who made the plan."""
    if findings.judged and findings.origin in ("chosen", "plain"):
        return JUDGED.format(findings.judged)
    return ORIGINS.get(findings.origin, findings.origin)


def tuned_text(constants: Mapping[str, object]) -> str:
    """Return a sentence about the constants that tuning chose; empty without any."""
    named = ", ".join(f"{name} = {value!r}" for name, value in constants.items())
    return f"Constants tuned with it: {printable(named)}." if constants else ""


def title_of(found: Explanation) -> str:
    """Return kernel, dtype, sizes and target as one line."""
    sizes = [f"{name}={value}" for name, value in found.case.shape.items()]
    return printable(" ".join([found.case.source.shown, found.case.dtype, *sizes, "on", found.target.key]))


def target_text(found: Explanation) -> str:
    """Return a line about the device, with its unverified figures."""
    target = found.target
    cores = "cores" if found.is_cpu else "multiprocessors"
    sure = f"; not verified: {', '.join(target.unverified)}" if target.unverified else ""
    return printable(f"{target.name}: {target.architecture}, {target.multiprocessors} {cores}{sure}")


def verdict_text(found: Explanation) -> str:
    """Return whether the kernel fits, how many programs run, and the modelled time."""
    if found.fits is False:
        said = [f"It does not fit: {found.reason}."]
    elif found.fits is None:
        said = [f"Unknown whether it fits: {found.reason}."]
    else:
        said = ["It runs there." if found.is_cpu else "It fits."]
    totals, modelled = found.findings.totals, found.findings.modelled
    if totals is not None:
        launches = len(totals.programs)
        threads = "one thread" if found.is_cpu else f"{totals.threads} threads"
        often = f" in {launches} launches" if launches > 1 else ""
        said.append(f"It runs {plural(sum(totals.programs), 'program')} of {threads}{often}.")
    if modelled is not None:
        said.append(f"Modelled time: {format_seconds(modelled.seconds)}, bottleneck {modelled.bottleneck}.")
    return printable(" ".join(said))


def comparison_text(found: Explanation) -> str:
    """Compare the plan with the one that the planner would choose."""
    proposal, modelled = found.findings.proposal, found.findings.modelled
    if proposal is None:
        return ""
    rung = f"The plan stands on rung {found.findings.rung}."
    if proposal.is_taken:
        return rung
    said = f"{rung} The planner itself would choose {format_plan(proposal.plan)}: "
    said += f"rung {proposal.rung}, modelled time {format_seconds(proposal.modelled.seconds)}"
    if modelled is not None:
        said += f" against {format_seconds(modelled.seconds)} for the plan above"
    return printable(f"{said}. These times are modelled, not measured.")
