"""Pages on phones and in the dark."""

from __future__ import annotations

import re

import pytest

from vkernels.autotune.figures import page_of
from vkernels.commands.formatting import byte_scale
from vkernels.commands.html import render
from vkernels.commands.html.charts import LETTER, SWATCH, BarChart, Plots


def of_a_command():
    return render("live.html", title="a title", refresh=0, courses={}, done=(), width=10, height=10)


def of_figures():
    return page_of("a title", [])


@pytest.mark.parametrize("page", [of_a_command, of_figures])
def test_pages_scale_to_the_screen_and_follow_its_colours(page):
    html = page()
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in html
    dark = re.search(r"@media\(prefers-color-scheme:dark\)\{:root\{(.*?)\}\}", html)[1]
    light = re.search(r":root\{(color-scheme:light dark.*?)\}", html)[1]
    changed = set(re.findall(r"(--\w+):", dark))
    assert {"--ink", "--paper"} <= changed <= set(re.findall(r"(--\w+):", light))


def test_plots_have_no_colour_of_their_own_behind_them():
    graph_objects = pytest.importorskip("plotly.graph_objects")
    plots = Plots()
    figure = graph_objects.Figure(graph_objects.Scatter(x=[1, 2], y=[3, 4]))
    plots.add("one", figure)
    layout = figure.layout
    assert {layout.paper_bgcolor, layout.plot_bgcolor} == {"rgba(0,0,0,0)"}
    assert layout.xaxis.gridcolor == layout.yaxis.gridcolor == "rgba(134,142,150,0.3)"


def test_entries_of_a_legend_do_not_overlap_where_they_fit():
    legend = [("one", "preprocessing"), ("two", "a"), ("three", "transfer"), ("four", "rest")]
    chart = BarChart("a title", (), width=420.0, legend=legend)
    places = list(chart.legend_places())
    assert [(kind, text) for kind, text, _ in places] == legend
    ends = [x + LETTER * len(text) + SWATCH for _, text, x in places]
    assert all(end <= start for end, (_, _, start) in zip(ends, places[1:], strict=False))
    assert ends[-1] <= chart.width
    assert not list(BarChart("a title", ()).legend_places())


@pytest.mark.parametrize(("most", "expected"), [(0, (1, "B")), (1023, (1, "B")), (5 << 20, (1 << 20, "MiB"))])
def test_axes_of_bytes_have_a_binary_unit(most, expected):
    assert byte_scale(most) == expected
