"""Lines of code of five kernels, beside Triton's; prints the table of docs/coming-from-triton.md.

    python benchmarks/lines.py

A line counts where code stands on it: not blank, not a comment, not a docstring. Decorators and signatures count, and
so do masks, pointers and strides. Triton's kernels need a function that launches them, with strides, grid and block
sizes; ours are called as they are.
"""

from __future__ import annotations

import ast
import io
import tokenize
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
TITLES = {
    "add": "vector add",
    "softmax": "softmax",
    "layer_norm": "layer norm",
    "matmul": "matmul, bias, ReLU",
    "attention": "attention, causal",
}
NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


@dataclass(frozen=True)
class Count:
    """Lines of one kernel here, of its Triton counterpart, and of the function that launches that one."""

    name: str
    ours: int
    kernel: int
    launch: int

    @property
    def share(self) -> float:
        """Lines here for each line in Triton."""
        return self.ours / (self.kernel + self.launch)

    @property
    def share_of_kernel(self) -> float:
        """The same, without Triton's launch."""
        return self.ours / self.kernel


def functions(path: Path) -> dict[str, str]:
    """The text of each top-level function of a file, decorators included."""
    text = path.read_text()
    found = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    lines = text.splitlines()
    first = {node.name: min([node.lineno, *(d.lineno for d in node.decorator_list)]) for node in found}
    return {node.name: "\n".join(lines[first[node.name] - 1 : node.end_lineno]) + "\n" for node in found}


def lines_of_code(text: str) -> int:
    """Lines of a text with code on them: without blank ones, comments and docstrings."""
    used: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            used.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            said = node.body[0]
            used.difference_update(range(said.lineno, (said.end_lineno or said.lineno) + 1))
    return len(used)


def counts() -> list[Count]:
    """The five kernels, in the order of the page."""
    ours, theirs = (functions(HERE / f"lines_{name}.py") for name in ("vkernels", "triton"))
    count = lines_of_code
    return [Count(n, count(ours[n]), count(theirs[f"{n}_kernel"]), count(theirs[n])) for n in TITLES]


def table() -> str:
    """The counts in Markdown."""
    lines = [
        "| kernel | vkernels | Triton: kernel | its launch | vkernels / Triton | without the launch |",
        "|---|---|---|---|---|---|",
    ]
    for each in counts():
        lines.append(
            f"| {TITLES[each.name]} | {each.ours} | {each.kernel} | {each.launch} "
            f"| {each.share:.2f} | {each.share_of_kernel:.2f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
