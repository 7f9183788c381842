"""The reference lists every operation with its docstring, and the promotion table is the one that kernels follow."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

from vkernels.language import operations
from vkernels.language.dtypes import DTYPES, PromotionError, promote

DOCS = Path(__file__).parents[2] / "docs"


def test_reference(golden):
    families: dict[str, list[str]] = {}
    for name in operations.__all__:
        function = getattr(operations, name)
        families.setdefault(function.__module__, []).append(name)
    lines: list[str] = []
    for module in families:
        title = inspect.getdoc(sys.modules[module])
        lines += ["", f"### {module.rsplit('.')[-1].capitalize()}", title, "", "| operation | |", "|---|---|"]
        for name in families[module]:
            function = getattr(operations, name)
            text = " ".join(inspect.getdoc(function).split()).replace("|", "\\|")
            lines.append(f"| `vk.{name}({_parameters(function)})` | {text} |")
    golden(DOCS / "language.md", between(DOCS / "language.md", "operations", "\n".join(lines).strip()))


def _parameters(function) -> str:
    shown = []
    for parameter in inspect.signature(function).parameters.values():
        star = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
        shown.append(f"{star}{parameter.name}{default}")
    return ", ".join(shown)


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
