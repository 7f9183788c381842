"""The site is made without a warning, and every function that the library gives has its place on it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from vkernels import library

pytest.importorskip("sphinx", reason="the docs extra is not installed")

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site's folder; whatever Sphinx warns of is an error."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", f"{out}/doctrees", DOCS, f"{out}/html"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return out / "html"


def test_each_function_of_the_library_is_on_one_page(site):
    from sphinx.util.inventory import InventoryFile

    functions = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="").data["py:function"]
    pages: dict[str, list[str]] = {}
    for name, item in functions.items():
        pages.setdefault(name.rsplit(".")[-1], []).append(item.uri.partition("#")[0])
    assert {name: len(pages.get(name, [])) for name in library.__all__} == dict.fromkeys(library.__all__, 1)
    assert all(page.startswith("library/") for found in pages.values() for page in found)


def test_each_page_is_in_the_table_of_pages(site):
    """On a code host there is no navigation but docs/README.md."""
    table = (DOCS / "README.md").read_text()
    missing = [page.name for page in DOCS.glob("*.md") if page.name not in ("README.md", "index.md")]
    assert [name for name in missing if f"]({name})" not in table] == []


def test_warnings_are_errors(tmp_path):
    (tmp_path / "conf.py").write_text('extensions = ["myst_parser"]\nroot_doc = "index"\n')
    (tmp_path / "index.md").write_text("# Title\n[nowhere](missing.md)\n")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", tmp_path, tmp_path / "html"]
    assert subprocess.run(command, capture_output=True, timeout=300).returncode != 0
