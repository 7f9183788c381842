"""The reference lists every operation with its docstring, and the promotion table is the one that kernels follow."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import pytest

import vkernels as vk
from vkernels.language import operations
from vkernels.language.dtypes import DTYPES, PromotionError, promote

from .examples import EXAMPLES, TENSORS, empty, kernels, legend, outcome, shown

DOCS = Path(__file__).parents[2] / "docs"


def test_reference(golden, tmp_path):
    """Each operation stands there with its docstring, and with what comes of an example; none is without."""
    made = kernels(tmp_path)
    families: dict[str, list[str]] = {}
    for name in operations.__all__:
        function = getattr(operations, name)
        families.setdefault(function.__module__, []).append(name)
    lines = [legend()]
    for module in families:
        title = inspect.getdoc(sys.modules[module])
        lines += [
            "",
            f"### {module.rsplit('.')[-1].replace('_', ' ').capitalize()}",
            title,
            "",
            "| operation | | example | gives |",
            "|---|---|---|---|",
        ]
        for name in families[module]:
            function = getattr(operations, name)
            text = " ".join(inspect.getdoc(function).split()).replace("|", "\\|")
            code = "<br>".join(f"`{line.replace('|', '&#124;')}`" for line in EXAMPLES[name].code.split("\n"))
            gives = outcome(made[name], EXAMPLES[name])
            lines.append(f"| `vk.{name}({_parameters(function)})` | {text} | {code} | {gives} |")
    golden(DOCS / "language.md", between(DOCS / "language.md", "operations", "\n".join(lines).strip()))


def _parameters(function) -> str:
    shown = []
    for parameter in inspect.signature(function).parameters.values():
        star = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
        shown.append(f"{star}{parameter.name}{default}")
    return ", ".join(shown)


@pytest.mark.slow
def test_examples_compiled_give_what_they_give_interpreted(tmp_path):
    for name, kernel in kernels(tmp_path).items():
        example = EXAMPLES[name]
        if name not in ("print", "device_assert"):
            out = empty(example)
            kernel(*TENSORS.values(), out)
            assert shown(out) == outcome(kernel, example), name


def test_each_example_shows_its_operation():
    assert sorted(EXAMPLES) == sorted(operations.__all__)
    assert [name for name, example in EXAMPLES.items() if f"vk.{name}(" not in example.code] == []


def test_errors(golden):
    lines = ["| error | is a | |", "|---|---|---|"]
    for name in vk.__all__:
        error = getattr(vk, name)
        if isinstance(error, type) and issubclass(error, vk.Error):
            kind = f"`{error.__mro__[1].__name__}`" if error is not vk.Error else "exception"
            lines.append(f"| `vk.{name}` | {kind} | {' '.join((inspect.getdoc(error) or '').split())} |")
    golden(DOCS / "debugging.md", between(DOCS / "debugging.md", "errors", "\n".join(lines)))


def test_each_name_of_the_language_is_explained_somewhere():
    text = "\n".join(page.read_text() for page in DOCS.glob("*.md"))
    assert [name for name in vk.__all__ if not re.search(rf"`@?vk\.{name}\b", text)] == []


def test_promotion_table(golden):
    names = [name for name in DTYPES if not DTYPES[name].is_f8]
    lines = [f"| | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for a in names:
        lines.append(f"| **{a}** | {' | '.join(_promoted(a, b) for b in names)} |")
    golden(DOCS / "dtypes.md", between(DOCS / "dtypes.md", "promotion", "\n".join(lines)))


def _promoted(a: str, b: str) -> str:
    try:
        return promote(DTYPES[a], DTYPES[b]).name
    except PromotionError:
        return "–"


def between(path: Path, marker: str, text: str) -> str:
    """A document with the text between its markers replaced."""
    pattern = re.compile(rf"(<!-- {marker}:[^\n]*-->\n).*?(<!-- end -->)", re.DOTALL)
    return pattern.sub(lambda match: f"{match[1]}{text}\n{match[2]}", path.read_text())
