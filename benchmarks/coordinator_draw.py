"""Plots of docs/sharing.md, from the tables of a measurement: a row a pair of tasks, a mark for each way to share.

python benchmarks/coordinator_draw.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from gallery_draw import DOCS, FAST, GREY, GRID, HAND, INK, SLOW, number_in, table_rows, text_at

MEASUREMENT = DOCS / "measurements" / "2026-11-27-sharing-amx.md"
COLOURS = {"default": SLOW, "idle class": HAND, "ours": FAST, "one on each core": HAND, "`vk.cohost`": FAST}
LEFT, ROW, WIDTH, PLOT = 300, 22, 760, 420


@dataclass(frozen=True)
class Plot:
    """Marks of rows, by their label. `low`, `high`: the axis; `bar`: a line to stay below, or to be above."""

    title: str
    below: str
    rows: Mapping[str, Mapping[str, float]]
    low: float
    high: float
    bar: float


def main() -> None:
    folder = DOCS / "sharing"
    folder.mkdir(exist_ok=True)
    rows = [*table_rows(MEASUREMENT.read_text())]
    (folder / "high.svg").write_text(svg(high_plot(rows)))
    (folder / "at-once.svg").write_text(svg(at_once_plot(rows)))


def high_plot(rows: Sequence[Mapping[str, str]]) -> Plot:
    """Of the first table of each pair, which is of two cores."""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        if "setting" in row:
            of_pair = found.setdefault(f"{row['high']} | {row['low']}", {})
            of_pair.setdefault(row["setting"], number_in(row["p50 / alone"]) or 0.0)
    return Plot(
        "Calls of high priority beside others, two cores", "median over alone: at most 1.05 is aimed at", found, 0.0,
        6.0, 1.05,
    )  # fmt: skip


def at_once_plot(rows: Sequence[Mapping[str, str]]) -> Plot:
    ways = ("default", "one on each core", "`vk.cohost`")
    found = {
        f"{row['task']} | {row['other task']}": {way: number_in(row[way]) or 0.0 for way in ways}
        for row in rows
        if "other task" in row
    }
    return Plot("Two tasks at once, two cores", "done at once over done in turns", found, 0.5, 1.5, 1.0)


def svg(plot: Plot) -> str:
    """The plot as SVG."""
    height = 66 + ROW * len(plot.rows) + 30
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="system-ui, sans-serif" role="img">',
        f"<title>{escape(plot.title)}: {escape(plot.below)}</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#fff"/>',
        text_at(16, 26, plot.title, 15, INK, "start", ' font-weight="600"'),
        text_at(16, 46, plot.below, 12, GREY, "start"),
        *_legend(next(iter(plot.rows.values()))),
        *_ticks(plot, height - 30),
    ]
    for index, (label, marks) in enumerate(plot.rows.items()):
        top = 62 + ROW * index
        lines.append(text_at(LEFT - 10, top + 15, label, 11, INK, "end"))
        lines += [_mark(_at(plot, value), top + ROW / 2, COLOURS[way]) for way, value in marks.items()]
    return "\n".join([*lines, "</svg>", ""])


def _at(plot: Plot, value: float) -> float:
    inside = min(max(value, plot.low), plot.high)
    return round(LEFT + PLOT * (inside - plot.low) / (plot.high - plot.low), 1)


def _mark(x: float, y: float, colour: str) -> str:
    return f'<circle cx="{x}" cy="{y}" r="5" fill="{colour}" fill-opacity="0.85"/>'


def _legend(marks: Mapping[str, float]) -> Iterator[str]:
    for number, way in enumerate(marks):
        x = LEFT + 60 + 135 * number
        yield _mark(x, 42, COLOURS[way])
        yield text_at(x + 10, 46, way.strip("`"), 12, INK, "start")


def _ticks(plot: Plot, bottom: int) -> Iterator[str]:
    for half in range(round(2 * plot.low), round(2 * plot.high) + 1):
        x = _at(plot, half / 2)
        yield f'<path d="M{x} 58L{x} {bottom}" stroke="{GRID}" stroke-width="1"/>'
        yield text_at(x, bottom + 18, f"{half / 2:g}", 11, GREY, "middle")
    x = _at(plot, plot.bar)
    yield f'<path d="M{x} 58L{x} {bottom}" stroke="{INK}" stroke-width="1.5"/>'


if __name__ == "__main__":
    main()
