"""Runs the code of a page, and puts what it prints where the page shows it.

Python blocks run one after another in one namespace. Those that define kernels also make up the file that commands of
bash blocks are given: `tutorial.py` of tutorial.md. A block that prints is followed by a text block with just that; a
line `…` there stands for any lines, and one that ends with it for any that begins so. A block that begins with the
name of a file, `# models.py`, becomes that file. Blocks right under a comment, `<!-- name -->`, are other tests'
business.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

NAMED = re.compile(r"# (\w+\.py)\n")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$\n?", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block; `shown` is where the text of what it prints begins and ends in the page, if it has any."""

    language: str
    text: str
    end: int
    shown: tuple[int, int] | None

    @property
    def defines_kernels(self) -> bool:
        return "@vk.kernel" in self.text


def blocks(page: str) -> list[Block]:
    """The page's blocks of Python and bash."""
    found = list(BLOCK.finditer(page))
    made = []
    for match, after in zip(found, [*found[1:], None], strict=False):  # a page may have none
        follows = after is not None and after[1] == "text" and not page[match.end() : after.start()].strip()
        if match[1] in ("python", "bash") and not page[: match.start()].endswith("-->\n"):
            made.append(Block(match[1], match[2], match.end(), after.span(2) if follows else None))
    return made


def with_results(path: Path, folder: Path, without: str | None = None) -> str:
    """The page with what its code prints now. Raises what its code raises, and `AssertionError` for unshown prints.

    Blocks of bash that begin with `without` do not run, and stay as they are.
    """
    page = path.read_text()
    file = folder / f"{path.stem.replace('-', '_')}.py"
    names: dict[str, object] = {"__name__": file.stem}
    file.write_text("")
    made, at = [], 0
    for block in blocks(page):
        if without is not None and block.language == "bash" and block.text.startswith(without):
            continue
        found = _python(block, file, names) if block.language == "python" else _bash(block.text, folder)
        found = "\n".join(line.rstrip() for line in found.replace(f"{folder}/", "").splitlines())
        assert block.shown or not found, f"{path.name}: nothing shows what this prints:\n{block.text}\n{found}"
        if block.shown:
            begin, end = block.shown
            made += [page[at:begin], _merged(page[begin:end], f"{found}\n")]
            at = end
    return "".join([*made, page[at:]])


def _python(block: Block, file: Path, names: dict[str, object]) -> str:
    if named := NAMED.match(block.text):
        (file.parent / named[1]).write_text(block.text)
        sys.modules.pop(named[1].removesuffix(".py"), None)  # of another page
        return ""
    before = ""
    if block.defines_kernels:
        before = file.read_text()
        file.write_text(before + block.text + "\n")
    code = compile("\n" * before.count("\n") + block.text, file if block.defines_kernels else "<page>", "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, names)
    return printed.getvalue()


def _bash(text: str, folder: Path) -> str:
    printed = []
    for line in text.replace("\\\n", " ").splitlines():
        if not (words := shlex.split(line, comments=True)):
            continue
        command, *arguments = words
        assert command == "vk", f"not run by the tests: {line}"
        environment = os.environ | {"COLUMNS": "100"}
        done = subprocess.run(
            [sys.executable, "-c", "from vkernels.commands import main; main()", *arguments],
            cwd=folder, env=environment, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode in (0, 1), done.stderr
        printed.append(done.stdout)
    return "".join(printed)


def _merged(shown: str, found: str) -> str:
    """What is shown, if it is what was found but for lines that `…` stands for; else what was found."""
    parts = [re.escape(part) for part in re.split(r"^…\n", shown, flags=re.MULTILINE)]
    wanted = "(?:.*\n)*?".join(parts).replace("…\\\n", ".*\n")
    return shown if re.fullmatch(wanted, found) else found
