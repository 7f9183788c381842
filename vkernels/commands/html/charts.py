"""Charts of HTML reports: bar charts as data, which the template `charts.html` draws as SVG, and plots by plotly."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from ..formatting import printable

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


LETTER, SWATCH = 8.0, 14.0
"""Width of a letter in a legend, as on a phone, and of its colour, in SVG units."""


@dataclass(frozen=True)
class Segment:
    """A rectangle in a row. `start` and `width` are fractions of the plot's width; `kind` is its CSS class."""

    width: float
    kind: str
    title: str = ""
    start: float = 0.0
    text: str = ""


@dataclass(frozen=True)
class BarRow:
    """A row: its label, its segments, and a value at their right (`end`: where, as a fraction of the plot's width)."""

    label: str
    segments: Sequence[Segment]
    value: str = ""
    end: float = 0.0
    is_head: bool = False


@dataclass(frozen=True)
class BarChart:
    """A chart. Sizes are in SVG units; `limit` and the positions of `heads` are fractions of the plot's width."""

    title: str
    rows: Sequence[BarRow]
    width: float = 760.0
    left: float = 168.0
    right: float = 130.0
    row_height: float = 26.0
    corner: str = ""
    heads: Sequence[tuple[float, str]] = ()
    columns: int = 0
    limit: float | None = None
    legend: Sequence[tuple[str, str]] = ()

    @property
    def plot_width(self) -> float:
        return self.width - self.left - self.right

    @property
    def top(self) -> float:
        """Where the rows begin."""
        return 26.0 if self.heads or self.corner else 0.0

    @property
    def bottom(self) -> float:
        """Where the rows end."""
        return self.top + self.row_height * len(self.rows)

    def legend_places(self) -> Iterator[tuple[str, str, float]]:
        """Each entry of the legend with its x; the room between entries is shared evenly."""
        needed = [LETTER * len(text) + SWATCH for _, text in self.legend]
        gap = max(0.0, self.width - sum(needed)) / max(1, len(needed))
        x = 0.0
        for (kind, text), width in zip(self.legend, needed, strict=True):
            yield kind, text, x
            x += width + gap

    def x(self, fraction: float) -> float:
        """A fraction of the plot's width in SVG units."""
        return self.left + min(max(fraction, 0.0), 1.0) * self.plot_width


LAYOUT: Mapping[str, Any] = {
    "template": "none", "margin": {"l": 60, "r": 20, "t": 34, "b": 90}, "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)", "font": {"color": "#868e96"},
    "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": "#868e96", "activecolor": "#4c7fd0"},
    "legend": {"orientation": "h", "y": -0.16},
    "hovermode": "closest",
}  # fmt: skip
"""Colours are legible on light and dark pages; the legend stands below, with room for two lines on a phone."""

GRID: Mapping[str, Any] = {"gridcolor": "rgba(134,142,150,0.3)", "zerolinecolor": "rgba(134,142,150,0.6)"}


def plain(text: str) -> str:
    """Escape a text for plotly, which takes some tags in texts as markup."""
    return escape(printable(text))


class Plots:
    """The plots of one page, by the id of the element that each fills. Without plots there are no scripts."""

    def __init__(self) -> None:
        self._figures: dict[str, Any] = {}
        self._scripts: tuple[str, ...] | None = None

    def add(self, id: str, figure: Figure, height: int = 320) -> str:
        """Show a figure in the element of that id; return the id."""
        figure.update_layout(**LAYOUT, height=height + 74)
        figure.update_xaxes(**GRID).update_yaxes(**GRID)
        self._figures[id] = json.loads(figure.to_json())
        return id

    def scripts(self) -> tuple[str, ...]:
        """plotly's own source, and a script that draws each figure."""
        if not self._figures:
            return ()
        if self._scripts is None:
            from plotly.offline import get_plotlyjs

            figures = json.dumps(self._figures).replace("<", "\\u003c").replace(">", "\\u003e")
            draw = (
                f"const figures = {figures};\n"
                "for (const [id, figure] of Object.entries(figures))\n"
                "  Plotly.newPlot(id, figure.data, figure.layout, {responsive: true, displaylogo: false});"
            )
            self._scripts = (get_plotlyjs(), draw)
        return self._scripts

    def hashes(self) -> tuple[str, ...]:
        """What the page's Content-Security-Policy allows to run: these scripts and no others."""
        digests = (hashlib.sha256(script.encode()).digest() for script in self.scripts())
        return tuple(base64.b64encode(digest).decode() for digest in digests)
