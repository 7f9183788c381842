"""A pool as a map of offsets over time, to zoom into: each block is a rectangle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vkernels.memory.placed import PlacedBlock

from ..formatting import byte_scale, format_bytes, format_seconds
from ..html.charts import Plots, plain

MAX_BLOCKS = 6000
"""Rectangles of a map; the largest by bytes times duration are shown."""
GLOBAL = "#adb5bd"
COLOURS = ("#4c7fd0", "#d9822b", "#2b8a3e", "#ae3ec9", "#0c8599", "#e8590c", "#5f3dc4", "#66a80f", "#c2255c", "#1971c2")
"""Of blocks, by name; tensors that outlive the iteration are grey."""
EDGE = "#868e96"
"""Of every block: seen on paper and in the dark, even around blocks of a few bytes."""


@dataclass(frozen=True)
class OffsetMap:
    """Blocks at offsets. `times`: when each moment begins, and when the last ends; `unit`: what they count.

    `capacity`: a line to draw, in bytes.
    """

    blocks: Sequence[PlacedBlock]
    times: Sequence[float]
    unit: str = "seconds"
    capacity: int | None = None

    @property
    def left_out(self) -> int:
        """Blocks that are too small to be shown."""
        return max(0, len(self.blocks) - MAX_BLOCKS)


def plot_map(plots: Plots, found: OffsetMap, id: str = "map") -> None:
    """Draw the map in the element of that id."""
    from plotly.graph_objects import Figure

    scale, unit = byte_scale(max((block.offset + block.size for block in found.blocks), default=0))
    shown = sorted(found.blocks, key=lambda block: -block.size * (block.end - block.start))[:MAX_BLOCKS]
    parts = [(block, *part) for block in shown for part in _parts(block, found.times)]
    figure = Figure()
    figure.add_bar(
        x=[(start + end) / 2 for _, start, end in parts], width=[end - start for _, start, end in parts],
        base=[block.offset / scale for block, _, _ in parts], y=[block.size / scale for block, _, _ in parts],
        hovertext=[plain(_text(block, end - start, found.unit)) for block, start, end in parts], hoverinfo="text",
        marker={"color": [_colour(block) for block, _, _ in parts], "line": {"width": 0.5, "color": EDGE}},
        showlegend=False,
    )  # fmt: skip
    if found.capacity is not None:
        x, y = [found.times[0], found.times[-1]], [found.capacity / scale] * 2
        figure.add_scatter(x=x, y=y, mode="lines", name="capacity", line={"color": "#c92a2a", "dash": "dash"})
    figure.update_layout(barmode="overlay", bargap=0, dragmode="zoom")
    figure.update_xaxes(title=found.unit, range=[found.times[0], found.times[-1]])
    figure.update_yaxes(title=f"offset, {unit}", rangemode="tozero")
    plots.add(id, figure, height=560)


def _parts(block: PlacedBlock, times: Sequence[float]) -> Iterator[tuple[float, float]]:
    """When a block is there: in two parts if it wraps."""
    count = len(times) - 1
    spans = ((block.start, block.end),) if block.end <= count else ((0, block.end - count), (block.start, count))
    for start, end in spans:
        yield times[start], times[end]


def _text(block: PlacedBlock, duration: float, unit: str) -> str:
    for_ = format_seconds(duration) if unit == "seconds" else f"{duration:g} {unit}"
    lines = f"{block.name}, {format_bytes(block.size)} at offset {block.offset}, for {for_}"
    return f"{lines}; {block.source}" if block.source else lines


def _colour(block: PlacedBlock) -> str:
    if block.is_global:
        return GLOBAL
    return COLOURS[sum(map(ord, block.name)) % len(COLOURS)]
