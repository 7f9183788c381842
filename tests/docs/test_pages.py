"""Pages' code does what they show. `pytest --update-goldens` puts in what it prints now."""

from __future__ import annotations

from pathlib import Path

import pytest
import triton

from .pages import with_results

DOCS = Path(__file__).parents[2] / "docs"


PAGES = [
    "../README.md",
    "index.md",
    "install.md",
    pytest.param("bundles.md", marks=pytest.mark.thorough),  # it compiles much
    "concepts.md",
    "first-kernels.md",
    "measuring.md",
    "binaries.md",
    "torch.md",
    pytest.param("language.md", marks=pytest.mark.thorough),  # it compiles for a GPU
    "events.md",
    "tracing.md",
    pytest.param("explain.md", marks=pytest.mark.thorough),  # it compiles for a GPU
    "sharing.md",
    "farm.md",
    "library.md",
    "memory.md",
    "memory-placement.md",
    "memory-running.md",
    "needs.md",
    "planning.md",
    pytest.param("searches.md", marks=pytest.mark.thorough),  # it imports scikit-learn and asks a forest
    pytest.param("tutorial.md", marks=pytest.mark.thorough),  # it compiles much
    pytest.param("debugging.md", marks=pytest.mark.thorough),  # it compiles much
    "spdnn.md",
    "tuning.md",
    *(
        pytest.param(f"library/{page.name}", marks=pytest.mark.thorough if page.stem == "finite-elements" else ())
        for page in sorted((DOCS / "library").glob("*.md"))
    ),
]


COMPILING = {"tutorial.md": "vk explain"}
"""Commands that the usual run leaves out, as they compile for GPUs: `test_all_commands_of_the_page` runs them."""


@pytest.mark.parametrize("name", PAGES)
def test_the_page_shows_what_its_code_prints(name, tmp_path, golden, monkeypatch):
    check_page(name, tmp_path, golden, monkeypatch, COMPILING.get(name))


@pytest.mark.thorough
@pytest.mark.parametrize("name", COMPILING)
def test_all_commands_of_the_page(name, tmp_path, golden, monkeypatch):
    check_page(name, tmp_path, golden, monkeypatch, None)


def check_page(name, tmp_path, golden, monkeypatch, without):
    monkeypatch.chdir(tmp_path)  # where its files go
    monkeypatch.syspath_prepend(tmp_path)
    if "\nvk explain" in (DOCS / name).read_text() and triton.__version__.split(".")[:2] != ["3", "9"]:
        pytest.skip(f"the page shows what Triton 3.9 compiles, here is {triton.__version__}")
    golden(DOCS / name, with_results(DOCS / name, tmp_path, without))


PAGE = """```python
import vkernels as vk

@vk.kernel
def nothing(): ...
```
```python
print("one\\ntwo\\nthree")
```

```text
%s```
"""


@pytest.mark.parametrize(
    "shown", ["one\ntwo\nthree\n", "…\nthree\n", "one\n…\n", "one\n…\nthree\n", "…\ntwo\n…\n", "one\nt…\nthree\n"]
)
def test_what_is_shown_stays(shown, tmp_path):
    (tmp_path / "page.md").write_text(PAGE % shown)
    assert with_results(tmp_path / "page.md", tmp_path) == PAGE % shown
    assert "nothing" in (tmp_path / "page.py").read_text()


@pytest.mark.parametrize(
    "shown", ["", "one\ntwo\n", "one\n…\ntwo\n", "two\n…\n", "one\ntwo\nthree\nfour\n", "onetwothree\n"]
)
def test_what_was_not_printed_is_replaced(shown, tmp_path):
    (tmp_path / "page.md").write_text(PAGE % shown)
    assert with_results(tmp_path / "page.md", tmp_path) == PAGE % "one\ntwo\nthree\n"


def test_marked_blocks_are_left_alone(tmp_path):
    (tmp_path / "page.md").write_text("<!-- mine -->\n```python\nraise ValueError\n```\n")
    assert "raise" in with_results(tmp_path / "page.md", tmp_path)


def test_commands_that_do_not_run_stay(tmp_path):
    text = "```bash\nvk tune\n```\n```text\n0.1 s\n```\n" + PAGE % "one\ntwo\n"
    (tmp_path / "page.md").write_text(text)
    assert with_results(tmp_path / "page.md", tmp_path, "vk tune") == text.replace("two\n", "two\nthree\n")


def test_a_block_that_names_a_file_becomes_it(tmp_path):
    (tmp_path / "page.md").write_text("```python\n# other.py\nraise ValueError\n```\n")
    with_results(tmp_path / "page.md", tmp_path)
    assert (tmp_path / "other.py").read_text() == "# other.py\nraise ValueError\n"


def test_what_is_printed_must_be_shown(tmp_path):
    (tmp_path / "page.md").write_text("```python\nprint(1)\n```\n")
    with pytest.raises(AssertionError, match="nothing shows"):
        with_results(tmp_path / "page.md", tmp_path)
