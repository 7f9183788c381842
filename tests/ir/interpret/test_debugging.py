"""A traced run is Python code at its author's lines: breakpoints, steps, variables."""

from __future__ import annotations

import bdb
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr

from vkernels.ir.errors import CheckError
from vkernels.ir.interpret import interpret
from vkernels.ir.text import parse_module

from .kernels import tile

SOURCE = """@vk.kernel
def total(x, n, out):
    i = vk.tile("M")
    row = x[i]
    acc = row
    for k in vk.range(n):
        acc = acc + row
        if flag:
            low = acc
        else:
            high = acc
    out[i] = acc
"""
ROW = tile("f32", "i")
TEXT = f"""vk.kernel @total(%x: !vk.tensor<[M], f32>, %n: i64, %flag: i1, %out: !vk.tensor<[M], f32>) {{ // 2
  %m = vk.size M // 3
  vk.tile i < %m // 3
  %row = vk.load %x[i] : !vk.tensor<[M], f32> -> {ROW} // 4
  %zero = arith.constant 0 : i64 // 6
  %acc = vk.range %k = %zero to %n carrying (%sofar = %row : {ROW}) {{ // 6
    %next = arith.addf %sofar, %row : {ROW} // 7
    scf.if %flag {{ // 8
      %low = arith.addf %next, %row : {ROW} // 9
    }} else {{
      %high = arith.addf %next, %row : {ROW} // 11
    }}
    vk.yield %next : {ROW} // 6
  }}
  vk.store %acc in %out[i] : !vk.tensor<[M], f32> <- {ROW} // 12
}}"""


@pytest.fixture(autouse=True)
def tracing() -> Iterator[None]:
    """A debugger ends all tracing; whoever traced before, such as a coverage measurement, goes on."""
    before = sys.gettrace()
    yield
    sys.settrace(before)


@pytest.fixture
def kernel(tmp_path) -> tuple[ModuleOp, str]:
    """The module, its operations at the lines that the comments say, and the author's file."""
    file = tmp_path / "author.py"
    file.write_text(SOURCE)
    module = parse_module(TEXT)
    lines = [int(line.split("//")[1]) for line in TEXT.splitlines() if "//" in line]
    ops = [op for op in module.walk() if op.name not in ("builtin.module", "scf.yield")]
    for op, line in zip(ops, lines, strict=True):
        op.location = FileLineColLoc(StringAttr(str(file)), IntAttr(line), IntAttr(5))
        for name in ("row", "acc", "next"):
            for result in op.results:
                if result.name_hint == name:
                    result.name_hint = {"next": "acc"}.get(name, name)
    return module, str(file)


class Recorder(bdb.Bdb):
    """Stops at breakpoints, or at every line of one file, and notes what it sees there."""

    def __init__(self, file: str, stepping: bool = False):
        super().__init__()
        self.file, self.stepping = self.canonic(file), stepping
        self.seen: list[tuple[int, dict[str, Any]]] = []

    def user_line(self, frame: FrameType) -> None:
        if self.canonic(frame.f_code.co_filename) == self.file:
            self.seen.append((frame.f_lineno, {k: np.copy(v) for k, v in frame.f_locals.items() if k[0] != "_"}))
        self.set_step() if self.stepping else self.set_continue()


def arguments() -> dict[str, Any]:
    return {"x": np.array([1, 2], np.float32), "n": 2, "flag": True, "out": np.zeros(2, np.float32)}


def test_breakpoints_stop_at_the_authors_line_and_show_tiles(kernel):
    module, file = kernel
    debugger = Recorder(file)
    assert debugger.set_break(file, 7) is None
    given = arguments()
    debugger.runcall(interpret, module, given, trace=True)
    assert [line for line, _ in debugger.seen] == [7, 7]
    first, second = (values for _, values in debugger.seen)
    assert (first["k"], second["k"]) == (0, 1)
    np.testing.assert_array_equal(first["row"], [1, 2])
    np.testing.assert_array_equal(second["acc"], [2, 4])
    np.testing.assert_array_equal(given["out"], [3, 6])


def test_conditional_breakpoints_see_the_values(kernel):
    module, file = kernel
    debugger = Recorder(file)
    debugger.set_break(file, 7, cond="k == 1 and acc[0] > 1")
    debugger.runcall(interpret, module, arguments(), trace=True)
    assert [(line, int(values["k"])) for line, values in debugger.seen] == [(7, 1)]


@pytest.mark.parametrize(("flag", "branch"), [(True, 9), (False, 11)])
def test_stepping_follows_the_authors_lines(kernel, flag, branch):
    module, file = kernel
    debugger = Recorder(file, stepping=True)
    debugger.runcall(interpret, module, {**arguments(), "flag": flag}, trace=True)
    lines = [line for n, (line, _) in enumerate(debugger.seen) if n == 0 or line != debugger.seen[n - 1][0]]
    once = [7, 8, branch, 8, 6]
    assert lines in ([3, 4, 6, *once, *once, 12], [2, 3, 4, 6, *once, *once, 12])


def test_traced_and_plain_runs_give_the_same(kernel):
    module, _ = kernel
    plain, traced = arguments(), arguments()
    interpret(module, plain)
    interpret(module, traced, trace=True)
    np.testing.assert_array_equal(plain["out"], traced["out"])


def test_errors_of_traced_runs_have_the_authors_frame(kernel):
    module, file = kernel
    given = {**arguments(), "out": np.zeros(2, np.float32)}
    load = next(op for op in module.walk() if op.name == "vk.load")
    one = parse_module("vk.kernel @k() {\n%one = arith.constant 1 : i64\n}")
    constant = next(op for op in one.walk() if op.name == "arith.constant")
    constant.detach()
    assert load.parent is not None
    load.parent.insert_op_before(constant, load)
    from vkernels.ir.dialect import LoadOp

    shifted = LoadOp(load.operands[0], [([("i", 1)], constant.results[0])], load.results[0].type)
    shifted.location = load.location
    load.parent.insert_op_before(shifted, load)
    with pytest.raises(CheckError) as error:
        interpret(module, given, trace=True)
    frames = [(entry.path, entry.lineno + 1) for entry in error.traceback]
    assert any(str(path) == file and line == 4 for path, line in frames)
