"""Notebooks are their pages, and print what they show. `pytest -m thorough --update-goldens` makes them anew."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .notebooks import cells_of, is_shown, notebook_of, printed_by, shown_by

DOCS = Path(__file__).parents[2] / "docs"
NOTEBOOKS = ("tutorial",)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_notebook_is_the_page(name):
    """`test_pages` runs the page itself."""
    cells = json.loads((DOCS / f"{name}.ipynb").read_text())["cells"]
    made = cells_of((DOCS / f"{name}.md").read_text())
    assert [(cell["cell_type"], cell["source"]) for cell in cells] == [
        (cell["cell_type"], cell["source"]) for cell in made
    ], "make the notebook anew with `pytest -m thorough tests/docs/test_notebooks.py --update-goldens`"
    for cell, of_page in zip(cells, made, strict=True):
        if cell["cell_type"] == "code":
            assert is_shown(shown_by(of_page), shown_by(cell)), cell["source"]


@pytest.mark.thorough
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_notebook_is_the_page_and_prints_what_it_shows(name, golden, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    golden(DOCS / f"{name}.ipynb", notebook_of((DOCS / f"{name}.md").read_text()))


PAGE = """# Title
Words.
```python
x = 6 * 7
```
More.
```python
print(x)
```
```text
42
```
```bash
vk targets
```
The end.
"""


def test_blocks_become_cells_with_results():
    made = json.loads(notebook_of(PAGE))
    assert [cell["cell_type"] for cell in made["cells"]] == ["markdown", "code", "markdown", "code", "markdown"]
    assert made["cells"][3]["outputs"][0]["text"] == ["42\n"]
    assert "vk targets" in "".join(made["cells"][4]["source"])
    assert len({cell["id"] for cell in made["cells"]}) == 5
    assert printed_by(made["cells"]) == ["", "42\n"]


def test_what_was_not_printed_is_refused():
    with pytest.raises(AssertionError, match="the page shows:\n43"):
        notebook_of(PAGE.replace("42\n", "43\n"))
    notebook_of(PAGE.replace("42\n", "…\n"))
