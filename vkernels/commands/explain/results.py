"""An explanation as text, in short sections that each define their terms first, and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from vkernels.inspect.check.cells import CellLaunch
from vkernels.inspect.explain.explain import Explanation
from vkernels.inspect.explain.explanation import Kept

from ..check.results import launch_as_json
from ..formatting import format_bytes, format_count, format_plan, format_seconds, plural, printable
from ..results import table_of
from .costs import begin, show_costs, show_what_ifs
from .texts import (
    DETERMINISTIC,
    FIELDS,
    INTRODUCTIONS,
    comparison_text,
    origin_text,
    target_text,
    title_of,
    tuned_text,
    verdict_text,
)


def as_json(found: Explanation, triton: str) -> dict[str, Any]:
    """Return everything but the texts of stages."""
    findings, case, target = found.findings, found.case, found.target
    modelled, proposal = findings.modelled, findings.proposal
    return {
        "triton": triton, "kernel": case.source.shown,
        "target": target.key, "architecture": target.architecture, "dtype": case.dtype, "shape": dict(case.shape),
        "fits": found.fits, "reason": found.reason, "limits": asdict(found.limits), "budget": dict(findings.budget),
        "extents": dict(findings.extents), "source": [asdict(line) for line in findings.source],
        "phases": [asdict(phase) for phase in findings.phases],
        "homes": [asdict(kept) for kept in findings.kept],
        "plan": dict(findings.plan), "plan_origin": findings.origin, "plans_judged": findings.judged,
        "tuned_constants": dict(findings.tuned),
        "deterministic": findings.deterministic,
        "pinned": [[each.field, each.about] for each in findings.decisions if each.pinned],
        "needs": asdict(findings.totals) if findings.totals is not None else None,
        "needs_unknown": findings.without_needs, "predicted_misfit": findings.misfit,
        "modelled_seconds": modelled.seconds if modelled is not None else None,
        "bottleneck": modelled.bottleneck if modelled is not None else None,
        "modelled": asdict(modelled) if modelled is not None else None,
        "rung": findings.rung or None, "costs": [asdict(each) for each in findings.costs],
        "held": asdict(findings.held) if findings.held else None,
        "what_if_unchanged": None if findings.unchanged is None else {
            "same_plan": asdict(findings.unchanged.same), "chosen_anew": asdict(findings.unchanged.anew),
        },
        "what_if": [
            {
                "question": asked.text, "changed": {name: [*both] for name, both in asked.changed.items()},
                "same_plan": asdict(answer.same), "chosen_anew": asdict(answer.anew),
            }
            for asked, answer in zip(found.questions, findings.supposed, strict=False)
        ],
        "small_changes": [asdict(each) for each in findings.small_changes],
        "proposal": asdict(proposal) if proposal is not None else None, "rejected": [*found.rejected],
        "launches": [launch_as_json(launch) for launch in found.launches],
        "native": asdict(findings.native) if findings.native is not None else None,
        "stages": list(found.stages),
    }  # fmt: skip


BAR = 6
MAX_TRIED = 8


def show(found: Explanation, others: tuple[str, ...], console: Console) -> None:
    """Print an explanation. `others`: kernels of the same family."""
    console.print(Text(title_of(found), "bold"), soft_wrap=True)
    console.print(target_text(found), soft_wrap=True)
    console.print(verdict_text(found), soft_wrap=True)
    if others:
        console.print(f"Other kernels of this family: {', '.join(others)}.", soft_wrap=True)
    for section in (_source, _phases, _homes, _plan, _tried, show_costs, show_what_ifs, _binary, _native, _stages):
        section(console, found)


def _source(console: Console, found: Explanation) -> None:
    lines = found.findings.source
    if not lines:
        return
    begin(console, "The kernel", INTRODUCTIONS["source"])
    table = table_of("phases", "line", "", right=("line",))
    for line in lines:
        table.add_row(printable(", ".join(line.phases)), str(line.number), printable(line.text))
    console.print(table)


def _phases(console: Console, found: Explanation) -> None:
    phases, limits = found.findings.phases, found.limits
    begin(console, "Phases", INTRODUCTIONS["phases"])
    if found.findings.without_needs:
        console.print(printable(f"Needs are unknown: {found.findings.without_needs}."), soft_wrap=True)
    for phase in phases:
        console.print(printable(f"{phase.name}: {', '.join(phase.does)}"), soft_wrap=True)
    console.print()
    kind = "vector\nregisters" if found.is_cpu else "registers\na thread"
    figures = (kind, "", "shared", "", "read", "written", "operations")
    table = table_of("phase", *figures, right=(kind, "shared", "read", "written", "operations"), whole=figures)
    for phase in phases:
        table.add_row(
            printable(phase.name),
            f"{phase.registers:.0f}",
            _bar(phase.registers, limits.registers),
            format_bytes(phase.shared_bytes),
            _bar(phase.shared_bytes, limits.shared),
            format_bytes(phase.read_bytes),
            format_bytes(phase.written_bytes),
            format_count(phase.operations + phase.tensor_operations),
        )
    table.add_row("limits", f"{limits.registers}", "", format_bytes(limits.shared), style="bold")
    console.print(table)
    _totals(console, found)


def _bar(need: float, limit: float) -> str:
    share = need / limit if limit else 0.0
    full = min(BAR, round(share * BAR))
    return f"{'█' * full}{'░' * (BAR - full)}{'!' if share > 1 else ''}"


def _totals(console: Console, found: Explanation) -> None:
    totals = found.findings.totals
    if totals is None:
        return
    lasting = f", {format_bytes(totals.scratch_bytes)} of it in all phases" if totals.scratch_bytes else ""
    console.print(f"A program uses {format_bytes(totals.shared_bytes)} of shared memory{lasting}.", soft_wrap=True)
    swap = max((launch.swap_bytes for launch in found.findings.launches), default=0)
    if swap:
        console.print(f"Each resident program has {format_bytes(swap)} of swap space.")
    if found.findings.misfit:
        said = f"By these needs the plan {found.findings.misfit}; the compiled code below decides."
        console.print(printable(said), soft_wrap=True)


def _homes(console: Console, found: Explanation) -> None:
    kept = found.findings.kept
    begin(console, "Where values live", INTRODUCTIONS["homes"])
    if not kept:
        console.print("No value crosses from one phase to another in chunks, so nothing has to be kept.")
    for value in kept:
        _value(console, value)


def _value(console: Console, value: Kept) -> None:
    way = f"from {value.made} to {', '.join(value.used)}" if value.kind == "value" else "the author's scratchpad"
    size = f"{format_bytes(value.bytes)} a program"
    console.print(Text(printable(f"{value.label} [{', '.join(value.axes)}], {way}, {size}: {value.home}"), "bold"))
    console.print(printable(value.why), soft_wrap=True)
    if value.alternatives:
        heads = ("  home", "shared", "swap", "read", "moved", "operations", "modelled")
        table = table_of(*heads, right=heads[1:], whole=heads)
        for each in value.alternatives:
            seconds = "" if each.seconds is None else format_seconds(each.seconds)
            home = f"{'▸' if each.taken else ' '} {each.home}"
            table.add_row(
                home, format_bytes(each.shared_bytes), format_bytes(each.swap_bytes),
                format_bytes(each.read_bytes), format_bytes(each.moved_bytes), format_count(each.operations), seconds,
            )  # fmt: skip
        console.print(table)
        for each in value.alternatives:
            if each.misfit:
                console.print(printable(f"  {each.home} {each.misfit}."), soft_wrap=True)


def _plan(console: Console, found: Explanation) -> None:
    findings = found.findings
    begin(console, "The plan", INTRODUCTIONS["plan"])
    console.print(origin_text(findings))
    if findings.deterministic:
        console.print(DETERMINISTIC, soft_wrap=True)
    if findings.tuned:
        console.print(tuned_text(findings.tuned), soft_wrap=True)
    if findings.budget:
        bounds = ", ".join(f"{name} {bound}" for name, bound in findings.budget.items())
        console.print(f"The author's budget: at most {bounds}.")
    table = table_of("decision", "value", "")
    for each in findings.decisions:
        pinned = " (pinned by the author)" if each.pinned else ""
        name = f"{FIELDS.get(each.field, each.field)} {each.about}".strip()
        table.add_row(printable(name), printable(each.value), printable(each.means + pinned))
    console.print(table)


def _tried(console: Console, found: Explanation) -> None:
    findings = found.findings
    begin(console, "Modelled time and rejected plans", INTRODUCTIONS["tried"])
    if findings.modelled is not None:
        table = table_of("", "modelled", right=("modelled",))
        parts = {**findings.modelled.parts, "launches": findings.modelled.launches}
        for name, seconds in sorted(parts.items(), key=lambda each: -each[1]):
            mark = " ← bottleneck" if name == findings.modelled.bottleneck else ""
            table.add_row(f"{name}{mark}", format_seconds(seconds))
        table.add_row("total, with overlap", format_seconds(findings.modelled.seconds))
        console.print(table)
    if found.findings.rung:
        console.print(comparison_text(found), soft_wrap=True)
    proposal = findings.proposal
    if proposal is not None and proposal.tried:
        console.print("The planner rejected these plans, the fastest first:")
        table = table_of("modelled", "reason", "plan")
        for each in proposal.tried[:MAX_TRIED]:
            table.add_row(format_seconds(each.seconds), printable(each.reason), format_plan(each.plan))
        console.print(table)
        left = len(proposal.tried) - MAX_TRIED
        if left > 0:
            console.print(f"and {left} more, in the JSON.")
    elif proposal is not None:
        console.print("The planner rejected no plan: its first choice fits.")
    if found.rejected:
        console.print("Plans that are modelled to be better were compiled and rejected, the best first:")
        for reason in found.rejected:
            console.print(f"- {printable(reason)}", soft_wrap=True)


def _binary(console: Console, found: Explanation) -> None:
    if found.is_cpu:
        return
    begin(console, "The compiled code", INTRODUCTIONS["binary"])
    if not found.launches:
        console.print(printable(f"There is no compiled code: {found.reason}."), soft_wrap=True)
    for launch in found.launches:
        _launch(console, launch)


def _launch(console: Console, launch: CellLaunch) -> None:
    if launch.use is None or launch.occupancy is None:
        console.print(printable(f"{launch.name}: {launch.reason}."), soft_wrap=True)
        return
    resources, held = launch.use.resources, launch.occupancy
    console.print(Text(printable(launch.name), "bold"))
    spilled = f"{resources.spill_bytes} bytes spilled" if resources.spill_bytes else "no spills"
    console.print(
        f"{launch.use.threads} threads a program, {resources.registers} registers a thread, {spilled}, "
        f"{format_bytes(resources.shared)} of shared memory.",
        soft_wrap=True,
    )
    bounds = ", ".join(f"{name} {bound}" for name, bound in held.bounds.items())
    console.print(
        f"A multiprocessor holds {plural(held.blocks, 'program')} at once, limited by {' and '.join(held.limited_by)} "
        f"(each resource alone allows: {bounds}).",
        soft_wrap=True,
    )
    mix = {name.replace("_", " "): count for name, count in vars(resources.mix).items() if count}
    console.print(f"Instructions: {', '.join(f'{count} {name}' for name, count in mix.items())}.", soft_wrap=True)
    if launch.loops is not None:
        for loop in launch.loops.loops:
            console.print(f"  {loop.text}", soft_wrap=True, markup=False)
        if (bound := launch.loops.bound) is not None:
            busy = f"; tensor cores {bound.tensor_seconds / bound.seconds:.0%} busy" if bound.tensor_seconds else ""
            console.print(
                f"  It takes at least {format_seconds(bound.seconds)} by its loops ({bound.bottleneck}){busy}.",
                soft_wrap=True,
            )
    if launch.reason:
        console.print(printable(f"It does not fit: {launch.reason}."), soft_wrap=True)


def _native(console: Console, found: Explanation) -> None:
    native = found.findings.native
    if native is None:
        return
    begin(console, "The compiled code", INTRODUCTIONS["native"])
    spills = f"{native.stack_vectors} of them move a vector register to or from the stack (spills)"
    console.print(
        f"{native.instructions} instructions, {native.vector} on vector registers; {spills}. "
        f"Workspace of a thread: {format_bytes(native.workspace)}.",
        soft_wrap=True,
    )


def _stages(console: Console, found: Explanation) -> None:
    begin(console, "Compiler stages", INTRODUCTIONS["stages"])
    console.print(f"--ir {' | '.join(found.stages)}", soft_wrap=True)
