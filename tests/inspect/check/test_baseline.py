"""Baselines of checks: what counts as worse, and which files are refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkernels.inspect.cases import JitCase, JitSignature, KernelSource
from vkernels.inspect.check.baseline import (
    FORMAT,
    Baseline,
    baseline_cell,
    compare,
    kernel_place,
    read_baseline,
    write_baseline,
)
from vkernels.inspect.check.cells import Cell, LaunchFailure, LaunchUse, judge
from vkernels.ir.errors import FileError
from vkernels.targets import target_named

from . import fakes

TARGET = target_named("t4")
CASE = fakes.case([[]])


def cell(case=CASE, unknown="", **taken):
    launch = judge("k", LaunchUse(128, fakes.resources(**taken), 1.0), TARGET)
    return Cell(case.source.shown, "t4", "sm_75", case.dtype, case.shape, case.configuration, (launch,), unknown)


def misfit():
    return replace(cell(), launches=(judge("k", LaunchFailure("it aborts", 1.0), TARGET),))


def as_baseline(*run):
    return Baseline(FORMAT, 1, "3.6.0", [baseline_cell(case, found) for case, found in run])


def changes(before, now, tolerance=2.0):
    found = compare(as_baseline((CASE, before)), [(CASE, now)], tolerance)
    return [change for each in found.regressions for change in each.changes]


@given(was=st.integers(1, 150), grown=st.integers(0, 100), tolerance=st.floats(0, 200))
def test_registers_are_worse_beyond_the_tolerance(was, grown, tolerance):
    is_worse = bool(changes(cell(registers=was), cell(registers=was + grown), tolerance))
    assert is_worse == (was + grown > was * (1 + tolerance / 100))


def test_each_figure_is_compared_and_less_is_never_worse():
    small = cell(registers=40, dynamic_shared=1000, spill_load_bytes=0)
    large = cell(registers=60, dynamic_shared=2000, spill_load_bytes=8)
    assert changes(small, large) == [
        "60 registers per thread, were 40, +50.0%",
        "2000 bytes of shared memory, were 1000, +100.0%",
        "8 bytes spilled per thread, were 0",
    ]
    assert changes(large, small) == changes(small, small) == []


def test_what_fitted_must_fit_and_what_is_unknown_is_no_regression():
    assert changes(cell(), misfit()) == ["does not fit any more: it aborts"]
    assert changes(misfit(), cell()) == changes(misfit(), misfit()) == []
    unknown = replace(cell(unknown="no compiler"), launches=())
    assert changes(cell(), unknown) == changes(unknown, cell()) == []
    assert compare(as_baseline((CASE, cell())), [(CASE, unknown)], 0).unknown == 1


def test_other_sizes_and_constants_are_other_cells():
    others = [replace(CASE, shape={"N": 2}), replace(CASE, constants={"told": "x"}), replace(CASE, strides={"x": (2,)})]
    for other in [*others, replace(CASE, dtypes={"x": "int8"}), replace(CASE, deterministic=True)]:
        found = compare(as_baseline((CASE, cell())), [(other, cell(registers=200))], 0)
        assert (found.regressions, found.compared, found.added, found.missing) == ((), 0, 1, 1)


def test_a_baseline_is_read_as_it_was_written(tmp_path):
    jit = JitCase(KernelSource("k", file="mine.py"), JitSignature((("x", "*fp32"),), (("B", 64),), ("x",)))
    cells = [baseline_cell(CASE, cell()), baseline_cell(CASE, cell()), baseline_cell(jit, misfit())]
    write_baseline(tmp_path / "b.json", cells, "3.6.0")
    assert read_baseline(tmp_path / "b.json") == Baseline(FORMAT, 1, "3.6.0", cells[1:])


HOSTILE = {
    "cut": (lambda text: text[: len(text) // 2], "not JSON"),
    "empty": (lambda text: "", "not JSON"),
    "a list": (lambda text: "[]", "no baseline"),
    "results of --json": (lambda text: '{"schema_version": 1, "command": "check"}', "'format' is missing"),
    "without a version": (lambda text: text.replace('"schema_version": 1, ', ""), "'schema_version' is missing"),
    "a newer version": (lambda text: text.replace('version": 1', 'version": 2'), "expected 1, got 2"),
    "another format": (lambda text: text.replace(FORMAT, "other"), "expected 'vkernels check baseline'"),
    "a negative figure": (lambda text: text.replace('"registers": 32', '"registers": -1'), ">= 0"),
    "a figure in words": (lambda text: text.replace('"registers": 32', '"registers": "few"'), "Expected `int | null`"),
    "an unknown field": (lambda text: text.replace('"fits"', '"fit"'), "unknown field `fit`"),
    "control characters": (lambda text: text.replace("fake", "\\u001b[2J"), "printable"),
    "a cell twice": (lambda text: repeated(text), "stands twice"),
    "nested too deeply": (lambda text: "[" * 200_000, "nested too deeply"),
}


def repeated(text):
    data = json.loads(text)
    return json.dumps({**data, "cells": data["cells"] * 2})


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_that_is_no_baseline_is_refused(tmp_path, name):
    path = tmp_path / "b.json"
    write_baseline(path, [baseline_cell(CASE, cell())], "3.6.0")
    spoil, words = HOSTILE[name]
    path.write_text(spoil(path.read_text()))
    with pytest.raises(FileError, match=r"b\.json") as error:
        read_baseline(path)
    assert words in str(error.value)


def test_the_line_of_a_kernel(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("import triton\n\n\n@triton.jit\ndef add(x):\n    pass\n")
    place = kernel_place(KernelSource("add", file=str(path)))
    assert (place.line, place.pointed()) == (5, "def add(x):\n    ^^^")
    assert kernel_place(KernelSource("sub", file=str(path))) is None
    assert kernel_place(KernelSource("add", file=str(tmp_path / "absent.py"))) is None
    assert kernel_place(KernelSource("softmax_rows", module="vkernels.library.rows")).file.endswith("rows.py")


def test_how_a_baseline_is_made_is_said_where_there_is_none(tmp_path):
    with pytest.raises(FileError, match=r"there is no baseline .*none\.json; --write-baseline .*none\.json makes one"):
        read_baseline(tmp_path / "none.json")
