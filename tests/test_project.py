"""The project's own files agree with one another."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from .conftest import KINDS, TESTS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]


def names(requirements):
    return {re.split(r"[\[<>=;! ]", line)[0].lower().replace("_", "-") for line in requirements if line.strip()}


def test_every_dependency_has_a_floor_and_a_constraint():
    extras = [line for extra in PROJECT["optional-dependencies"].values() for line in extra]
    needed = [line for line in PROJECT["dependencies"] + extras if not line.startswith("vkernels")]
    assert all(">=" in line for line in needed)
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert names(needed) <= names(line for line in lines if not line.startswith("#"))


def test_the_links_at_the_top_show_the_packages():
    for name in ("ir", "runtime", "autotune"):
        assert (ROOT / name).is_symlink()
        assert (ROOT / name).resolve() == ROOT / "vkernels" / name


@pytest.mark.parametrize("mark", ["run", "test"])
def test_the_readme_has_each_command_in_one_line(mark):
    found = re.search(rf"<!-- {mark} -->\n```bash\n(.*?)\n```\n", (ROOT / "README.md").read_text(), re.S)
    assert found
    assert found[1].startswith("python3 -m venv .venv && .venv/bin/pip install -c constraints.txt ")
    assert "\n" not in found[1]


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) < 150


def test_links_in_the_documentation_lead_somewhere():
    for page in PAGES:
        text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        for target in re.findall(r"\]\((?!http)([^)#]+)", text):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_importing_vkernels_imports_nothing_heavy():
    code = "import sys, vkernels; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "triton", "scipy", "sklearn", "sympy", "llvmlite"} & set(loaded)


def test_tests_whose_kind_is_listed_exist():
    assert [name for name in KINDS if not (TESTS / name).exists()] == []


def test_imports_on_pages_exist():
    for page in PAGES:
        for block in re.findall(r"^```python\n(.*?)^```$", page.read_text(), flags=re.DOTALL | re.MULTILINE):
            for line in re.findall(r"^(?:from|import) vkernels.*$", block, flags=re.MULTILINE):
                try:
                    exec(line, {})
                except ImportError as error:
                    pytest.fail(f"{page.name}: {line}: {error}")


def test_pages_have_no_unresolved_conflict():
    for page in PAGES:
        assert not re.search(r"^(<{7}|>{7}) ", page.read_text(), re.MULTILINE), page.name
