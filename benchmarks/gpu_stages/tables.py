"""What a day found, as Markdown: for docs/measurements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median
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


def sharing(rows: Sequence[Record]) -> list[str]:
    """Of the high task's calls p50 and p99 over those alone; the low task's calls over those as the device shares."""
    cells = []
    for each in rows:
        if "alone" not in each:
            continue
        alone, default = each["alone"], each["default"]
        for setting in ("default", "streams", "ours"):
            found = each[setting]
            cells.append(
                (
                    each["case"], setting, spread(alone["p50"], 1),
                    *(f"{found[name]['median'] / alone[name]['median']:.2f}" for name in ("p50", "p99")),
                    f"{found['rate']['median'] / default['rate']['median']:.2f}",
                )
            )  # fmt: skip
    return table(("high beside low", "setting", "alone, µs", "p50", "p99", "low / default"), cells)


def spread(quartiles: dict[str, float], digits: int = 2) -> str:
    """Median, and quartiles in brackets."""
    middle, lower, upper = (f"{quartiles[name]:.{digits}f}" for name in ("median", "lower", "upper"))
    return f"{middle} ({lower}–{upper})"


def table(titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    def line(cells: Sequence[Any]) -> str:
        return f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in cells)} |"

    return [line(titles), "|---" * len(titles) + "|", *map(line, rows)]


def times(rows: Sequence[Record]) -> list[str]:
    """Microseconds of each way, how many times as fast ours is, and what the plan of the hand kernel would gain."""
    cells = []
    for each in rows:
        taken = each.get("microseconds", {})

        def ratio(slow: str, fast: str, taken: dict[str, Any] = taken) -> str:
            return f"{taken[slow]['median'] / taken[fast]['median']:.2f}" if {slow, fast} <= taken.keys() else ""

        ours = taken["ours"]["median"] if "ours" in taken else None
        rate = ""
        if ours and each.get("operations"):
            rate = f"{each['operations'] / ours / 1e6:.1f} TFLOP/s"
        elif ours and each.get("moved"):
            rate = f"{each['moved'] / ours / 1e3:.0f} GB/s"
        micros = [spread(taken[name], 1) if name in taken else "" for name in ("ours", "plan", "hand", "torch")]
        cells.append(
            (
                each["case"],
                each["status"],
                *micros,
                ratio("torch", "ours"),
                ratio("hand", "ours"),
                ratio("hand", "plan"),
                rate,
            )
        )
    titles = (
        "row", "status", "ours, µs", "hand's plan, µs", "by hand, µs", "torch, µs", "torch / ours", "hand / ours",
        "hand / its plan", "ours",
    )  # fmt: skip
    return table(titles, cells)


def ways(rows: Sequence[Record]) -> list[str]:
    """What came of each way to compute a row."""
    cells = []
    for each in rows:
        found = each.get("ways", {})
        failed = "; ".join(f"{name}: {what}" for name, what in found.items() if what != RIGHT)
        cells.append((each["case"], each["status"], sum(what == RIGHT for what in found.values()), failed))
    return table(("row", "status", "right ways", "others"), cells)


def drawn(rows: Sequence[Record]) -> list[str]:
    """How many plans were drawn of each kernel."""
    return table(("kernel", "status", "plans"), [(r["case"], r["status"], len(r.get("drawn", ()))) for r in rows])


def model(rows: Sequence[Record]) -> list[str]:
    """For each kernel, how well modelled times and static bounds rank the plans; then each plan."""
    kernels: dict[str, list[Record]] = {}
    for each in rows:
        if "microseconds" in each:
            kernels.setdefault(each["case"].rpartition(" #")[0], []).append(each)
    cells: list[Sequence[Any]] = []
    for name, found in [*kernels.items(), ("all", [each for some in kernels.values() for each in some])]:
        bounded = [each for each in found if "bound" in each]
        measured, of_bounded = ([_seconds(each) for each in some] for some in (found, bounded))
        chosen = [_seconds(each) for each in found if each["case"].endswith(" #0")]
        cells.append(
            (
                name, len(found), _ranks([each["modelled"] for each in found], measured),
                _ranks([each["bound"] for each in bounded], of_bounded),
                _ranks([max(each["modelled"], each["bound"]) for each in bounded], of_bounded),
                f"{median(_seconds(each) / each['modelled'] for each in found):.2f}" if found else "",
                f"{chosen[0] / min(measured):.2f}" if name != "all" and chosen else "",
            )
        )  # fmt: skip
    titles = (
        "kernel", "plans", "rank correlation, modelled", "rank correlation, bound", "of the larger",
        "measured / modelled", "chosen / fastest",
    )  # fmt: skip
    each_plan = [
        (
            each["case"], each["status"], spread(each["microseconds"], 1) if "microseconds" in each else "",
            f"{1e6 * each['modelled']:.1f}" if "modelled" in each else "",
            f"{1e6 * each['bound']:.1f}" if "bound" in each else "",
            ", ".join(dict.fromkeys(each.get("bottleneck", ()))),
        )
        for each in rows
    ]  # fmt: skip
    plans = table(("plan", "status", "measured, µs", "modelled, µs", "bound, µs", "bound by"), each_plan)
    return [*table(titles, cells), "", *plans]


def _seconds(record: Record) -> float:
    return 1e-6 * float(record["microseconds"]["median"])


def _ranks(some: Sequence[float], others: Sequence[float]) -> str:
    """Spearman's rank correlation; nothing for fewer than three."""
    from scipy.stats import spearmanr

    return f"{spearmanr(some, others).statistic:.2f}" if len(some) > 2 else ""


def fitting(rows: Sequence[Record]) -> list[str]:
    """Plans with their modelled times and bounds, and those without code that fits."""
    cells = [
        (
            each["case"], each["status"], f"{1e6 * each['modelled']:.1f}" if "modelled" in each else "",
            f"{1e6 * each['bound']:.1f}" if "bound" in each else "", each.get("registers", ""),
            each.get("spill_bytes", ""), each.get("fits") or each.get("unread", ""),
        )
        for each in rows
    ]  # fmt: skip
    return table(
        ("plan", "status", "modelled, µs", "bound, µs", "registers", "spilled bytes", "no code or bound"), cells
    )


TABLES = {
    "memory": memory, "time": times, "time: right": ways, "model: plans": drawn, "model: right": fitting,
    "model": model, "sharing": sharing,
}  # fmt: skip
"""Of a part's rows; the others have `plain`."""
