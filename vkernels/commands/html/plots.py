"""Interactive plots by plotly, inline in a page: it needs no network."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from ..formatting import printable

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

LAYOUT: Mapping[str, Any] = {
    "template": "none", "margin": {"l": 60, "r": 10, "t": 10, "b": 40}, "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)", "font": {"color": "#868e96"}, "legend": {"orientation": "h", "y": -0.15},
    "hovermode": "closest",
}  # fmt: skip
"""Colours are legible on light and dark pages; the legend stands below, so that plots fit a phone."""


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
        figure.update_layout(**LAYOUT, height=height)
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
