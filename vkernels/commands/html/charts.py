"""Bar charts as data; the template `charts.html` draws them as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


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
    left: float = 150.0
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

    def x(self, fraction: float) -> float:
        """A fraction of the plot's width in SVG units."""
        return self.left + min(max(fraction, 0.0), 1.0) * self.plot_width
