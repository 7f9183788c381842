"""Files of kernels with other names for everything that is local to a kernel."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from pathlib import Path

Renaming = Callable[[str], str]


def renamed_file(source: Path, target: Path, new_name: Renaming, package: str = "vkernels.library") -> dict[str, str]:
    """Copy a module with `new_name` of each local variable of its kernels; return the new name of each.

    Axes, scratchpads and positions of loops are local variables. A name has the same new name in all kernels.
    """
    tree = ast.parse(source.read_text())
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            node.module, node.level = f"{package}.{node.module}", 0
        if isinstance(node, ast.FunctionDef) and any(_is_kernel(each) for each in node.decorator_list):
            _rename(node, found, new_name)
    target.write_text(ast.unparse(tree))
    return found


def _is_kernel(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(called) in ("vk.kernel", "vk.function")


def _rename(function: ast.FunctionDef, found: dict[str, str], new_name: Renaming) -> None:
    names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
    parameters = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    own = {node.id for node in names if isinstance(node.ctx, ast.Store)} - parameters
    for name in sorted(own - found.keys()):
        found[name] = new_name(name)
    for node in names:
        if node.id in own:
            node.id = found[node.id]


def renamed(text: str, names: Mapping[str, str]) -> str:
    """A name in a plan after a renaming: `e`, or `e_2` of the second phase of that name."""
    base, _, number = text.rpartition("_")
    if base in names and number.isdigit():
        return f"{names[base]}_{number}"
    return names.get(text, text)
