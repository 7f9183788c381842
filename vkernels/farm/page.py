"""The page that a browser shows of a farm; it loads itself again."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

REFRESH_SECONDS = 3
_HEAD = f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh"
content="{REFRESH_SECONDS}"><title>vkernels farm</title><style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem;
color-scheme: light dark }}
table {{ border-collapse: collapse; width: 100% }}
th, td {{ text-align: left; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid #8884 }}
td.number {{ text-align: right; font-variant-numeric: tabular-nums }}
</style></head><body><h1>Tuning farm</h1>"""


def status_page(status: dict[str, Any]) -> str:
    """A page of `Head.status`."""
    jobs = [
        [
            job["number"], job["user"], job["title"], job["state"], f"{job['ended']} of {job['parts']}", job["tried"],
            f"{job['served']:.0f} s", "" if job["gain"] is None else f"{job['gain']:.2f}",
        ]
        for job in reversed(status["jobs"])
    ]  # fmt: skip
    slots = [
        [slot["node"][:12], slot["device"], slot["slice"], ", ".join(map(str, slot["cores"])), slot["job"] or "idle"]
        for slot in status["slots"]
    ]
    unwritten = f"<p>{status['unwritten']} entries wait for the database.</p>" if status["unwritten"] else ""
    return "".join([
        _HEAD, unwritten, f"<h2>Jobs ({len(jobs)})</h2>",
        _table(["job", "user", "what", "state", "ended", "plans", "served", "gain"], jobs),
        f"<h2>Slices ({len(slots)})</h2>", _table(["machine", "device", "slice", "cores", "job"], slots),
        "</body></html>",
    ])  # fmt: skip


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    cells = "".join(f"<th>{escape(each)}</th>" for each in head)
    lines = "".join(
        "<tr>" + "".join(f"<td{_class(cell)}>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{lines}</tbody></table>"


def _class(cell: object) -> str:
    return ' class="number"' if isinstance(cell, int) else ""
