"""Pages as Jupyter notebooks: a cell for each block of Python with what it prints, and one for the text around it.

Commands stay text: they are for a terminal, and take the page's kernels from a file.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import linecache
import re
from collections.abc import Sequence
from typing import Any

from .pages import Block, blocks

LEFT_OUT = re.compile(r"^…\n", re.MULTILINE)
PLACE = re.compile(r"^[^\s:]+:\d+(?=:\d+: )", re.MULTILINE)
"""File and line in messages, which differ between a page and its notebook."""
FORMAT = {"nbformat": 4, "nbformat_minor": 5}
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def notebook_of(page: str) -> str:
    """A page's notebook, as JSON: its cells are run, and what they print is what the page shows, but for places."""
    cells = cells_of(page)
    run = iter(printed_by(cells))
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            _keep(cell, next(run))
        cell["id"] = hashlib.sha256(f"{number} {cell['source']}".encode()).hexdigest()[:8]
    made = {"cells": cells, "metadata": {"kernelspec": KERNEL, "language_info": {"name": "python"}}, **FORMAT}
    return json.dumps(made, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def cells_of(page: str) -> list[dict[str, Any]]:
    """The cells of a page's notebook, with what the page shows that they print."""
    cells, at = [], 0
    for block in blocks(page):
        if block.language != "python":
            continue
        begin = page.rindex("```python\n", 0, block.end - len("```\n"))
        cells += _text(page[at:begin])
        cells.append(_code(page, block))
        at = block.end if block.shown is None else page.index("```\n", block.shown[1]) + len("```\n")
    return cells + _text(page[at:])


def is_shown(shown: str, printed: str) -> bool:
    """Whether a page shows what is printed, but for places."""
    return matches(PLACE.sub("", shown), PLACE.sub("", printed))


def _text(text: str) -> list[dict[str, Any]]:
    lines = [line for line in text.strip().splitlines(keepends=True) if not line.startswith("<!--")]
    return [{"cell_type": "markdown", "metadata": {}, "source": lines}] if lines else []


def _code(page: str, block: Block) -> dict[str, Any]:
    shown = "" if block.shown is None else page[slice(*block.shown)]
    source = block.text.rstrip().splitlines(keepends=True)
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": _stream(shown), "source": source}


def _stream(text: str) -> list[dict[str, Any]]:
    lines = text.splitlines(keepends=True)
    return [{"name": "stdout", "output_type": "stream", "text": lines}] if text else []


def _keep(cell: dict[str, Any], printed: str) -> None:
    """Replace what a cell shows by what it printed; lines that a page leaves out stay out."""
    shown = shown_by(cell)
    assert is_shown(shown, printed), f"printed:\n{printed}\nthe page shows:\n{shown}"
    if not LEFT_OUT.search(shown):
        cell["outputs"] = _stream(printed)


def matches(shown: str, printed: str) -> bool:
    """Whether this was printed; lines `…` stand for any lines."""
    parts = map(re.escape, LEFT_OUT.split(shown))
    return re.fullmatch("(?:.*\n)*?".join(parts), printed) is not None


def shown_by(cell: dict[str, Any]) -> str:
    """What a cell shows that it prints."""
    return "".join(line for each in cell["outputs"] for line in each["text"])


def printed_by(cells: Sequence[dict[str, Any]]) -> list[str]:
    """What each cell of code prints when all run in order.

    Cells run as in Jupyter: each is a file of its own name, whose text Python keeps.
    """
    names: dict[str, object] = {"__name__": "__main__"}
    found = []
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        source, file = "".join(cell["source"]), f"In[{len(found) + 1}]"
        linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(source, file, "exec"), names)
        found.append("".join(f"{line.rstrip()}\n" for line in printed.getvalue().splitlines()))
    return found
