"""The few pieces of HTML and SVG that the page is made of. Every text that goes in is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from ..words import printable


def text(words: object) -> str:
    """Words as HTML: nothing in them is markup, nothing turns the line round."""
    return escape(printable(str(words)))


def block(words: str) -> str:
    """A text of many lines, as it is."""
    return escape(printable(words, newlines=True))


def tag(name: str, inside: str, kind: str = "") -> str:
    """An element around markup."""
    return f'<{name} class="{escape(kind)}">{inside}</{name}>' if kind else f"<{name}>{inside}</{name}>"


def paragraph(words: str, kind: str = "") -> str:
    return tag("p", text(words), kind) if words else ""


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of texts."""
    head = "".join(tag("th", text(each)) for each in heads)
    body = "".join(tag("tr", "".join(tag("td", text(each)) for each in row)) for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def svg(width: float, height: float, shapes: Iterable[str], title: str) -> str:
    """A drawing that scales with the page; `title` says it in words."""
    inside = "".join(shapes)
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" style="max-width:{width:g}px" role="img">'
        f"<title>{text(title)}</title>{inside}</svg>"
    )


def bar(x: float, y: float, width: float, height: float, kind: str, title: str = "") -> str:
    """A rectangle; no number makes it negative."""
    told = f"<title>{text(title)}</title>" if title else ""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(0.0, width):.1f}" height="{height:.1f}" class="{escape(kind)}">'
        f"{told}</rect>"
    )


def line(x: float, y: float, to_x: float, to_y: float, kind: str) -> str:
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" class="{escape(kind)}"/>'


def label(x: float, y: float, words: object, kind: str = "", anchor: str = "start", most: int = 60) -> str:
    """A short text in a drawing."""
    said = str(words)
    short = said if len(said) <= most else f"{said[: most - 1]}…"
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{escape(anchor)}" class="{escape(kind)}">{text(short)}</text>'
