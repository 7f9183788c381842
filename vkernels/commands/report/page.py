"""The page: what was tuned at a glance, then each kernel and shape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from html import escape

from vkernels.autotune.report import Findings, Slice, Subject

from ..db.options import date
from ..explain.html.markup import paragraph, tag, text
from ..explain.html.style import STYLE
from ..explain.words import counted, seconds_in_words
from .drawings import convergence, weights
from .style import MORE_STYLE
from .words import ABOUT, REASONS, gain_of, title_of, when_of

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""What a browser may load for the page, and run: nothing."""
TITLE = "What tuning found"


def page_of(findings: Findings, where: str) -> str:
    """The whole page. `where`: the database's address."""
    said = f"{counted(findings.entries, 'measurement')}, {counted(len(findings.subjects), 'pair')} of kernel and shape"
    left = f"; {findings.stale} more were made by other compilers and are left out" if findings.stale else ""
    body = "".join(_subject(number, subject) for number, subject in enumerate(findings.subjects))
    empty = "" if findings.subjects else paragraph("Nothing has been tuned yet: vk tune does that.", "bad")
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><title>{text(TITLE)}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}{MORE_STYLE}</style></head>\n<body><main><h1>{text(TITLE)}</h1>"
        f"{paragraph(f'{where}: {said}{left}.')}{empty}\n{_overview(findings)}{body}</main></body></html>\n"
    )


def _overview(findings: Findings) -> str:
    rows = []
    for number, subject in enumerate(findings.subjects):
        for at, each in enumerate(subject.slices):
            name = f'<a href="#k{number}">{text(title_of(subject))}</a>' if at == 0 else ""
            best = each.best
            cells = [
                name, text(each.name), text(seconds_in_words(best.seconds or 0) if best else "all failed"),
                text(gain_of(each)), text(len(each.group.entries)), text(date(each.group.latest)[:10]),
            ]  # fmt: skip
            rows.append(tag("tr", "".join(tag("td", cell) for cell in cells)))
    heads = ("kernel and shape", "tuned for", "best", "gain", "tried", "last")
    return _section("At a glance", ABOUT["glance"], _table(heads, rows)) if rows else ""


def _subject(number: int, subject: Subject) -> str:
    parts = (_plans, _crossed, _convergence, _weights, _failures)
    inside = "".join(part(subject) for part in parts)
    return f'<section id="k{number}">{tag("h2", text(title_of(subject)))}{inside}</section>\n'


def _plans(subject: Subject) -> str:
    """Best plans side by side."""
    slices = subject.slices
    bests = [each.best for each in slices]
    interval = [f"{seconds_in_words(b.low or 0)} – {seconds_in_words(b.high or 0)}" if b else "" for b in bests]
    facts: list[tuple[str, list[str]]] = [
        ("time of a call", [seconds_in_words(b.seconds or 0) if b else "—" for b in bests]),
        ("between", interval),
        ("gain", [gain_of(each) for each in slices]),
        ("how", [("settled on" if b.final else b.origin) if b else "" for b in bests]),
        ("device", [(b or each.group.entries[0]).provenance.device for b, each in zip(bests, slices, strict=True)]),
        ("driver, clocks", [when_of(each) for each in slices]),
        ("plans tried", [f"{len(each.group.entries)}, {sum(each.group.failures.values())} failed" for each in slices]),
    ]
    rows = [_row(name, map(text, cells)) for name, cells in facts if any(cells)]
    rows += [_row(name, (tag("b", text(cell)) for cell in cells)) for name, cells in subject.differing().items()]
    about = ABOUT["one plan" if len(slices) == 1 else "plans"]
    return _part("Best plans", about, _table(("", *(each.name for each in slices)), rows))


def _crossed(subject: Subject) -> str:
    """Tuned for ↓ run on →."""
    if len(subject.slices) < 2:
        return ""
    rows = []
    for each, parts in zip(subject.slices, subject.crossed(), strict=True):
        cells = "".join(_part_cell(part) for part in parts)
        rows.append(f"<tr><th>{text(each.name)}</th>{cells}</tr>")
    heads = ("tuned for ↓ run on →", *(each.name for each in subject.slices))
    return _part("Tuned for one, run on another", ABOUT["crossed"], _table(heads, rows, "crossed"))


def _part_cell(part: float | None) -> str:
    if part is None:
        return '<td class="unknown">·</td>'
    if part == 0:
        return '<td class="worth0">does not run</td>'
    return f'<td class="worth{min(5, int(part * 5 + 0.05))}">{part:.2f}</td>'


def _convergence(subject: Subject) -> str:
    drawn = convergence(subject)
    return _part("How the search went", ABOUT["convergence"], drawn) if drawn else ""


def _weights(subject: Subject) -> str:
    inside = ""
    for each in subject.slices:
        choices = each.choices
        if choices:
            inside += tag("h4", text(each.name)) + weights(choices) + _values(each)
    return _part("What each choice weighs", ABOUT["weights"], inside) if inside else ""


def _values(each: Slice) -> str:
    """Every value of every choice, to unfold."""
    rows = [
        _row(choice.name, (text(", ".join(f"{value} ×{factor:.2f}" for value, factor in choice.factors.items())),))
        for choice in each.choices
    ]
    return tag("details", tag("summary", "Every value") + _table(("choice", "best time with it"), rows))


def _failures(subject: Subject) -> str:
    reasons = Counter[str]()
    for each in subject.slices:
        reasons.update(each.group.failures)
    if not reasons:
        return _part("What failed", "", paragraph("Nothing."))
    rows = []
    for reason, _ in reasons.most_common():
        counts = (text(each.group.failures.get(reason, 0) or "") for each in subject.slices)
        rows.append(_row(reason, (*counts, text(REASONS.get(reason, "")), text(_example(subject, reason)))))
    heads = ("reason", *(each.name for each in subject.slices), "", "such as")
    return _part("What failed", "", _table(heads, rows))


def _example(subject: Subject, reason: str) -> str:
    entries = (entry for each in subject.slices for entry in each.group.entries)
    texts = (entry.text.strip() for entry in entries if entry.failure == reason)
    return next((said.splitlines()[0][:160] for said in texts if said), "")


# Pieces


def _section(title: str, about: str, inside: str) -> str:
    return tag("section", f"{tag('h2', text(title))}{paragraph(about, 'about')}{inside}") + "\n"


def _part(title: str, about: str, inside: str) -> str:
    return f"{tag('h3', text(title))}{paragraph(about, 'about')}{inside}\n"


def _row(name: str, cells: Iterable[str]) -> str:
    inside = "".join(tag("td", cell) for cell in cells)
    return f"<tr><th>{text(name)}</th>{inside}</tr>"


def _table(heads: tuple[str, ...], rows: list[str], kind: str = "") -> str:
    """Of rows that are markup."""
    head = "".join(tag("th", text(each)) for each in heads)
    shown = f' class="{escape(kind)}"' if kind else ""
    return f"<table{shown}><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
