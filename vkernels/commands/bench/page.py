"""The results as one HTML page that needs nothing else: no network, no scripts, drawings as inline SVG."""

from __future__ import annotations

from pathlib import Path

from vkernels.ir.write_file import write_file
from vkernels.library.sparse_network.harness import Results
from vkernels.library.sparse_network.turns import Run

from ..explain.html.markup import paragraph, table, tag, text
from ..explain.html.page import POLICY
from ..explain.html.style import STYLE
from .plots import PLOT_STYLE, live_images, rates, time_spent
from .show import HEADS, LEGEND, ceilings_in_words, place_in_words, row_of, runs_of

TITLE = "Sparse networks of the Graph Challenge"

CLASSES = {
    "general": "Any sparse weights: gather, multiply, clamp; dead images are dropped.",
    "structured": "What preprocessing found in the weights by itself: equal outputs are computed once, outputs with the"
    " same inputs run as blocks.",
    "saturating": "Images are done once they have provably reached a state that no later layer changes.",
}
"""What each class may use. Rates of one are no claim about another."""


def write_page(path: Path, results: Results, target: str, data: str) -> None:
    """Write the page. Raises as `write_file`."""
    write_file(path, page_of(results, target, data))


def page_of(results: Results, target: str, data: str) -> str:
    """The whole page."""
    said = "In every run the images that survive are those of the float64 reference."
    wrong = "Somewhere the images that survive are not those of the float64 reference: see below."
    verdict = paragraph(said, "well") if results.all_match else paragraph(wrong, "bad")
    kinds = "".join(_class(results, kind) for kind in results.settings.kinds)
    where = f"{place_in_words(results, target)}, images: {data}; {ceilings_in_words(results)}."
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><title>{text(TITLE)}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}{PLOT_STYLE}</style></head>\n<body><main><h1>{text(TITLE)}</h1>"
        f"{paragraph(where)}{verdict if results.networks else ''}{paragraph(LEGEND, 'about')}\n"
        f"{kinds}{_live(results)}{_left_out(results)}</main></body></html>\n"
    )


def _section(title: str, introduction: str, inside: str) -> str:
    return tag("section", f"{tag('h2', text(title))}{paragraph(introduction, 'about')}{inside}") + "\n"


def _class(results: Results, kind: str) -> str:
    rows = runs_of(results, kind)
    if not rows:
        return ""
    inside = tag("h3", text("Edges a second")) + rates(rows, results.ceilings)
    inside += tag("h3", text("Where the time goes")) + time_spent(rows)
    inside += table(HEADS, [row_of(*each, results) for each in rows])
    findings = [f"{size}: {'; '.join(run.findings)}." for size, _, run in rows if run.findings]
    inside += "".join(paragraph(each) for each in findings)
    inside += _peers([(str(size), run) for size, _, run in rows])
    return _section(f"Class {kind}", CLASSES.get(kind, ""), inside)


def _peers(runs: list[tuple[str, Run]]) -> str:
    rows = [
        (
            size, name, f"{peer.seconds.middle:.3g}",
            f"{peer.ratio.middle:.2f} ({peer.ratio.least:.2f} to {peer.ratio.most:.2f})",
            "match" if peer.matches else "differ",
        )
        for size, run in runs
        for name, peer in run.peers.items()
    ]  # fmt: skip
    return table(("network", "baseline", "its seconds", "times faster this is", "categories"), rows) if rows else ""


def _live(results: Results) -> str:
    if not results.networks:
        return ""
    said = "Images that still have a feature which is not 0, before each layer. A dead image costs nothing more."
    return _section("Live images by layer", said, live_images(results.networks))


def _left_out(results: Results) -> str:
    if not results.left_out:
        return ""
    rows = [(str(each.size), each.what, each.reason) for each in results.left_out]
    said = "What did not fit into memory or time, and what that was."
    return _section("Left out", said, table(("network", "what", "why"), rows))
