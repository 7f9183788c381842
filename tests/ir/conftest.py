"""Golden tests: every `// RUN:` line of a `.mlir` file is a test, run in this process.

A line reads `// RUN: vk-opt OPTIONS %s | filecheck OPTIONS %s`; `vk-opt` may be piped into `vk-opt` again, or into
`lower-to-llvm`, which prints the CPU lowering. `not vk-opt` expects it to fail, its message joined to what filecheck
reads.
"""

from __future__ import annotations

import io
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import parse_argv_options
from filecheck.parser import Parser

from vkernels.ir.dialect import MappedOp
from vkernels.ir.lowering.llvm.lower_to_llvm import lower_to_llvm
from vkernels.ir.opt import main
from vkernels.ir.text import parse_module

_RUN = re.compile(r"^\s*//\s*RUN:\s*(.*?)\s*$", re.MULTILINE)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    return Golden.from_parent(parent, path=file_path) if file_path.suffix == ".mlir" else None


class Golden(pytest.File):
    """A `.mlir` file: one test a `RUN` line."""

    def collect(self) -> Iterator[pytest.Item]:
        commands = _RUN.findall(self.path.read_text(encoding="utf-8"))
        for number, command in enumerate(commands or [""], 1):
            name = "run" if len(commands) < 2 else f"run{number}"
            yield GoldenItem.from_parent(self, name=name, command=command)


class GoldenFailure(Exception):
    """What a golden test shows when it fails."""


class GoldenItem(pytest.Item):
    """One `RUN` line."""

    def __init__(self, command: str, **rest: Any):
        super().__init__(**rest)
        self.command = command

    def runtest(self) -> None:
        stages = self.command.replace("%s", shlex.quote(str(self.path))).split(" | ")
        if len(stages) < 2:
            raise GoldenFailure(f"expected `// RUN: vk-opt ... | filecheck ...`, found `{self.command}`")
        text = ""
        for stage in stages[:-1]:
            text = _lowered(text) if stage == "lower-to-llvm" else _opt(stage, text)
        _check(stages[-1], text)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:
        if isinstance(excinfo.value, GoldenFailure):
            return f"{self.path}\n// RUN: {self.command}\n{excinfo.value}"
        return str(super().repr_failure(excinfo, style))

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, f"{self.path.name}: {self.command}"


def _opt(stage: str, text: str) -> str:
    """The output of a `vk-opt` stage that reads `text`."""
    words = shlex.split(stage)
    refuses = words[:1] == ["not"]
    program, *options = words[1:] if refuses else words
    if program != "vk-opt":
        raise GoldenFailure(f"expected vk-opt, found {program}")
    out, err, stdin = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(text.encode()))
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = main(options)
    except SystemExit as stopped:
        code = stopped.code
    finally:
        sys.stdin = stdin
    if refuses != bool(code):
        raise GoldenFailure(f"vk-opt ended with {code}\n{err.getvalue()}{out.getvalue()}")
    return out.getvalue() + (err.getvalue() if refuses else "")


def _lowered(text: str) -> str:
    """The MLIR text that a mapped kernel is lowered to for a CPU, with vector registers of 32 bytes."""
    (kernel,) = parse_module(text).ops
    assert isinstance(kernel, MappedOp)
    return lower_to_llvm(kernel).text


def _check(stage: str, text: str) -> None:
    """Raise where filecheck, with the stage's options, does not find in `text` what the file expects."""
    options = parse_argv_options(shlex.split(stage))
    matcher = Matcher(options, FInput("-", text), Parser.from_opts(options))
    matcher.stderr = message = io.StringIO()
    if matcher.run() != 0:
        raise GoldenFailure(f"{message.getvalue()}\n--- output ---\n{text}")
