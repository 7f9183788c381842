"""Plots of docs/gallery.md, from the tables of measurements: bars of how many times as fast as others a kernel is.

    python benchmarks/gallery_draw.py

A bar from 1 to the right is faster, to the left slower; the axis is logarithmic.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
GPU, CPU = "2026-11-26-h200-mended.md", "2026-11-21-library.md"
INK, GREY, GRID, FAST, SLOW, HAND = "#1f2328", "#656d76", "#d5d9de", "#1f6fb4", "#b85c12", "#8a94a0"
LEFT, ROW, WIDTH, PLOT = 250, 24, 760, 440


@dataclass(frozen=True)
class Bar:
    """`beside_torch`, `beside_hand`: the other's time over ours, where it was measured."""

    label: str
    beside_torch: float | None
    beside_hand: float | None = None


@dataclass(frozen=True)
class Plot:
    """Rows of a table whose first column matches `rows`; the measurement decides what columns mean."""

    measurement: str
    rows: str
    title: str


PLOTS = {
    "softmax-gpu": Plot(GPU, r"softmax \d+ ?×", "softmax on an NVIDIA H200"),
    "softmax-cpu": Plot(CPU, r"(log_)?softmax(_backward)?$", "softmax on one core of an AMD EPYC (Zen 4), f32"),
    "layer-norm-gpu": Plot(GPU, r"layer_norm \d+ ?×", "layer norm on an NVIDIA H200"),
    "layer-norm-cpu": Plot(
        CPU, r"(layer|rms|group)_norm(_backward)?$", "norms on one core of an AMD EPYC (Zen 4), f32"
    ),
    "matmul-gpu": Plot(GPU, r"matmul ", "matrix products on an NVIDIA H200"),
    "matmul-cpu": Plot(CPU, r"(batched_)?matmul(_backward)?$|mlp", "products on one core of an AMD EPYC (Zen 4), f32"),
    "attention-gpu": Plot(GPU, r"attention d", "attention on an NVIDIA H200"),
    "attention-cpu": Plot(CPU, r"attention", "attention on one core of an AMD EPYC (Zen 4), f32"),
    "sparse-gpu": Plot(GPU, r"csr|spdnn", "sparse products and networks on an NVIDIA H200"),
    "sparse-cpu": Plot(CPU, r"(csr|ell|block|sampled)_matmul|segment_sum|embedding", "sparse on one core (Zen 4), f32"),
    "convolution-gpu": Plot(GPU, r"convolution", "convolution on an NVIDIA H200"),
    "convolution-cpu": Plot(CPU, r"conv2d", "convolution on one core of an AMD EPYC (Zen 4), f32"),
}


def main() -> None:
    (DOCS / "gallery").mkdir(exist_ok=True)
    for name in PLOTS:
        (DOCS / "gallery" / f"{name}.svg").write_text(drawing(name))


def drawing(name: str) -> str:
    """The SVG of one plot."""
    plot = PLOTS[name]
    return _svg(plot.title, list(bars(plot)))


def bars(plot: Plot) -> Iterator[Bar]:
    """The plot's rows of its measurement's tables of times."""
    for row in table_rows((DOCS / "measurements" / plot.measurement).read_text()):
        if plot.measurement == GPU and re.match(plot.rows, row.get("row", "")) and "torch, µs" in row:
            yield Bar(row["row"], number_in(row["torch / ours"]), number_in(row["hand / ours"]))
        elif plot.measurement == CPU and re.match(plot.rows, row.get("function", "")) and "times faster" in row:
            yield Bar(f"{row['function']} {row['shape']}", number_in(row["times faster"]))


def table_rows(text: str) -> Iterator[Mapping[str, str]]:
    """Each row of each table, by the names of its columns; of columns of one name the first."""
    head: Sequence[str] | None = None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else None
        if cells is None:
            head = None
        elif head is None:
            head = cells
        elif not set("".join(cells)) <= set("-: "):
            yield dict(reversed(list(zip(head, cells, strict=False))))


def number_in(cell: str) -> float | None:
    found = re.match(r"[\d.]+", cell)
    return float(found[0]) if found else None


def _svg(title: str, rows: Sequence[Bar]) -> str:
    values = [value for bar in rows for value in (bar.beside_torch, bar.beside_hand) if value]
    low, high = min([0.5, *values]), max([2.0, *values])
    span = math.log(high) - math.log(low)

    def at(value: float) -> float:
        return round(LEFT + PLOT * (math.log(value) - math.log(low)) / span, 1)

    by_hand = any(bar.beside_hand for bar in rows)
    height = 66 + ROW * len(rows) + 30
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="system-ui, sans-serif" role="img">',
        f"<title>{escape(title)}: how many times as fast as torch</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#fff"/>',
        text_at(16, 26, title, 15, INK, "start", ' font-weight="600"'),
        text_at(
            16, 46, f"times as fast as torch{' (points: as Triton by hand)' if by_hand else ''}", 12, GREY, "start"
        ),
    ]
    bottom = height - 30
    for tick in (0.25, 0.5, 1, 2, 4, 8):
        if low <= tick <= high:
            colour = INK if tick == 1 else GRID
            lines.append(f'<path d="M{at(tick)} 58L{at(tick)} {bottom}" stroke="{colour}" stroke-width="1"/>')
            lines.append(text_at(at(tick), bottom + 18, f"{tick:g}×", 11, GREY, "middle"))
    for index, bar in enumerate(rows):
        lines += _bar(bar, 62 + ROW * index, at)
    return "\n".join([*lines, "</svg>", ""])


def _bar(bar: Bar, top: float, at: Callable[[float], float]) -> Iterator[str]:
    yield text_at(LEFT - 10, top + 15, bar.label, 12, INK, "end")
    if bar.beside_torch:
        begin, end = sorted((at(1.0), at(bar.beside_torch)))
        colour = FAST if bar.beside_torch >= 1 else SLOW
        yield f'<rect x="{begin}" y="{top + 4}" width="{max(end - begin, 1):.1f}" height="{ROW - 9}" fill="{colour}"/>'
        yield text_at(WIDTH - 12, top + 15, f"{bar.beside_torch:.2f}", 12, INK, "end")
    if bar.beside_hand:
        centre = f'cx="{at(bar.beside_hand)}" cy="{top + ROW / 2 - 0.5}"'
        yield f'<circle {centre} r="4" fill="#fff" stroke="{HAND}" stroke-width="2"/>'


def text_at(x: float, y: float, text: str, size: int, colour: str, anchor: str, more: str = "") -> str:
    place = f'x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}"'
    return f'<text {place} fill="{colour}"{more}>{escape(text)}</text>'


if __name__ == "__main__":
    main()
