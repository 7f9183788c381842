"""An explanation in words: short sections, each of which says first what its words mean."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from vkernels.runtime.checking.cells import Launch
from vkernels.runtime.explaining.explain import Explanation
from vkernels.runtime.explaining.explained import Alternative, Kept

from .words import (
    FIELDS,
    INTRODUCTIONS,
    ORIGINS,
    bytes_in_words,
    comparison_in_words,
    count_in_words,
    counted,
    plan_in_words,
    printable,
    seconds_in_words,
    target_in_words,
    title_of,
    tuned_in_words,
    verdict_in_words,
)

BAR = 6
MOST_TRIED = 8


def show(found: Explanation, others: tuple[str, ...], to_errors: bool) -> None:
    """The explanation on standard output, unless that is taken. `others`: kernels of the same family."""
    console = Console(stderr=to_errors, highlight=False, markup=False)
    console.print(Text(title_of(found), "bold"), soft_wrap=True)
    console.print(target_in_words(found), soft_wrap=True)
    console.print(verdict_in_words(found), soft_wrap=True)
    if others:
        console.print(f"Of the same family, explained by name: {', '.join(others)}.", soft_wrap=True)
    for section in (_source, _phases, _homes, _plan, _tried, _binary, _native, _stages):
        section(console, found)


def _begin(console: Console, title: str, introduction: str) -> None:
    console.print()
    console.print(Text(title, "bold"))
    console.print(introduction)
    console.print()


def _table(*columns: str, right: tuple[str, ...] = (), whole: tuple[str, ...] = ()) -> Table:
    """`right`: columns of numbers; `whole`: those that are not broken into lines."""
    table = Table(box=None, pad_edge=False)
    for column in columns:
        justify = "right" if column in right else "left"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=column in whole)  # type: ignore[arg-type]
    return table


def _source(console: Console, found: Explanation) -> None:
    lines = found.findings.source
    if not lines:
        return
    _begin(console, "The kernel", INTRODUCTIONS["source"])
    table = _table("phases", "line", "", right=("line",))
    for line in lines:
        table.add_row(Text(printable(", ".join(line.phases))), str(line.number), Text(printable(line.text)))
    console.print(table)


def _phases(console: Console, found: Explanation) -> None:
    phases, limits = found.findings.phases, found.limits
    _begin(console, "Phases", INTRODUCTIONS["phases"])
    if found.findings.without_needs:
        console.print(printable(f"What they need is unknown: {found.findings.without_needs}."), soft_wrap=True)
    for phase in phases:
        console.print(Text(printable(f"{phase.name}: {', '.join(phase.does)}")), soft_wrap=True)
    console.print()
    kind = "vector\nregisters" if found.is_cpu else "registers\na thread"
    figures = (kind, "", "shared", "", "read", "written", "operations")
    table = _table("phase", *figures, right=(kind, "shared", "read", "written", "operations"), whole=figures)
    for phase in phases:
        table.add_row(
            Text(printable(phase.name)),
            f"{phase.registers:.0f}",
            _bar(phase.registers, limits.registers),
            bytes_in_words(phase.shared_bytes),
            _bar(phase.shared_bytes, limits.shared),
            bytes_in_words(phase.read_bytes),
            bytes_in_words(phase.written_bytes),
            count_in_words(phase.operations + phase.tensor_operations),
        )
    table.add_row("limits", f"{limits.registers}", "", bytes_in_words(limits.shared), style="bold")
    console.print(table)
    _totals(console, found)


def _bar(need: float, limit: float) -> str:
    """A need as a bar of the limit, with a mark where it is more."""
    share = need / limit if limit else 0.0
    full = min(BAR, round(share * BAR))
    return f"{'█' * full}{'░' * (BAR - full)}{'!' if share > 1 else ''}"


def _totals(console: Console, found: Explanation) -> None:
    totals = found.findings.totals
    if totals is None:
        return
    lasting = f", {bytes_in_words(totals.scratch_bytes)} of it as long as it lives" if totals.scratch_bytes else ""
    console.print(f"A program takes {bytes_in_words(totals.shared_bytes)} of shared memory{lasting}.", soft_wrap=True)
    swap = max((launch.swap_bytes for launch in found.findings.launches), default=0)
    if swap:
        console.print(f"Each program that is resident has {bytes_in_words(swap)} of swap space.")
    if found.findings.misfit:
        said = f"By these needs the plan {found.findings.misfit}; the compiled code below has the last word."
        console.print(printable(said), soft_wrap=True)


def _homes(console: Console, found: Explanation) -> None:
    kept = found.findings.kept
    _begin(console, "Where values live", INTRODUCTIONS["homes"])
    if not kept:
        console.print("Here nothing has to be kept: no value crosses from one phase to another in chunks.")
    for value in kept:
        _value(console, value)


def _value(console: Console, value: Kept) -> None:
    way = f"from {value.made} to {', '.join(value.used)}" if value.kind == "value" else "the author's scratchpad"
    size = f"{bytes_in_words(value.bytes)} a program"
    console.print(Text(printable(f"{value.label} [{', '.join(value.axes)}], {way}, {size}: {value.home}"), "bold"))
    console.print(printable(value.why), soft_wrap=True)
    if value.alternatives:
        heads = ("  home", "shared", "swap", "read", "moved", "operations", "modelled")
        table = _table(*heads, "", right=heads[1:], whole=heads)
        for each in value.alternatives:
            table.add_row(*_alternative(each))
        console.print(table)
        for each in value.alternatives:
            if each.misfit:
                console.print(printable(f"  {each.home} {each.misfit}."), soft_wrap=True)


def _alternative(each: Alternative) -> list[str]:
    seconds = "" if each.seconds is None else seconds_in_words(each.seconds)
    verdict = "taken" if each.taken else "does not fit" if each.misfit else ""
    return [
        f"  {each.home}", bytes_in_words(each.shared_bytes), bytes_in_words(each.swap_bytes),
        bytes_in_words(each.read_bytes), bytes_in_words(each.moved_bytes), count_in_words(each.operations), seconds,
        verdict,
    ]  # fmt: skip


def _plan(console: Console, found: Explanation) -> None:
    findings = found.findings
    _begin(console, "The plan", INTRODUCTIONS["plan"])
    console.print(ORIGINS.get(findings.origin, findings.origin))
    if findings.tuned:
        console.print(tuned_in_words(findings.tuned), soft_wrap=True)
    if findings.budget:
        bounds = ", ".join(f"{name} {bound}" for name, bound in findings.budget.items())
        console.print(f"The author's budget allows no more than {bounds}.")
    table = _table("decision", "value", "")
    for each in findings.decisions:
        pinned = " (pinned by the author)" if each.pinned else ""
        name = f"{FIELDS.get(each.field, each.field)} {each.about}".strip()
        table.add_row(Text(printable(name)), Text(printable(each.value)), Text(printable(each.means + pinned)))
    console.print(table)


def _tried(console: Console, found: Explanation) -> None:
    findings = found.findings
    _begin(console, "Modelled time, and what else was tried", INTRODUCTIONS["tried"])
    if findings.modelled is not None:
        table = _table("", "modelled", right=("modelled",))
        parts = {**findings.modelled.parts, "launches": findings.modelled.launches}
        for name, seconds in sorted(parts.items(), key=lambda each: -each[1]):
            mark = " ← the bottleneck" if name == findings.modelled.bottleneck else ""
            table.add_row(f"{name}{mark}", seconds_in_words(seconds))
        table.add_row("all together, as they overlap", seconds_in_words(findings.modelled.seconds))
        console.print(table)
    if found.findings.rung:
        console.print(comparison_in_words(found), soft_wrap=True)
    proposal = findings.proposal
    if proposal is not None and proposal.tried:
        console.print("It rejected, the fastest first:")
        table = _table("modelled", "why not", "plan")
        for each in proposal.tried[:MOST_TRIED]:
            table.add_row(seconds_in_words(each.seconds), Text(printable(each.reason)), plan_in_words(each.plan))
        console.print(table)
        left = len(proposal.tried) - MOST_TRIED
        if left > 0:
            console.print(f"and {left} more, in the JSON.")
    elif proposal is not None:
        console.print("It rejected nothing on the way: its first choice fits.")


def _binary(console: Console, found: Explanation) -> None:
    if found.is_cpu:
        return
    _begin(console, "The compiled code", INTRODUCTIONS["binary"])
    if not found.launches:
        console.print(printable(f"There is none: {found.reason}."), soft_wrap=True)
    for launch in found.launches:
        _launch(console, launch)


def _launch(console: Console, launch: Launch) -> None:
    if launch.use is None or launch.occupancy is None:
        console.print(printable(f"{launch.name}: {launch.reason}."), soft_wrap=True)
        return
    resources, held = launch.use.resources, launch.occupancy
    console.print(Text(printable(launch.name), "bold"))
    spilt = f"{resources.spill_bytes} bytes spilt" if resources.spill_bytes else "nothing spilt"
    console.print(
        f"{launch.use.threads} threads a program, {resources.registers} registers a thread, {spilt}, "
        f"{bytes_in_words(resources.shared)} of shared memory.",
        soft_wrap=True,
    )
    bounds = ", ".join(f"{name} {bound}" for name, bound in held.bounds.items())
    console.print(
        f"A multiprocessor holds {counted(held.blocks, 'program')} at once, limited by {' and '.join(held.limited_by)} "
        f"(each resource alone would allow: {bounds}).",
        soft_wrap=True,
    )
    mix = {name.replace("_", " "): count for name, count in vars(resources.mix).items() if count}
    console.print(f"Instructions: {', '.join(f'{count} {name}' for name, count in mix.items())}.", soft_wrap=True)
    if launch.reason:
        console.print(printable(f"It does not fit: {launch.reason}."), soft_wrap=True)


def _native(console: Console, found: Explanation) -> None:
    native = found.findings.native
    if native is None:
        return
    _begin(console, "The compiled code", INTRODUCTIONS["native"])
    spills = f"{native.stack_vectors} of them move a register to or from the stack, as spills do"
    console.print(
        f"{native.instructions} instructions, {native.vector} on vector registers; {spills}. "
        f"A thread works in {bytes_in_words(native.workspace)} of its own.",
        soft_wrap=True,
    )


def _stages(console: Console, found: Explanation) -> None:
    _begin(console, "Every step", INTRODUCTIONS["stages"])
    console.print(f"--ir {' | '.join(found.stages)}", soft_wrap=True)
