"""Tables and plots of what `cliffs.py` measured, for docs/cliffs.md: Markdown between two marks, and plain SVG."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from cliffs_judge import (
    ALL,
    NEAR,
    STEP,
    Case,
    Porting,
    judge,
    port_fixed,
    port_free,
    port_pinned,
    range_fixed,
    range_pinned,
)

BEGIN, END = "<!-- made by benchmarks/cliffs.py -->", "<!-- end -->"
INK, GREY, BLUE, ORANGE, GREEN = "#222", "#888", "#1f6fb4", "#d9762b", "#3a8f4d"
FAILS, SOME_FAIL = "#333", "#aaa"
WORST_LOSS = 1.0
"""The loss that is drawn as the strongest red: twice as long."""


def write_docs(kept: Mapping[str, Any], cases: Mapping[str, Case], docs: Path) -> None:
    """Plots to `docs`/cliffs, tables into `docs`/cliffs.md between the marks; a page is begun where there is none."""
    folder, page = docs / "cliffs", docs / "cliffs.md"
    folder.mkdir(parents=True, exist_ok=True)
    drawings = {"time": time_plot(cases), "porting": porting_plot(cases), "range": range_plot(cases)}
    for name, drawing in drawings.items():
        (folder / f"{name}.svg").write_text(drawing)
    before, _, rest = (page.read_text() if page.exists() else f"# Cliffs\n{BEGIN}\n{END}\n").partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n{tables(kept, cases)}{END}{after}")


# Tables


def tables(kept: Mapping[str, Any], cases: Mapping[str, Case]) -> str:
    return "\n".join([*_machine(kept), *_bars(cases), *_search(kept, cases), *_metrics(cases), *_times(cases)]) + "\n"


def _machine(kept: Mapping[str, Any]) -> Iterator[str]:
    machine = kept.get("machine", {})
    yield (
        f"Measured on {kept.get('date')}: {machine.get('cpu')}, one thread, vector registers of "
        f"{machine.get('register_bytes')} bytes, {machine.get('core_cache', 0) >> 10} KiB of level 2 a core, "
        f"{machine.get('cache', 0) >> 20} MiB of last cache.\n"
    )


def _bars(cases: Mapping[str, Case]) -> Iterator[str]:
    yield "| kernel | worst step | at | in all | at | from the best found | at | all three |"
    yield "|---|---|---|---|---|---|---|---|"
    for case in cases.values():
        verdict, points = judge(case), case.points
        (one, other, ratio), (worst, in_all), (furthest, from_best) = verdict.step, verdict.in_all, verdict.from_best
        cells = (
            case.label, _bar(ratio, STEP), f"{points[one]} → {points[other]}", _bar(in_all, ALL), points[worst],
            _bar(from_best, NEAR), points[furthest], "hold" if verdict.holds else "**missed**",
        )  # fmt: skip
        yield f"| {' | '.join(map(str, cells))} |"
    yield f"| bar | {STEP} | | {ALL} | | {NEAR} | | |\n"


def _bar(value: float, bar: float) -> str:
    return f"{value:.2f}" if value <= bar else f"**{value:.2f}**"


def _search(kept: Mapping[str, Any], cases: Mapping[str, Case]) -> Iterator[str]:
    yield "| kernel | plans enumerated | timed | of them timed again at last | refused | ran of the time | load |"
    yield "|---|---|---|---|---|---|---|"
    for name, case in cases.items():
        about, final = kept["cases"][name], sum(plan.final for plan in case.plans)
        yield (
            f"| {case.label} | {case.enumerated} | {len(case.plans)} | {final} | {case.refused} | "
            f"{100 * about.get('ran', 0):.0f} % of {about.get('took')} s | {about.get('load')} |"
        )
    yield ""


def _metrics(cases: Mapping[str, Case]) -> Iterator[str]:
    yield (
        "| kernel | porting, fixed: worst loss | pairs where some fail | where all fail | virtual: worst loss | "
        "chosen: worst loss | range, fixed | of them fail | range, virtual |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for case in cases.values():
        every = range(len(case.points))
        pairs = [(source, target) for source in every for target in every if source != target and case.good(source)]
        fixed = [port_fixed(case, *pair) for pair in pairs]
        virtual = [port_pinned(case, *pair) for pair in pairs]
        ranges = [(range_fixed(case, at), range_pinned(case, at)) for at in every]
        yield (
            f"| {case.label} | {_worst(fixed)} | {_share(0 < each.failed < 1 for each in fixed)} | "
            f"{_share(each.failed == 1 for each in fixed)} | {_worst(virtual)} | "
            f"{_worst([port_free(case, at) for at in every])} | {max(one.worst for one, _ in ranges):.1f}× | "
            f"{100 * max(one.failed for one, _ in ranges):.0f} % | {max(other.worst for _, other in ranges):.1f}× |"
        )
    yield ""


def _worst(portings: Sequence[Porting]) -> str:
    losses = [each.loss for each in portings if each.loss is not None]
    return f"{100 * max(losses):.0f} %" if losses else "–"


def _share(flags: Iterator[bool]) -> str:
    each = list(flags)
    return f"{100 * sum(each) / max(1, len(each)):.0f} %"


def _times(cases: Mapping[str, Case]) -> Iterator[str]:
    yield (
        "Milliseconds of the chosen plan (and times the best found). At all of the cache: vector registers that its "
        "code names, and moves to and from the stack where the same code is made for eight."
    )
    for case in cases.values():
        shared = sorted({point.shared for point in case.points}, reverse=True)
        head = " | ".join(f"{size >> 10} KiB" for size in shared)
        yield f"\n| {case.label} | {head} | registers named | moves, of eight |"
        yield "|---" * (len(shared) + 3) + "|"
        for registers in sorted({point.registers for point in case.points}, reverse=True):
            row = [at for at, point in enumerate(case.points) if point.registers == registers]
            cells = (f"{1e3 * case.chosen(at):.2f} ({case.chosen(at) / case.seconds(case.best(at)):.2f})" for at in row)
            choice = case.choices[row[0]]
            native = [str(value) if value >= 0 else "–" for value in (choice.native, choice.spills)]
            yield f"| {registers} registers | {' | '.join(cells)} | {' | '.join(native)} |"


# Plots


def time_plot(cases: Mapping[str, Case]) -> str:
    """Seconds against limits: the chosen plan, the best found, and the plan chosen for the whole machine, unchanged."""
    width, height, gap = 430, 250, 40
    parts: list[str] = []
    for number, case in enumerate(cases.values()):
        left, top = (number % 2) * (width + gap) + 45, number // 2 * (height + 75) + 45
        parts += _panel(case, left, top, width, height)
    rows = (len(cases) + 1) // 2
    legend = [("chosen", BLUE), ("best found", GREEN), ("the machine's own plan, fixed (×: does not fit)", ORANGE)]
    for number, (text, colour) in enumerate(legend):
        parts += [_line(45 + 170 * number, 12, 70 + 170 * number, 12, colour, 2), _text(76 + 170 * number, 16, text)]
    return _svg(2 * (width + gap) + 45, rows * (height + 75) + 45, parts)


def _panel(case: Case, left: int, top: int, width: int, height: int) -> Iterator[str]:
    count = len(case.points)
    best = [case.seconds(case.best(at)) for at in range(count)]
    chosen = [case.chosen(at) for at in range(count)]
    fixed = case.choices[0].plan
    ceiling = min(1.15 * max(*chosen, *best, case.seconds(fixed)), 4 * min(best))

    def x(at: float) -> float:
        return left + (at + 0.5) * width / count

    def y(seconds: float) -> float:
        return top + height * (1 - min(seconds, ceiling) / ceiling)

    yield _text(left, top - 8, case.label, weight="bold")
    yield _line(left, top + height, left + width, top + height, INK)
    for number in range(5):
        value = ceiling * number / 4
        yield _line(left, y(value), left + width, y(value), "#ddd")
        yield _text(left - 4, y(value) + 4, f"{1e3 * value:.1f}", anchor="end", colour=GREY)
    for at, point in enumerate(case.points):
        yield _text(x(at), top + height + 13, str(point.shared >> 10), anchor="middle", colour=GREY, size=9)
        if at == 0 or case.points[at - 1].registers != point.registers:
            yield _text(x(at) - 6, top + height + 28, f"{point.registers} registers; KiB of level 2 above", size=10)
            yield _line(x(at - 0.5), top, x(at - 0.5), top + height + 30, "#bbb")
    drawn = [at for at in range(count) if fixed in case.admitted(at)]
    for values, colour in ((best, GREEN), (chosen, BLUE)):
        yield _path([(x(at), y(value)) for at, value in enumerate(values)], colour)
        yield from (_dot(x(at), y(value), colour) for at, value in enumerate(values))
    yield from (_dot(x(at), y(case.seconds(fixed)), ORANGE, 2) for at in drawn)
    yield from (_text(x(at), top + 12, "×", anchor="middle", colour=ORANGE) for at in range(count) if at not in drawn)
    yield _text(left, top + 12, "ms", colour=GREY)


def porting_plot(cases: Mapping[str, Case]) -> str:
    """Two maps for every kernel, of whole plans carried over and of their sizes as virtual ones: source down, target
    across."""
    cell, parts = 11, []
    side = cell * max((len(case.points) for case in cases.values()), default=0)
    for number, case in enumerate(cases.values()):
        top = 75 + number * (side + 55)
        for column, (name, port) in enumerate((("fixed", port_fixed), ("virtual", port_pinned))):
            left = 70 + column * (side + 90)
            parts.append(_text(left, top - 18, f"{case.label}, {name}", weight="bold"))
            parts += _map(case, port, left, top, cell)
    parts.append(
        _text(
            10, 16, "Largest loss on the target (across) of plans good on the source (down): white none, red twice as"
        )
    )
    parts.append(
        _text(10, 30, "long or more; grey: some of them do not fit; black: none does; crossed: no author was asked.")
    )
    return _svg(2 * (side + 90) + 40, 75 + len(cases) * (side + 55), parts)


def _map(case: Case, port: Callable[[Case, int, int], Porting], left: int, top: int, cell: int) -> Iterator[str]:
    side = len(case.points) * cell
    firsts = [at for at, p in enumerate(case.points) if at == 0 or case.points[at - 1].registers != p.registers]
    yield from _cells(case, port, left, top, cell)
    for at in firsts:
        label = f"{case.points[at].registers} regs"
        yield _text(left - 4, top + at * cell + 10, label, anchor="end", colour=GREY, size=10)
        yield _text(left + at * cell + 2, top - 4, label, colour=GREY, size=10)
        yield _line(left, top + at * cell, left + side, top + at * cell, GREY)
        yield _line(left + at * cell, top, left + at * cell, top + side, GREY)
    yield _line(left, top + side, left + side, top + side, GREY)
    yield _line(left + side, top, left + side, top + side, GREY)


def _cells(case: Case, port: Callable[[Case, int, int], Porting], left: int, top: int, cell: int) -> Iterator[str]:
    for source in range(len(case.points)):
        if not case.good(source):
            yield _text(left + 2, top + source * cell + 9, "×" * 12, colour=GREY, size=9)
            continue
        colours = [_colour(port(case, source, target)) for target in range(len(case.points))]
        start = 0
        for colour, same in groupby(colours):
            stop = start + len(list(same))
            yield _box(left + start * cell, top + source * cell, (stop - start) * cell, cell, colour)
            start = stop


def _colour(found: Porting) -> str:
    return FAILS if found.loss is None else SOME_FAIL if found.failed else _red(round(20 * found.loss) / 20)


def range_plot(cases: Mapping[str, Case]) -> str:
    """For every limits, the worst against the best of what authors pin: whole plans, and sizes alone."""
    wide, high, parts = 48, 20, []
    for number, case in enumerate(cases.values()):
        shared = sorted({point.shared for point in case.points}, reverse=True)
        registers = sorted({point.registers for point in case.points}, reverse=True)
        top = 60 + number * (len(registers) * high + 60)
        for column, (name, of) in enumerate((("fixed", range_fixed), ("virtual", range_pinned))):
            left = 60 + column * (len(shared) * wide + 90)
            parts.append(_text(left, top - 20, f"{case.label}, {name}", weight="bold"))
            parts += [
                _text(left + wide * (n + 0.5), top - 5, f"{size >> 10} KiB", "middle", GREY, 9)
                for n, size in enumerate(shared)
            ]
            for row, count in enumerate(registers):
                parts.append(_text(left - 4, top + row * high + 14, f"{count} regs", "end", GREY, 10))
            for at, point in enumerate(case.points):
                found = of(case, at)
                x, y = left + shared.index(point.shared) * wide, top + registers.index(point.registers) * high
                parts.append(
                    _box(x, y, wide - 1, high - 1, FAILS if found.failed == 1 else _red((found.worst - 1) / 20))
                )
                failed = f" ({100 * found.failed:.0f} %)" if found.failed else ""
                parts.append(_text(x + wide / 2, y + 14, f"{found.worst:.0f}×{failed}", "middle", INK, 9))
    parts.append(_text(10, 16, "Worst against best of what authors pinned (in brackets: how many of them do not fit)."))
    rows = sum(len({point.registers for point in case.points}) * high + 60 for case in cases.values())
    columns = max((len({point.shared for point in case.points}) for case in cases.values()), default=0)
    return _svg(2 * (columns * wide + 90) + 30, 50 + rows, parts)


def _red(loss: float) -> str:
    part = max(0.0, min(1.0, loss / WORST_LOSS)) ** 0.7
    return f"#{255 - int(45 * part):02x}{255 - int(205 * part):02x}{255 - int(215 * part):02x}"


def _svg(width: float, height: float, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="#fff"/>', *parts, "</svg>\n"])


def _text(
    x: float, y: float, text: str, anchor: str = "start", colour: str = INK, size: int = 11, weight: str = ""
) -> str:
    bold = f' font-weight="{weight}"' if weight else ""
    placed = f'x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}"{bold}'
    return f"<text {placed}>{escape(text)}</text>"


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: int = 1) -> str:
    return f'<path d="M{x1:.0f} {y1:.0f}L{x2:.0f} {y2:.0f}" stroke="{colour}" stroke-width="{width}"/>'


def _path(points: Sequence[tuple[float, float]], colour: str) -> str:
    steps = "L".join(f"{x:.0f} {y:.1f}" for x, y in points)
    return f'<path d="M{steps}" fill="none" stroke="{colour}" stroke-width="1.5"/>'


def _dot(x: float, y: float, colour: str, radius: int = 3) -> str:
    return f'<circle cx="{x:.0f}" cy="{y:.1f}" r="{radius}" fill="{colour}"/>'


def _box(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<path d="M{x:.0f} {y:.0f}h{width}v{height}h-{width}z" fill="{colour}"/>'
