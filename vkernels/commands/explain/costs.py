"""Where the modelled time of an explained kernel goes, and how it changes under other limits, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from vkernels.inspect.explain.explain import Explanation
from vkernels.inspect.explain.explanation import ResourceCost, SupposedPlan
from vkernels.targets.what_if import QUANTITIES, Quantity, WhatIf

from ..formatting import format_bytes, format_count, format_seconds, printable
from ..results import table_of
from .texts import FIELDS, INTRODUCTIONS

SMALL_CHANGES = ("one change to this plan", "time", "registers a thread", "shared memory a program")
"""The columns of what one change alone does."""

HELD = ("phase", "registers a thread", "line", "")
"""The columns of what waits in registers."""

SMALL = 0.01
"""Part of the longest part of the modelled time, or of the registers, below which a part is not shown."""

_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1.0, ""))


def begin(console: Console, title: str, introduction: str) -> None:
    """Print the title of a section, and what its terms mean."""
    console.print()
    console.print(Text(title, "bold"))
    console.print(introduction)
    console.print()


def show_costs(console: Console, found: Explanation) -> None:
    """Print the phase and the line that cost the most of each resource."""
    if not found.findings.costs:
        return
    begin(console, "What costs the time", INTRODUCTIONS["costs"])
    table = table_of("resource", "modelled", "phase with the most", "line with the most", "", right=("modelled",))
    for row in cost_rows(found):
        table.add_row(*map(printable, row))
    console.print(table)
    if rows := held_rows(found):
        begin(console, "What takes the registers", INTRODUCTIONS["held"])
        table = table_of(*HELD, right=HELD[1:2])
        for each in rows:
            table.add_row(*map(printable, each))
        console.print(table)


def held_rows(found: Explanation) -> list[tuple[str, str, str, str]]:
    """The lines whose values wait in registers where most do: phase, registers a thread, line, its text."""
    held = found.findings.held
    if held is None:
        return []
    shown = [line for line in held.lines if line.bytes >= SMALL * held.bytes]
    taken = [f"{each.bytes / found.limits.register_bytes:.0f} ({each.bytes / held.bytes:.0%})" for each in shown]
    return [
        (held.phase if not number else "", taken[number], f"{Path(each.file).name}:{each.line}", each.text)
        for number, each in enumerate(shown)
    ]


def cost_rows(found: Explanation) -> list[tuple[str, str, str, str, str]]:
    """For each resource: its modelled time, the phase and the line with the most of it, and the line's text."""
    costs = found.findings.costs
    return [_cost_row(cost) for cost in costs if cost.seconds >= SMALL * costs[0].seconds]


def _cost_row(cost: ResourceCost) -> tuple[str, str, str, str, str]:
    phase = next((f"{each.phase} {_part(each.seconds, cost)}" for each in cost.phases), "")
    line = next((f"{Path(each.file).name}:{each.line} {_part(each.seconds, cost)}" for each in cost.lines), "")
    return cost.resource, format_seconds(cost.seconds), phase, line, cost.lines[0].text if cost.lines else ""


def _part(seconds: float, cost: ResourceCost) -> str:
    return f"({min(1.0, seconds / cost.seconds):.0%})"


def show_what_ifs(console: Console, found: Explanation) -> None:
    """Print the answer to each question: this plan, and the plan chosen for those limits."""
    findings = found.findings
    if not found.questions:
        return
    begin(console, "What if", INTRODUCTIONS["what-if"])
    if not findings.supposed:
        console.print(printable(f"The needs are unknown: {findings.without_needs}."), soft_wrap=True)
        return
    table = table_of("limits", "this plan", "", "plan chosen anew", "", right=("this plan", "plan chosen anew"))
    for row in answer_rows(found):
        table.add_row(*map(printable, row))
    console.print(table)
    for line in answer_lines(found):
        console.print(printable(line), soft_wrap=True)
    if changes := small_change_rows(found):
        console.print()
        table = table_of(*SMALL_CHANGES, right=SMALL_CHANGES[1:])
        for change in changes:
            table.add_row(*map(printable, change))
        console.print(table)


def answer_rows(found: Explanation) -> list[tuple[str, str, str, str, str]]:
    """The limits as they are, then those of each question: the times of this plan and of the plan chosen anew, and how
    they change."""
    findings = found.findings
    if findings.unchanged is None:
        return []
    before = findings.unchanged
    own, planned = before.same.modelled, before.anew.modelled
    return [
        ("as they are", _time(own) if not before.same.misfit else "does not fit", "", _time(planned), ""),
        *(
            (
                answer.text,
                _time(answer.same.modelled) if not answer.same.misfit else "does not fit",
                _change(answer.same.modelled, own),
                _time(answer.anew.modelled),
                _change(answer.anew.modelled, planned),
            )
            for answer in findings.supposed
        ),
    ]


def small_change_rows(found: Explanation) -> list[tuple[str, str, str, str]]:
    """For each rate and each size of the plan: how much it grows, and the time and the needs then."""
    return [
        (
            f"{each.what} {f'+{each.factor - 1:.0%}' if each.factor < 2 else 'doubled'}",
            "unknown" if each.seconds is None else _relative(each.seconds),
            f"{each.registers:.0f}",
            format_bytes(each.shared_bytes) + (", does not fit" if each.misfit else ""),
        )
        for each in found.findings.small_changes
    ]  # fmt: skip


def answer_lines(found: Explanation) -> list[str]:
    """What each question changes, and what changes with it."""
    findings = found.findings
    before = findings.unchanged.anew.plan if findings.unchanged is not None else {}
    answers = zip(found.questions, findings.supposed, strict=True)
    return [line for question, answer in answers for line in _lines(question, answer.same, answer.anew, before)]


def _lines(question: WhatIf, same: SupposedPlan, anew: SupposedPlan, before: Mapping[str, Any]) -> Iterator[str]:
    changed = [
        f"{name} {_number(QUANTITIES[name], old)} → {_number(QUANTITIES[name], new)}"
        for name, (old, new) in question.changed.items()
    ]
    yield f"{question.text}: {', '.join(changed) or 'nothing changes'}."
    if same.misfit:
        yield f"  This plan {same.misfit}."
    if moved := [*_moved(before, anew.plan)]:
        yield f"  The planner would choose otherwise: {', '.join(moved)}."
    if anew.modelled is not None:
        yield f"  The bottleneck of the plan chosen anew: {anew.modelled.bottleneck}."


def _moved(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Each decision that differs, as `tile of i 1 → 2`."""
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        title = FIELDS.get(name, name)
        if isinstance(old, Mapping) or isinstance(new, Mapping):
            for about in dict.fromkeys((*(old or {}), *(new or {}))):
                was, becomes = (old or {}).get(about, "none"), (new or {}).get(about, "none")
                if was != becomes:
                    yield f"{title} {about} {was} → {becomes}"
        elif old != new:
            yield f"{title} {_plain(old)} → {_plain(new)}"


def _plain(value: Any) -> str:
    return (" ".join(map(str, value)) or "none") if isinstance(value, list | tuple) else str(value)


def _number(quantity: Quantity, value: float) -> str:
    if quantity.unit == "bytes":
        return format_bytes(value)
    if not quantity.unit:
        return format_count(value)
    size, prefix = next(each for each in _PREFIXES if value >= each[0] or each[0] == 1)
    return f"{value / size:.4g} {prefix}{quantity.unit.replace('bytes', 'B')}"


def _time(modelled: Any) -> str:
    return format_seconds(modelled.seconds) if modelled is not None else "unknown"


def _change(new: Any, old: Any) -> str:
    if new is None or old is None or not old.seconds:
        return ""
    return _relative(new.seconds / old.seconds)


def _relative(ratio: float) -> str:
    return "same" if abs(ratio - 1) < 0.0005 else f"{ratio - 1:+.1%}"
