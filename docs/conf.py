"""The site, made by Sphinx. Pages are Markdown (MyST), the library's come from its docstrings; warnings are errors:

    sphinx-build -W --keep-going docs build/docs

Only `index.md` and the pages of `library/` and `api/` hold directives, so that all others read the same on a code host.
"""

from __future__ import annotations

import inspect
import re
import sys
from importlib import metadata
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

import vkernels
from vkernels import library

sys.modules["vk"] = vkernels  # the reference calls it what users call it, so that a search for `vk.kernel` finds it

project = "vkernels"
author = "the authors of vkernels"
release = metadata.version("vkernels")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
exclude_patterns = ["README.md"]  # its table is the navigation on a code host
html_theme = "furo"
html_title = f"vkernels {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/favicon.svg"
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
html_show_sourcelink = False
html_copy_source = False
viewcode_follow_imported_members = True

myst_heading_anchors = 3

smartquotes = False
add_module_names = False
highlight_language = "none"  # what a block prints is no Python
default_role = "literal"  # docstrings have code in single backticks
autodoc_type_aliases = {"Array": "Array", "Pair": "Pair"}
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_default_options = {"ignore-module-all": True}  # gradients too
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 100

BESIDE = ("_backward", "_forward", "_parts")
"""How functions are named that stand beside those which the library gives."""


def is_public(name: str, value: object) -> bool:
    """Whether callers of the library are meant to use it: what it gives, and what stands beside that."""
    given = next((name.removesuffix(end) for end in BESIDE if name.endswith(end)), name)
    return inspect.isfunction(value) and bool({name, given} & set(library.__all__))


def skips(app: Sphinx, what: str, name: str, value: object, skip: bool, options: object) -> bool | None:
    """Leave kernels, helpers and tables out of a family's page."""
    if what != "module":
        return None
    return None if is_public(name, value) else True


SAID = re.compile(r"(?:^|(?<=[.;] ))(?=`\*{0,2}\w+`(?:, `\*{0,2}\w+`)*: )")
"""Where a sentence about parameters begins: "`rows`, `columns`: of the matrix."."""


def lists_parameters(app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Show paragraphs that say several parameters as lists, and what is raised in a paragraph of its own."""
    paragraphs = []
    for paragraph in "\n".join(lines).split("\n\n"):
        text = re.sub(r"\n(?! )", " ", paragraph.strip("\n"))
        parts = [part.strip() for part in SAID.split(text)]
        if len(parts) < 3 or "\n" in text:
            paragraphs.append(paragraph)
            continue
        last, *raised = re.split(r"(?<=\.) (?=Raises `)", parts[-1], maxsplit=1)
        items = [f"- {part}" for part in (*parts[1:-1], last)]
        paragraphs += [parts[0]] * bool(parts[0]) + ["\n".join(items), *raised]
    lines[:] = "\n\n".join(paragraphs).split("\n")


def shortens(
    app: Sphinx, what: str, name: str, value: object, options: object, signature: str | None, result: str | None
) -> tuple[str | None, str | None]:  # fmt: skip
    """Write defaults that are made anew for each object as `...`: `<factory>` is no Python."""
    return signature and signature.replace("<factory>", "..."), result


def setup(app: Sphinx) -> None:
    app.connect("autodoc-skip-member", skips)
    app.connect("autodoc-process-docstring", lists_parameters)
    app.connect("autodoc-process-signature", shortens)
    app.add_lexer("mlir", TextLexer)  # Pygments knows none
