"""The portability matrix in words, as tables for the docs, and as one page that needs no network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from portability_cases import DTYPES, ORDINARY, SIZES, SUBJECTS, targets
from rich.console import Console
from rich.table import Table

Record = Mapping[str, Any]

NEAR = 3.0
"""How many times the roofline a plan may be modelled to take, to count as near it."""


@dataclass(frozen=True)
class Shares:
    """Counts of some cells. `known`: of those that a compiler was there for."""

    cells: int
    known: int
    fit: int
    bottom: int
    near: int
    tried: int

    @staticmethod
    def of(records: Iterable[Record]) -> Shares:
        some = list(records)
        known = [record for record in some if record["fits"] is not None]
        fit = [record for record in known if record["fits"]]
        ratios = [ratio for record in fit if (ratio := ratio_of(record)) is not None]
        return Shares(
            len(some), len(known), len(fit), sum(record["rung"] == "bottom" for record in fit),
            sum(ratio <= NEAR for ratio in ratios), sum((record["plans_tried"] or 1) > 1 for record in fit),
        )  # fmt: skip


def ratio_of(record: Record) -> float | None:
    """How many times its roofline a cell is modelled to take."""
    if record["modelled_seconds"] is None or not record["roofline_seconds"]:
        return None
    return float(record["modelled_seconds"] / record["roofline_seconds"])


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"


def split(records: Sequence[Record]) -> tuple[list[Record], list[Record]]:
    """Cells of chosen plans, and of the fixed one."""
    return [r for r in records if not r.get("fixed")], [r for r in records if r.get("fixed")]


def architecture_of(record: Record) -> str:
    return "cpu" if record["target"].startswith("cpu") else str(record["architecture"])


def ordinary(records: Iterable[Record]) -> list[Record]:
    return [record for record in records if record["size"] in ORDINARY]


# In words


def print_matrix(records: Sequence[Record], console: Console) -> None:
    """Architectures by kernels: cells that fit of those known, and how many stand on the bottom rung."""
    chosen, _ = split(records)
    table = Table(box=None, title="cells that fit, of those a compiler was there for; b: on the bottom rung")
    table.add_column("", no_wrap=True)
    for subject in SUBJECTS:
        table.add_column(subject.name.replace("_rows", "").replace("_", " "), justify="right")
    for architecture in dict.fromkeys(map(architecture_of, chosen)):
        mine = [record for record in chosen if architecture_of(record) == architecture]
        table.add_row(architecture, *(_cell([r for r in mine if r["kernel"] == s.name]) for s in SUBJECTS))
    console.print(table)
    for line in summary(records):
        console.print(line)
    for record in chosen:
        if record["fits"] is False:
            console.print(f"[red]{_name(record)}: {record['reason']}", soft_wrap=True)


def _cell(records: Sequence[Record]) -> str:
    found = Shares.of(records)
    if not found.known:
        return "[yellow]?" if found.cells else ""
    style = "green" if found.fit == found.known else "red"
    return f"[{style}]{found.fit}/{found.known}[/]" + (f" {found.bottom}b" if found.bottom else "")


def _name(record: Record) -> str:
    return f"{record['kernel']} {record['dtype']} {record['size']} on {record['target']}"


def summary(records: Sequence[Record]) -> list[str]:
    """The figures that the matrix is made for."""
    chosen, fixed = split(records)
    every, usual, pinned = Shares.of(chosen), Shares.of(ordinary(chosen)), Shares.of(fixed)
    lines = [
        f"{every.cells} cells, {every.known} with a compiler; {share(every.fit, every.known)} fit ({every.fit}); "
        f"{every.tried} took more than one plan",
        f"of {usual.fit} ordinary ones that fit {share(usual.bottom, usual.fit)} stand on the bottom rung, "
        f"{share(usual.near, usual.fit)} are modelled within {NEAR:g}× of the roofline",
    ]
    if pinned.known:
        sizes = ", ".join(size for size in SIZES if any(record["size"] == size for record in fixed))
        lines.append(f"one fixed plan ({sizes}): {share(pinned.fit, pinned.known)} of {pinned.known} cells fit")
    return lines


# As Markdown


def as_markdown(records: Sequence[Record]) -> str:
    """Tables by kernel and by architecture."""
    chosen, fixed = split(records)
    by_kernel = _markdown(
        "kernel", {s.name: _of(chosen, lambda r, s=s: r["kernel"] == s.name) for s in SUBJECTS},
        {s.name: _of(fixed, lambda r, s=s: r["kernel"] == s.name) for s in SUBJECTS},
    )  # fmt: skip
    names = list(dict.fromkeys(map(architecture_of, chosen)))
    by_architecture = _markdown(
        "architecture", {n: _of(chosen, lambda r, n=n: architecture_of(r) == n) for n in names},
        {n: _of(fixed, lambda r, n=n: architecture_of(r) == n) for n in names},
    )  # fmt: skip
    lines = [f"- {line}" for line in summary(records)]
    return "\n".join([*lines, "", *by_kernel, "", *by_architecture, ""])


def _of(records: Iterable[Record], is_wanted: Callable[[Record], bool]) -> list[Record]:
    return [record for record in records if is_wanted(record)]


def _markdown(head: str, chosen: Mapping[str, list[Record]], fixed: Mapping[str, list[Record]]) -> list[str]:
    near = f"within {NEAR:g}× of the roofline"
    lines = [
        f"| {head} | cells | fit | ordinary | bottom rung | {near} | more than one plan | fixed plan fits |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, records in chosen.items():
        every, usual, pinned = Shares.of(records), Shares.of(ordinary(records)), Shares.of(fixed.get(name, []))
        lines.append(
            f"| {name} | {every.known} | {share(every.fit, every.known)} | {usual.fit} | "
            f"{share(usual.bottom, usual.fit)} | {share(usual.near, usual.fit)} | {every.tried} | "
            f"{share(pinned.fit, pinned.known)} |"
        )
    return lines


# As a page

STYLE = """
:root{--ink:#1b1f24;--paper:#fff;--line:#ced4da;--soft:#f1f3f5}
@media(prefers-color-scheme:dark){:root{--ink:#e6e8ea;--paper:#15181b;--line:#495057;--soft:#23282d}}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.45 system-ui,sans-serif}
main{max-width:75rem;margin:0 auto;padding:1rem}
.wide{overflow:auto;max-height:90vh;border:1px solid var(--line)}
table{border-collapse:separate;border-spacing:1px;font-size:11px}
th{background:var(--paper);font-weight:500;text-align:left;padding:0 .4em;white-space:nowrap}
thead th{position:sticky;top:0}tbody th{position:sticky;left:0}thead th:first-child{left:0;z-index:1}
td{min-width:2.4em;height:1.6em;text-align:center;color:#0b0d0f}
.k0{background:#2b8a3e}.k1{background:#69b578}.k2{background:#b2d8a5}.k3{background:#f2d27a}.k4{background:#e89a4f}
.bottom{background:#9c6ade}.no{background:#c92a2a;color:#fff}.none{background:var(--soft)}
.legend td{padding:0 .6em}.plain td{color:inherit;text-align:right;padding:0 .6em}.plain{font-size:13px}
""".strip()

STEPS = (1.5, 2.0, 3.0, 10.0)
"""Where the colours of modelled time beside the roofline change."""


def as_html(records: Sequence[Record]) -> str:
    """One page: figures, what colours mean, and a cell for each kernel, dtype and size on each target."""
    chosen, fixed = split(records)
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>vkernels: portability</title>",
        "<meta name=viewport content='width=device-width,initial-scale=1'>",
        f"<style>{STYLE}</style><main><h1>Where the library's kernels run</h1>",
        "<p>Each cell is a kernel planned and compiled for a device or a slice; nothing was run. The number is the "
        "modelled time in multiples of the roofline, the least that the call could take. Point at a cell for more.</p>",
        "<ul>", *(f"<li>{escape(line)}</li>" for line in summary(records)), "</ul>", _legend(),
        "<h2>Chosen plans</h2>", _heat(chosen),
    ]  # fmt: skip
    if fixed:
        parts += [
            "<h2>One fixed plan</h2><p>The plan chosen for the largest GPU, compiled for every other: what fits is "
            "green.</p>",
            _heat(fixed),
        ]
    return "".join([*parts, "</main></html>"])


def _legend() -> str:
    bounds = ["", *(f"{step:g}" for step in STEPS)]
    named = [f"up to {step:g}×" for step in STEPS] + [f"above {bounds[-1]}×"]
    cells = "".join(f"<td class=k{number}>{escape(name)}</td>" for number, name in enumerate(named))
    more = "<td class=bottom>bottom rung</td><td class=no>does not fit</td><td class=none>no compiler here</td>"
    return f"<table class=legend><tr>{cells}{more}</tr></table>"


def _heat(records: Sequence[Record]) -> str:
    found = {(r["kernel"], r["dtype"], r["size"], r["target"]): r for r in records}
    columns = [
        (s.name, dtype, size)
        for s in SUBJECTS
        for dtype in DTYPES
        for size in SIZES
        if any(key[:3] == (s.name, dtype, size) for key in found)
    ]
    heads = Counter(name for name, _, _ in columns)
    first = "".join(f"<th colspan={count}>{escape(name)}" for name, count in heads.items())
    second = "".join(f"<th>{dtype.replace('float', 'f')}<br>{size}" for _, dtype, size in columns)
    rows = []
    for target in targets():
        mine = [found.get((*column, target)) for column in columns]
        if any(record is not None for record in mine):
            rows.append(f"<tr><th>{escape(target)}{''.join(map(_square, mine))}")
    head = f"<thead><tr><th>{first}<tr><th>{second}</thead>"
    return f"<div class=wide><table>{head}<tbody>{''.join(rows)}</tbody></table></div>"


def _square(record: Record | None) -> str:
    if record is None:
        return "<td>"
    if record["fits"] is None:
        return "<td class=none title='no compiler for it here'>?"
    if record["fits"] is False:
        return f'<td class=no title="{escape(record["reason"])}">no'
    ratio = ratio_of(record)
    if ratio is None:
        return "<td class=k2>"
    kind = "bottom" if record["rung"] == "bottom" else f"k{sum(ratio > step for step in STEPS)}"
    milliseconds = 1e3 * record["modelled_seconds"]
    told = f"{record['rung']}; {milliseconds:.3g} ms, {record['bottleneck']}"
    if (record["plans_tried"] or 1) > 1:
        told += f"; {record['plans_tried']} plans"
    return (
        f'<td class={kind} title="{escape(told)}">{ratio:.1f}'
        if ratio < 100
        else (f'<td class={kind} title="{escape(told)}">{ratio:.0f}')
    )
