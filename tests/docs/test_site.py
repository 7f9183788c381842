"""The site is made without a warning, and every function that the library gives has its place on it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from vkernels import library

pytest.importorskip("sphinx", reason="the docs extra is not installed")

DOCS = Path(__file__).parents[2] / "docs"
GIVEN = set(library.__all__)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site's folder; whatever Sphinx warns of is an error."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", f"{out}/doctrees", DOCS, f"{out}/html"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return out / "html"


def public() -> dict[str, Callable[..., object]]:
    """The library's functions, and their gradients and other functions that stand beside them."""
    found: dict[str, Callable[..., object]] = {}
    for module in pkgutil.iter_modules(library.__path__, "vkernels.library."):
        functions = inspect.getmembers(importlib.import_module(module.name), inspect.isfunction)
        found |= {name: function for name, function in functions if function.__module__ == module.name}
    ends = ("_backward", "_forward", "_parts")
    base = {name: next((name.removesuffix(e) for e in ends if name.endswith(e)), name) for name in found}
    return {name: function for name, function in found.items() if base[name] in GIVEN}


def test_each_function_of_the_library_is_on_one_page(site):
    """A new file of the library goes to its family's page in docs/library."""
    from sphinx.util.inventory import InventoryFile

    functions = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="").data["py:function"]
    pages: dict[str, list[str]] = {}
    for name, item in functions.items():
        pages.setdefault(name.rsplit(".")[-1], []).append(item.uri.partition("#")[0])
    assert {name: len(pages.get(name, [])) for name in public()} == dict.fromkeys(public(), 1)
    assert all(page.startswith("library/") for found in pages.values() for page in found)
    assert set(public()) >= GIVEN


def test_each_function_says_what_it_takes_and_raises():
    """Itself, or by the function that it names."""
    functions = public()
    for name, function in functions.items():
        text, named = "", [name]
        for other in named:
            text += inspect.getdoc(functions[other]) or ""
            named += [each for each in re.findall(r"`(\w+)", text) if each in functions and each not in named]
        unsaid = [p for p in inspect.signature(function).parameters if not re.search(rf"\b{p}\b", text)]
        assert not unsaid, f"{name} does not say what {', '.join(unsaid)} is"
        assert "Raises `" in text, f"{name} does not say what it raises"
        assert re.search("f32|float32|dtype", text), f"{name} does not say which dtypes it takes"


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
