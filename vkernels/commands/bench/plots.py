"""What is drawn: rates beside their ceiling, where the time goes, who is alive. Narrow, so that a phone can show it."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10

from vkernels.library.sparse_network.ceilings import Ceilings
from vkernels.library.sparse_network.harness import Size
from vkernels.library.sparse_network.turns import Measured, Rates, Run

from ..explain.html.markup import bar, label, line, svg
from ..explain.words import count_in_words, seconds_in_words

WIDE, LEFT, ROW = 420.0, 84.0, 22.0
LONGEST = WIDE - LEFT - 66

PARTS = ("preprocessing", "reading", "transfer", "kernels", "rest")

PLOT_STYLE = """
.preprocessing{fill:#d9822b}.reading{fill:#a8518a}.transfer{fill:#2b8a3e}.kernels{fill:#4c7fd0}.rest{fill:#adb5bd}
polyline{fill:none;stroke-width:1.5}
.n0{stroke:#4c7fd0;fill:#4c7fd0}.n1{stroke:#2b8a3e;fill:#2b8a3e}.n2{stroke:#d9822b;fill:#d9822b}
.n3{stroke:#a8518a;fill:#a8518a}polyline.n0,polyline.n1,polyline.n2,polyline.n3{fill:none}
svg text.n0,svg text.n1,svg text.n2,svg text.n3{stroke:none}.grid{stroke:var(--soft)}
"""

Rows = Sequence[tuple[Size, Measured, Run]]


def rates(rows: Rows, ceilings: Ceilings) -> str:
    """For each network of one class the edges executed, a bar, and the real ones of these, a darker bar within it."""
    found = [(str(size), Rates.of(run, measured, ceilings)) for size, measured, run in rows]
    top = max(ceilings.gathers, *(each.executed for _, each in found))
    shapes = [label(0, 12, "real, of executed; the line: gathers from cache at most", "small", most=70)]
    for number, (name, each) in enumerate(found):
        y = 20 + number * ROW
        told = f"{name}: {_rate(each.real)} real, {_rate(each.executed)} executed, {_rate(each.nominal)} nominal"
        shapes += [
            label(0, y + 13, name),
            bar(LEFT, y + 2, each.executed / top * LONGEST, ROW - 6, "room", told),
            bar(LEFT, y + 2, min(each.real, each.executed) / top * LONGEST, ROW - 6, "need", told),
            label(LEFT + min(each.executed / top, 1) * LONGEST + 4, y + 13, _rate(each.real), "small"),
        ]
    at = LEFT + ceilings.gathers / top * LONGEST
    bottom = 20 + len(found) * ROW
    return svg(WIDE, bottom + 4, [*shapes, line(at, 18, at, bottom, "limit")], "Edges a second by network")


def time_spent(rows: Rows) -> str:
    """For each network of one class the shares that its seconds have, the parts one after another."""
    parts = [(str(size), _parts(run)) for size, _, run in rows]
    shapes: list[str] = []
    for number, (name, each) in enumerate(parts):
        y, x, top = number * ROW, LEFT, sum(each.values()) or 1.0
        shapes.append(label(0, y + 13, name))
        for part in PARTS:
            wide = each[part] / top * LONGEST
            shapes.append(bar(x, y + 2, wide, ROW - 6, part, f"{name}: {part} {seconds_in_words(each[part])}"))
            x += wide
        shapes.append(label(x + 4, y + 13, seconds_in_words(sum(each.values())), "small"))
    y = len(parts) * ROW + 6
    for part, x in zip(PARTS, (0, 110, 185, 260, 335), strict=True):
        shapes += [bar(x, y, 8, 8, part), label(x + 11, y + 8, part, "small")]
    return svg(WIDE, y + 14, shapes, "Where the time goes, by network")


def _parts(run: Run) -> dict[str, float]:
    rest = max(0.0, run.seconds.middle - run.transfer - run.kernels)
    return dict(zip(PARTS, (run.preprocessing, run.reading, run.transfer, run.kernels, rest), strict=True))


HIGH, BOTTOM = 170.0, 22.0
DECADES = 3
"""Powers of ten that the drawing of live images spans, from all down."""


def live_images(networks: Sequence[tuple[Size, Measured]]) -> str:
    """Which part of all images is alive before each layer, a line for each number of neurons; both axes logarithmic."""
    deepest: dict[int, tuple[Size, Measured]] = {}
    for size, measured in networks:
        if size.neurons not in deepest or deepest[size.neurons][0].layers < size.layers:
            deepest[size.neurons] = (size, measured)
    most = max(2, *(size.layers for size, _ in deepest.values()))
    shapes: list[str] = []
    for power in range(DECADES + 1):
        y = 10 + power / DECADES * (HIGH - BOTTOM - 10)
        shapes += [line(40, y, WIDE - 6, y, "grid"), label(0, y + 4, f"{100 / 10**power:g} %", "small")]
    for layer in [1, 10, 100, 1000]:
        if layer <= most:
            shapes.append(label(_across(layer, most), HIGH - 6, f"layer {layer}", "small", "middle"))
    for number, (neurons, (_, measured)) in enumerate(sorted(deepest.items())):
        shapes.append(_line(measured, most, number % 4))
        told = f"{neurons}: {count_in_words(len(measured.truth.survivors))} of {measured.images}"
        shapes.append(label(WIDE - 8, 22 + number * 14, told, f"small n{number % 4}", "end"))
    return svg(WIDE, HIGH, shapes, "Live images by layer")


def _line(measured: Measured, most: int, number: int) -> str:
    points = []
    live = [*measured.truth.live.tolist(), len(measured.truth.survivors)]
    for layer, alive in enumerate(live, 1):
        part = max(alive / max(1, measured.images), 10.0**-DECADES)
        y = 10 - log10(part) / DECADES * (HIGH - BOTTOM - 10)
        points.append(f"{_across(min(layer, most), most):.1f},{y:.1f}")
    return f'<polyline points="{" ".join(points)}" class="n{number}"/>'


def _across(layer: int, most: int) -> float:
    return 60 + log10(layer) / log10(most) * (WIDE - 72)


def _rate(edges: float) -> str:
    """1.2e10 as 12 G/s."""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if edges >= size:
            return f"{edges / size:.3g} {unit}/s"
    return f"{edges:.3g}/s"
