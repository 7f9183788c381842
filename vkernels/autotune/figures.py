"""Interactive figures of tuning trials, made by plotly: history, importance, parallel coordinates, pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from itertools import combinations
from math import log10
from typing import TYPE_CHECKING, Any

from vkernels.ir.errors import ArgumentError

from .space import Value
from .trials import Trial

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

MAX_DECISIONS = 8
"""Decisions of a figure: those that weigh most."""
MAX_PAIRS = 6


def history(trials: Sequence[Trial]) -> Figure:
    """The value of every trial, in their order, and the best so far. Failures stand at the lower end."""
    from plotly.graph_objects import Figure

    timed = _timed(trials)
    best, steps = float("inf"), []
    for trial in timed:
        best = min(best, _value(trial))
        steps.append(best)
    failed = [trial for trial in trials if trial.value is None]
    figure = Figure()
    figure.add_scatter(
        x=[each.number for each in timed], y=list(map(_value, timed)), mode="markers", name="tried", opacity=0.6,
        text=[_told(each) for each in timed], hoverinfo="text+y",
    )  # fmt: skip
    figure.add_scatter(x=[each.number for each in timed], y=steps, mode="lines", name="best", line={"shape": "hv"})
    if failed:
        figure.add_scatter(
            x=[each.number for each in failed], y=[0.97 * best] * len(failed), mode="markers", name="failed",
            marker={"symbol": "x"}, text=[f"{each.failure}: {_told(each)}" for each in failed], hoverinfo="text",
        )  # fmt: skip
    figure.update_xaxes(title="trial")
    figure.update_yaxes(title="seconds, or value", type="log")
    return figure


def importance(trials: Sequence[Trial]) -> Figure:
    """For each decision, how many times worse the best plan with another value is: the second best, and the worst."""
    from plotly.graph_objects import Figure

    factors = list(decision_factors(_timed(trials)).items())[:MAX_DECISIONS][::-1]
    names = [escape(name) for name, _ in factors]
    figure = Figure()
    for label, at in (("worst value", -1), ("second best value", 1)):
        values = [sorted(by_value.values())[at] for _, by_value in factors]
        texts = [", ".join(f"{escape(v)} ×{f:.2f}" for v, f in by_value.items()) for _, by_value in factors]
        figure.add_bar(
            y=names, x=[value - 1 for value in values], base=1, orientation="h", name=label, hovertext=texts,
            hoverinfo="text",
        )  # fmt: skip
    figure.update_layout(barmode="overlay")
    figure.update_xaxes(title="× the best")
    return figure


def parallel(trials: Sequence[Trial]) -> Figure:
    """Parallel coordinates: a line for each plan through its decisions and its value; drag along an axis to select."""
    from plotly.graph_objects import Figure, Parcoords

    timed = _timed(trials)
    best = min(map(_value, timed))
    factors = [_value(each) / best for each in timed]
    dimensions = [_axis(name, [each.choices.get(name) for each in timed]) for name in _weighty(timed)]
    ticks = [tick for tick in (1, 1.1, 1.25, 1.5, 2, 3, 5, 10, 30, 100) if tick <= max(factors)]
    logs = [log10(each) for each in factors]
    dimensions.append({"label": "× the best", "values": logs, "tickvals": [log10(tick) for tick in ticks],
                       "ticktext": [f"×{tick}" for tick in ticks]})  # fmt: skip
    lines = {"color": logs, "colorscale": "Viridis", "reversescale": True}
    return Figure(Parcoords(line=lines, dimensions=dimensions))


def pairs(trials: Sequence[Trial]) -> Figure:
    """For each two of the decisions that weigh most: the best value found with each combination of their values."""
    from plotly.graph_objects import Heatmap
    from plotly.subplots import make_subplots

    timed = _timed(trials)
    chosen = list(combinations(_weighty(timed)[:4], 2))[:MAX_PAIRS]
    if not chosen:
        raise ArgumentError("only one decision was tried with several values")
    best = min(map(_value, timed))
    columns = min(3, len(chosen))
    figure = make_subplots(-(-len(chosen) // columns), columns, horizontal_spacing=0.12, vertical_spacing=0.2)
    for at, (across, down) in enumerate(chosen):
        xs, ys = (_ordered({each.choices.get(name) for each in timed}) for name in (across, down))
        least: dict[tuple[Value, Value], float] = {}
        for each in timed:
            key = each.choices.get(across), each.choices.get(down)
            least[key] = min(_value(each) / best, least.get(key, float("inf")))
        rows = [[least.get((x, y)) for x in xs] for y in ys]
        texts = [["" if each is None else f"×{each:.2f}" for each in row] for row in rows]
        heatmap = Heatmap(
            x=[shown(x) for x in xs], y=[shown(y) for y in ys], z=rows, text=texts, texttemplate="%{text}",
            colorscale="Viridis_r", coloraxis="coloraxis", hoverinfo="x+y+text",
        )  # fmt: skip
        row, column = at // columns + 1, at % columns + 1
        figure.add_trace(heatmap, row, column)
        figure.update_xaxes(title=escape(across), type="category", row=row, col=column)
        figure.update_yaxes(title=escape(down), type="category", row=row, col=column)
    figure.update_layout(coloraxis={"colorscale": "Viridis_r", "colorbar": {"title": "× the best"}})
    return figure


FIGURES: Mapping[str, Callable[[Sequence[Trial]], Figure]] = {
    "history": history, "importance": importance, "parallel": parallel, "pairs": pairs,
}  # fmt: skip
_ABOUT = {
    "history": "Each point is a plan that was tried; the line is the best so far; crosses failed.",
    "importance": "For each decision, how many times worse the best plan with another value is.",
    "parallel": "A line for each plan. Drag along an axis to select plans; drag a name to move its axis.",
    "pairs": "The best found with each combination of two decisions, as multiples of the best of all.",
}  # fmt: skip


_STYLE = (
    ":root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff}"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6e8ea;--paper:#15181b}}"
    "body{background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif;max-width:1240px;margin:0 auto;"
    "padding:1.5rem}h1{font-size:1.5rem;overflow-wrap:anywhere}p{max-width:46rem}"
)
"""As the pages of commands."""
_ON_ANY_PAGE = {
    "template": "none", "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)", "font": {"color": "#868e96"},
}  # fmt: skip
_GRID = {"gridcolor": "rgba(134,142,150,0.3)", "zerolinecolor": "rgba(134,142,150,0.6)"}
"""Plots that are legible on light and dark pages."""


def page_of(title: str, trials: Sequence[Trial]) -> str:
    """All figures that the trials allow, as one HTML page which needs no network."""
    parts, script = [f"<h1>{escape(title)}</h1>"], True
    for name, make in FIGURES.items():
        try:
            figure = make(trials)
        except ArgumentError as error:
            parts.append(f"<h2>{name}</h2><p>{escape(str(error))}</p>")
            continue
        figure.update_layout(margin={"t": 30}, legend={"orientation": "h", "y": -0.2}, **_ON_ANY_PAGE)
        figure.update_xaxes(**_GRID).update_yaxes(**_GRID)
        drawn = figure.to_html(full_html=False, include_plotlyjs=script, config={"displaylogo": False})
        script = False
        parts.append(f"<h2>{name}</h2><p>{escape(_ABOUT[name])}</p>{drawn}")
    scale = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    head = f'<meta charset="utf-8">{scale}<title>{escape(title)}</title><style>{_STYLE}</style>'
    return f"<!DOCTYPE html><html><head>{head}</head><body>{''.join(parts)}</body></html>\n"


def decision_factors(timed: Sequence[Trial]) -> dict[str, dict[str, float]]:
    """For each decision with several tried values: by value, the best with it divided by the best of all.

    The decisions that weigh most come first. Raises `ArgumentError` if no decision has two values.
    """
    best = min(map(_value, timed))
    found: dict[str, dict[str, float]] = {}
    for name in dict.fromkeys(name for each in timed for name in each.choices):
        least: dict[str, float] = {}
        for each in timed:
            value = shown(each.choices.get(name))
            least[value] = min(_value(each) / best, least.get(value, float("inf")))
        if len(least) > 1:
            found[name] = dict(sorted(least.items(), key=lambda item: item[1]))
    if not found:
        raise ArgumentError("no decision was tried with two values")
    return dict(sorted(found.items(), key=lambda item: -sorted(item[1].values())[1]))


def shown(value: Value) -> str:
    """A value for people."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value in (None, "") else escape(str(value))


def _weighty(timed: Sequence[Trial]) -> list[str]:
    return list(decision_factors(timed))[:MAX_DECISIONS]


def _axis(name: str, values: Sequence[Value]) -> dict[str, Any]:
    """An axis of parallel coordinates: equidistant values in their order."""
    ordered = _ordered(set(values))
    return {"label": escape(name), "values": [ordered.index(value) for value in values],
            "tickvals": list(range(len(ordered))), "ticktext": list(map(shown, ordered))}  # fmt: skip


def _ordered(values: set[Value]) -> list[Value]:
    """None and texts after numbers, by name; numbers by size."""
    numbers = sorted(value for value in values if isinstance(value, int | float))
    return [*numbers, *sorted((value for value in values if not isinstance(value, int | float)), key=str)]


def _timed(trials: Sequence[Trial]) -> list[Trial]:
    timed = [trial for trial in trials if trial.value is not None]
    if not timed:
        raise ArgumentError("no plan has a time")
    return timed


def _value(trial: Trial) -> float:
    assert trial.value is not None, "it has a time"
    return trial.value


def _told(trial: Trial) -> str:
    return "<br>".join(f"{escape(name)} {shown(value)}" for name, value in trial.choices.items())
