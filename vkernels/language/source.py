"""An author's function as a syntax tree, with locations in its file."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr

from vkernels.ir.errors import SourceRange, UnsupportedError


@dataclass(frozen=True, eq=False)
class FunctionSource:
    """A function's definition. Lines and columns of its nodes are those of `file`: lines from 1, columns from 0."""

    file: str
    definition: ast.FunctionDef

    def place(self, node: ast.AST) -> SourceRange:
        """The source range of a node's first line."""
        line, column = node.lineno, node.col_offset  # type: ignore[attr-defined]
        end = node.end_col_offset if node.end_lineno == line else 1 << 30  # type: ignore[attr-defined]
        return SourceRange(self.file, line, column, end)

    def location(self, node: ast.AST) -> FileLineColLoc:
        """The IR location of a node; its columns count from 1."""
        return _location(self.file, node.lineno, node.col_offset + 1)  # type: ignore[attr-defined]


@lru_cache(maxsize=16384)
def _location(file: str, line: int, column: int) -> FileLineColLoc:
    return FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(column))


def read_source(function: Callable[..., Any]) -> FunctionSource:
    """The source of a function. Raises `UnsupportedError` for lambdas and if Python does not have the source."""
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        raise UnsupportedError(
            f"the source text of `{function.__qualname__}` cannot be found",
            help="A kernel is compiled from its text: define it in a file, in a notebook's cell, "
            "or at the prompt of Python 3.13 or later.",
        ) from None
    text = "".join(lines)
    dedented = textwrap.dedent(text)
    try:
        module = ast.parse(dedented)
    except SyntaxError:
        module = ast.Module([], [])
    definition = module.body[0] if module.body else None
    if not isinstance(definition, ast.FunctionDef):
        raise UnsupportedError(f"`{function.__qualname__}` is not a plain function", help="Write a kernel with `def`.")
    indent = len(lines[0]) - len(lines[0].lstrip())
    _move(definition, first - 1, indent)
    return FunctionSource(inspect.getsourcefile(function) or function.__code__.co_filename, definition)


def _move(tree: ast.AST, lines: int, columns: int) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.expr | ast.stmt | ast.arg | ast.keyword):
            node.lineno += lines
            node.col_offset += columns
            node.end_lineno = (node.end_lineno or node.lineno) + lines
            node.end_col_offset = (node.end_col_offset or node.col_offset) + columns
