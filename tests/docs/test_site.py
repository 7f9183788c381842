"""The site: its navigation has every page, its links and names lead somewhere, and the reference has every public name.

Only the thorough run builds it; `.ci/run` does, too, and there warnings are errors.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import vkernels
import vkernels.torch
from vkernels import autotune, library, memory

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if page != DOCS / "README.md")
REFERENCE = sorted((DOCS / "api").glob("*.md"))
GIVEN = set(library.__all__)
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
CONTRIBUTORS = {"architecture", "dialect", "mapped-ir", "gpu-day"}
"""Pages for contributors, which may name files of the repository."""


def public() -> dict[str, Callable[..., object]]:
    """The library's functions, and their gradients and other functions that stand beside them."""
    found: dict[str, Callable[..., object]] = {}
    for module in pkgutil.iter_modules(library.__path__, "vkernels.library."):
        functions = inspect.getmembers(importlib.import_module(module.name), inspect.isfunction)
        found |= {name: function for name, function in functions if function.__module__ == module.name}
    ends = ("_backward", "_forward", "_parts")
    base = {name: next((name.removesuffix(e) for e in ends if name.endswith(e)), name) for name in found}
    return {name: function for name, function in found.items() if base[name] in GIVEN}


def named(pages: list[Path]) -> Counter[str]:
    """What the pages' directives name, `vk.` as `vkernels.`, and how often."""
    directive = re.compile(r"^\.\. (?:auto(?:class|data|exception|function)|py:data):: (\S+)$", re.MULTILINE)
    names = [name for page in pages for name in directive.findall(page.read_text())]
    return Counter(re.sub(r"^vk\.", "vkernels.", name) for name in names)


def looked_up(name: str) -> object:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def anchors(page: Path) -> set[str]:
    """The names of the page's headings, as a code host and MyST make them."""
    titles = re.findall(r"^#{1,6} (.*)$", FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_the_navigation_has_every_page():
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```$", (DOCS / "index.md").read_text(), re.DOTALL | re.MULTILINE)
    lines = [line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")]
    found = [page for line in lines for page in DOCS.glob(f"{line}.md")]
    assert sorted(found) == [page for page in PAGES if page != DOCS / "index.md"]


def test_the_table_of_pages_has_every_page():
    """On a code host there is no navigation but docs/README.md."""
    table = (DOCS / "README.md").read_text()
    missing = [page.name for page in DOCS.glob("*.md") if page.name not in ("README.md", "index.md")]
    assert [name for name in missing if f"]({name})" not in table] == []


def test_the_tables_of_measurements_have_every_page():
    folder = DOCS / "measurements"
    table = (folder / "README.md").read_text()
    assert [page.name for page in folder.glob("2*.md") if f"]({page.name})" not in table] == []


def test_links_to_headings_lead_somewhere():
    for page in [*PAGES, DOCS / "README.md"]:
        for file, anchor in re.findall(r"\]\((?!http)([^)#]*)#([^)]+)\)", FENCED.sub("", page.read_text())):
            target = page.parent / file if file else page
            assert anchor in anchors(target), f"{page.name}: {file}#{anchor}"


def test_the_reference_has_every_public_name_once():
    names = named(REFERENCE)
    expected = {f"vkernels.{name}" for name in vkernels.__all__}
    expected |= {f"vkernels.torch.{name}" for name in vkernels.torch.__all__ if name not in ("patient", "torch_op")}
    expected |= {f"vkernels.memory.{name}" for name in memory.__all__}
    expected |= {f"vkernels.autotune.{name}" for name in getattr(autotune, "__all__", ())}
    assert expected - names.keys() == set()
    assert [name for name, count in names.items() if count > 1] == []


def test_the_reference_has_what_pages_import():
    """What a page imports from modules of ours is public: it stands in the reference, or is the library's."""
    imports = re.compile(r"^from (vkernels[\w.]*) import ([\w, ]+)$", re.MULTILINE)
    names = named(REFERENCE)
    for page in PAGES:
        if page.stem in CONTRIBUTORS or page.parent.name == "measurements":
            continue
        for module, line in imports.findall(page.read_text()):
            for name in (part.strip() for part in line.split(",")):
                value = getattr(importlib.import_module(module), name)
                same = [each for each in names if each.endswith(f".{name}") and looked_up(each) is value]
                listed = same or module.startswith("vkernels.library") or f"{module}.{name}" in CONSTANTS
                assert listed, f"{page.name}: {module}.{name}"


CONSTANTS = {"vkernels.autotune.searches.DEFAULT_SEARCH", "vkernels.autotune.searches.SEARCHES"}


def test_every_name_of_the_reference_exists_and_is_described():
    for name in named(REFERENCE):
        value = looked_up(name)
        text = inspect.getdoc(value) or ""
        assert text.strip(), f"{name} has no docstring"
        assert not (inspect.isclass(value) and text.startswith(f"{value.__name__}(")), f"{name} has no docstring"


def test_each_function_of_the_library_is_on_one_page():
    """A new file of the library goes to its family's page in docs/library."""
    listed = Counter(
        module
        for page in (DOCS / "library").glob("*.md")
        for module in re.findall(r"^\.\. automodule:: (\S+)\n   :members:$", page.read_text(), re.MULTILINE)
    )
    modules = {function.__module__ for function in public().values()}
    assert {module: listed[module] for module in modules} == dict.fromkeys(modules, 1)
    assert set(public()) >= GIVEN


def test_each_function_says_what_it_takes_and_raises():
    """Itself, or by the function that it names."""
    functions = public()
    for name, function in functions.items():
        text, names = "", [name]
        for other in names:
            text += inspect.getdoc(functions[other]) or ""
            names += [each for each in re.findall(r"`(\w+)", text) if each in functions and each not in names]
        unsaid = [p for p in inspect.signature(function).parameters if not re.search(rf"\b{p}\b", text)]
        assert not unsaid, f"{name} does not say what {', '.join(unsaid)} is"
        assert "Raises `" in text, f"{name} does not say what it raises"
        assert re.search("f32|float32|dtype", text), f"{name} does not say which dtypes it takes"


def test_pages_for_users_name_no_files_of_ours():
    """A command of a benchmark may be named, as the source of a figure."""
    for page in PAGES:
        if page.stem in CONTRIBUTORS or page.parent.name in ("measurements", "library"):
            continue
        text = re.sub(r"<!--.*?-->", "", page.read_text())
        files = re.findall(r"(?<![\w/.])(?:vkernels|tests)/[\w/]*\w(?:\.\w+)?", text)
        found = [file for file in files if (DOCS.parent / file).exists()]
        assert found == [], f"{page.name}: {found}"


@pytest.mark.thorough
def test_the_site_is_made_without_a_warning(tmp_path):
    """And a search for a name finds it: the index has `vk.kernel`, and each public name once."""
    pytest.importorskip("sphinx", reason="the docs extra is not installed")
    from sphinx.util.inventory import InventoryFile

    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-d",
        f"{tmp_path}/trees",
        DOCS,
        f"{tmp_path}/html",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    data = InventoryFile.loads((tmp_path / "html" / "objects.inv").read_bytes(), uri="").data
    objects = {name for kind, items in data.items() if kind.startswith("py:") for name in items}
    assert {f"vk.{name}" for name in vkernels.__all__} <= objects
    ends = Counter(name.rsplit(".")[-1] for name in data["py:function"] if name.startswith("vkernels.library."))
    assert {name: ends[name] for name in public()} == dict.fromkeys(public(), 1)
