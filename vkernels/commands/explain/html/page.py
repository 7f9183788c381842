"""The page: the same sections as the text, with drawings, and every stage to unfold."""

from __future__ import annotations

from vkernels.runtime.checking.cells import Launch
from vkernels.runtime.explaining.explain import Explanation
from vkernels.runtime.explaining.explained import Alternative, Kept
from vkernels.runtime.explaining.stages import stages_of

from ..words import (
    FIELDS,
    INTRODUCTIONS,
    ORIGINS,
    bytes_in_words,
    comparison_in_words,
    count_in_words,
    plan_in_words,
    seconds_in_words,
    target_in_words,
    title_of,
    tuned_in_words,
    verdict_in_words,
)
from .drawings import homes_across_phases, instruction_mix, occupancy, phase_needs, times
from .markup import block, paragraph, table, tag, text
from .style import STYLE

LONGEST = 400_000
"""Characters of one stage that the page holds."""

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""What a browser may load for the page, and run: nothing."""


def page_of(found: Explanation) -> str:
    """The whole page."""
    title = text(title_of(found))
    verdict = "well" if found.fits else "bad"
    sections = (_source, _phases, _homes, _plan, _tried, _binary, _native, _stages)
    body = "".join(section(found) for section in sections)
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head>\n<body><main><h1>{title}</h1>"
        f"{paragraph(target_in_words(found))}{paragraph(verdict_in_words(found), verdict)}\n"
        f"{body}</main></body></html>\n"
    )


def _section(title: str, introduction: str, inside: str) -> str:
    return tag("section", f"{tag('h2', text(title))}{paragraph(introduction, 'about')}{inside}") + "\n"


def _source(found: Explanation) -> str:
    lines = found.findings.source
    if not lines:
        return ""
    numbers = {phase.name: n % 6 for n, phase in enumerate(found.findings.phases)}
    rows = []
    for each in lines:
        names = "".join(f'<span class="phase p{numbers.get(name, 0)}">{text(name)}</span>' for name in each.phases)
        rows.append(
            f'<tr><td>{names}</td><td class="number">{each.number}</td><td class="code">{text(each.text)}</td></tr>'
        )
    return _section("The kernel", INTRODUCTIONS["source"], f'<table class="source">{"".join(rows)}</table>')


def _phases(found: Explanation) -> str:
    phases, findings = found.findings.phases, found.findings
    rows = [
        (
            p.name, ", ".join(p.does), bytes_in_words(p.read_bytes), bytes_in_words(p.written_bytes),
            bytes_in_words(p.shared_moved), bytes_in_words(p.swap_moved), count_in_words(p.operations),
            count_in_words(p.tensor_operations),
        )
        for p in phases
    ]  # fmt: skip
    heads = ("phase", "does", "read", "written", "on-chip traffic", "swapped", "operations", "of tensor cores")
    unknown = paragraph(f"What they need is unknown: {findings.without_needs}.") if findings.without_needs else ""
    misfit = ""
    if findings.misfit:
        misfit = paragraph(f"By these needs the plan {findings.misfit}; the compiled code has the last word.")
    return _section("Phases", INTRODUCTIONS["phases"], unknown + phase_needs(found) + misfit + table(heads, rows))


def _homes(found: Explanation) -> str:
    kept = found.findings.kept
    if not kept:
        said = paragraph("Here nothing has to be kept: no value crosses from one phase to another in chunks.")
        return _section("Where values live", INTRODUCTIONS["homes"], said)
    inside = homes_across_phases(found) + "".join(_value(value) for value in kept)
    return _section("Where values live", INTRODUCTIONS["homes"], inside)


def _value(value: Kept) -> str:
    title = f"{value.label} [{', '.join(value.axes)}]: {value.home}, {bytes_in_words(value.bytes)} a program"
    heads = ("home", "shared memory", "swap space", "read", "moved", "operations", "modelled", "")
    others = table(heads, [_alternative(each) for each in value.alternatives]) if value.alternatives else ""
    return tag("h3", text(title)) + paragraph(value.why) + others


def _alternative(each: Alternative) -> tuple[str, ...]:
    seconds = "" if each.seconds is None else seconds_in_words(each.seconds)
    return (
        each.home, bytes_in_words(each.shared_bytes), bytes_in_words(each.swap_bytes), bytes_in_words(each.read_bytes),
        bytes_in_words(each.moved_bytes), count_in_words(each.operations), seconds,
        "taken" if each.taken else each.misfit,
    )  # fmt: skip


def _plan(found: Explanation) -> str:
    findings = found.findings
    budget = ", ".join(f"{name} {bound}" for name, bound in findings.budget.items())
    said = paragraph(ORIGINS.get(findings.origin, findings.origin))
    said += paragraph(tuned_in_words(findings.tuned)) if findings.tuned else ""
    said += paragraph(f"The author's budget allows no more than {budget}.") if budget else ""
    rows = [
        (f"{FIELDS.get(each.field, each.field)} {each.about}", each.value, each.means, "pinned" if each.pinned else "")
        for each in findings.decisions
    ]
    return _section("The plan", INTRODUCTIONS["plan"], said + table(("decision", "value", "", ""), rows))


def _tried(found: Explanation) -> str:
    findings = found.findings
    proposal, inside = findings.proposal, ""
    most = max([each.seconds for each in (findings.modelled, proposal.modelled if proposal else None) if each] or [1.0])
    if findings.modelled is not None:
        inside += times(findings.modelled, most)
    inside += paragraph(comparison_in_words(found))
    if proposal is not None and not proposal.is_taken:
        inside += tag("h3", text("The planner's own choice")) + times(proposal.modelled, most)
    if proposal is not None and proposal.tried:
        rows = [(seconds_in_words(each.seconds), each.reason, plan_in_words(each.plan)) for each in proposal.tried]
        inside += paragraph("It rejected, the fastest first:") + table(("modelled", "why not", "plan"), rows)
    elif proposal is not None:
        inside += paragraph("It rejected nothing on the way: its first choice fits.")
    return _section("Modelled time, and what else was tried", INTRODUCTIONS["tried"], inside)


def _binary(found: Explanation) -> str:
    if found.is_cpu:
        return ""
    inside = "".join(_launch(found, launch) for launch in found.launches)
    return _section(
        "The compiled code", INTRODUCTIONS["binary"], inside or paragraph(f"There is none: {found.reason}.")
    )


def _launch(found: Explanation, launch: Launch) -> str:
    if launch.use is None:
        return tag("h3", text(launch.name)) + paragraph(launch.reason, "bad")
    resources = launch.use.resources
    rows = [
        ("threads a program", launch.use.threads, found.limits.threads),
        ("registers a thread", resources.registers, found.limits.registers),
        ("shared memory a program", bytes_in_words(resources.shared), bytes_in_words(found.limits.shared)),
        ("bytes spilt", resources.spill_bytes, ""),
        ("tensor memory, columns", resources.tensor_memory, found.limits.tensor_memory),
    ]
    misfit = paragraph(f"It does not fit: {launch.reason}.", "bad") if launch.reason else ""
    drawn = occupancy(found, launch) + instruction_mix(launch)
    return tag("h3", text(launch.name)) + misfit + table(("", "takes", "limit"), rows) + drawn


def _native(found: Explanation) -> str:
    native = found.findings.native
    if native is None:
        return ""
    rows = [
        ("instructions", native.instructions),
        ("on vector registers", native.vector),
        ("of those, to or from the stack, as spills are", native.stack_vectors),
        ("bytes that a thread works in", bytes_in_words(native.workspace)),
    ]
    return _section("The compiled code", INTRODUCTIONS["native"], table(("", ""), rows))


def _stages(found: Explanation) -> str:
    known = stages_of(found.target.architecture, found.is_cpu)
    inside = ""
    for name, stage in found.stages.items():
        cut = "" if len(stage) <= LONGEST else paragraph(f"The first {LONGEST} of {len(stage)} characters:")
        summary = tag("summary", f"{tag('b', text(name))} {text(known.get(name, ''))}")
        inside += tag("details", f"{summary}{cut}{tag('pre', block(stage[:LONGEST]))}")
    return _section("Every step", INTRODUCTIONS["stages"], inside)
