"""What a day found, as Markdown: for docs/measurements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from . import STAGES
from .case import RIGHT, SKIPPED
from .records import Record, Records


def report(records: Records) -> str:
    """Machine, commands, a summary, what failed, and a table of each part."""
    lines = [*_heading(records), *_summary(records), *_failures(records)]
    for parts in STAGES.values():
        for part in parts:
            rows = list(records.of(part.name).values())
            if rows:
                lines += [f"## {part.name.capitalize()}", *TABLES.get(part.name, plain)(rows), ""]
    return "\n".join(lines).rstrip() + "\n"


def _heading(records: Records) -> list[str]:
    runs = records.runs()
    if not runs:
        return ["# Nothing has run", ""]
    machine, dates = runs[-1]["machine"], sorted({each["date"][:10] for each in runs})
    rows = [
        ("device", machine["device"]), ("architecture", machine["architecture"]),
        ("planned as", machine["like"]), ("memory", f"{machine['memory'] / 2**30:.0f} GiB"),
        ("multiprocessors", machine["multiprocessors"]), ("driver", machine["driver"]), ("runtime", machine["runtime"]),
        *((name, machine[name]) for name in ("torch", "triton", "python", "numpy")),
        ("commit", ", ".join(dict.fromkeys(each["commit"] or "unknown" for each in runs))),
    ]  # fmt: skip
    names = dict.fromkeys(each["machine"]["device"] for each in runs)
    lines = [f"# A day on {', '.join(names)}, {', '.join(dates)}", "", *table(("", ""), rows), ""]
    return [*lines, "```", *(f"python {each['command']}" for each in runs), "```", ""]


def _summary(records: Records) -> list[str]:
    rows = []
    for parts in STAGES.values():
        for part in parts:
            counts = Counter(each["status"] for each in records.of(part.name).values())
            if counts:
                rows.append(
                    (part.name, counts.total(), ", ".join(f"{n} {status}" for status, n in counts.most_common()))
                )
    return [*table(("part", "cases", "came to"), rows), ""]


def _failures(records: Records) -> list[str]:
    rows = [
        (f"{each['part']}/{each['case']}", each["status"], first_line(each))
        for each in records.cases()
        if each["status"] not in (RIGHT, SKIPPED)
    ]
    return ["## Not right", *table(("case", "status", "why"), rows), ""] if rows else ["Every case was right.", ""]


def first_line(record: Record) -> str:
    return " ".join(str(record.get("why", "")).split())[:300]


def plain(rows: Sequence[Record]) -> list[str]:
    """Each case with what it came to; errors as parts of what is allowed, where they were measured."""
    return table(
        ("case", "status", "seconds", "error / allowed"),
        [
            (each["case"], each["status"], f"{each['seconds']:.1f}",
             f"{each['of_allowed']:.2f}" if each.get("of_allowed") is not None else "")
            for each in rows
        ],
    )  # fmt: skip


def memory(rows: Sequence[Record]) -> list[str]:
    """Bytes of steps with the same bits; milliseconds of those that were timed."""
    cells = []
    for each in rows:
        timed = each.get("milliseconds")
        sizes = f"{each['arena'] / 2**20:.0f} of {each['peak'] / 2**20:.0f}" if "arena" in each else ""
        times = ("", "", "", "")
        if timed:
            times = (
                spread(timed["plain"]), spread(timed["limited"]), f"{timed['speed']['median']:.2f}",
                f"{each['of_simulated']:.2f}",
            )  # fmt: skip
        cells.append((each["case"], each["status"], sizes, *times))
    return table(("case", "status", "MiB", "plain, ms", "limited, ms", "of plain's speed", "of simulated"), cells)


def spread(quartiles: dict[str, float], digits: int = 2) -> str:
    """Median, and quartiles in brackets."""
    middle, lower, upper = (f"{quartiles[name]:.{digits}f}" for name in ("median", "lower", "upper"))
    return f"{middle} ({lower}–{upper})"


def table(titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    def line(cells: Sequence[Any]) -> str:
        return f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in cells)} |"

    return [line(titles), "|---" * len(titles) + "|", *map(line, rows)]


TABLES = {"memory": memory}
"""Of a part's rows; the others have `plain`."""
