"""Cells come of what children do, whatever that is, and what is the same is compiled once."""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext

import pytest

from vkernels.compiler.workers.compile_pool import CompilePool
from vkernels.inspect.check import check as checking
from vkernels.inspect.check.check import CheckTools, check
from vkernels.inspect.worker_client import InspectPool
from vkernels.ir.disk_cache import DiskCache
from vkernels.ir.errors import FileError
from vkernels.targets import known_targets, target_named

from . import fakes


@pytest.fixture(scope="module")
def preparing():
    """The fake child that prepares cases for all tests here."""
    with InspectPool(1, service=fakes.PREPARER) as pool:
        yield pool


@pytest.fixture(scope="module")
def compiling():
    """The fake compilers of all tests here that set no limits of their own."""
    with CompilePool(2, 60.0, compiler=fakes.COMPILER) as pool:
        yield pool


@pytest.fixture
def checked(monkeypatch, preparing, compiling):
    """Checks cases on targets with fake children; `cache`: a folder; `limits`: seconds, and bytes of memory."""
    monkeypatch.setattr(checking, "read_binary", fakes.read_binary)

    def run(cases, targets, cache=None, **limits):
        own = CompilePool(2, **limits, compiler=fakes.COMPILER) if limits else nullcontext(compiling)
        with own as compilers:
            disk = None if cache is None else DiskCache(cache)
            tools = CheckTools(preparing, compilers, disk, "3.9.0")
            steps = []
            found = check(cases, targets, tools, lambda *step: steps.append(step))
            assert steps[-1][1] == steps[-1][2]
            return found

    return run


def devices(*names):
    return [target_named(name) for name in names]


@pytest.mark.slow
def test_every_case_meets_every_target_in_order(checked):
    targets = list(known_targets().values())
    found = checked([fakes.case([[{}]], "one"), fakes.case([[{}]], "other")], targets)
    assert [(c.kernel, c.target) for c in found.cells] == [(k, t.key) for k in ("one", "other") for t in targets]


def test_cells_of_one_architecture_and_plan_compile_once(checked, tmp_path):
    log = str(tmp_path / "log")
    targets = [t for t in known_targets().values() if t.architecture in ("sm_90", "sm_86", "gfx942")]
    assert len(targets) > 3
    found = checked([fakes.case([[{"log": log}]]), fakes.case([[{"log": log}]], "again")], targets)
    assert sorted((tmp_path / "log").read_text().split()) == ["gfx942", "sm_86", "sm_90"]
    assert found.binaries == 3
    assert all(cell.fits for cell in found.cells)


def test_nothing_is_compiled_that_the_cache_knows(checked, tmp_path):
    log = str(tmp_path / "log")
    cases = [fakes.case([[{"log": log, "registers": 40}], [{"log": log, "act": "refuse"}]], sm_75=1)]
    targets = devices("t4", "h100-sxm5-80")
    first = checked(cases, targets, tmp_path / "cache")
    again = checked(cases, targets, tmp_path / "cache")
    assert (first.cached, again.cached) == (0, 2)
    assert first.cells == again.cells
    assert sorted((tmp_path / "log").read_text().split()) == ["sm_75", "sm_90"]


def test_damaged_entries_of_the_cache_are_made_again(checked, tmp_path):
    targets = devices("h100-sxm5-80")
    first = checked([fakes.case([[{}]])], targets, tmp_path / "cache")
    for entry in (tmp_path / "cache").iterdir():
        *whole, last = entry.read_bytes()
        entry.write_bytes(bytes([*whole, last ^ 1]))
    again = checked([fakes.case([[{}]])], targets, tmp_path / "cache")
    assert again.cached == 0
    assert [c.fits for c in again.cells] == [c.fits for c in first.cells] == [True]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "reason"),
    [
        ("refuse", "does not compile: no such thing as this"),
        ("hang", "compiling timed out after 2 s"),
        ("abort", "does not compile: the compiler aborted (SIGABRT)"),
        ("eat", "does not compile: the compiler took more than 300 MiB of memory"),
    ],
)
def test_what_a_compiler_does_is_its_own_cells_result(checked, act, reason):
    cases = [fakes.case([[{}]]), fakes.case([[{"act": act}]], "bad"), fakes.case([[{"registers": 50}]])]
    found = checked(cases, devices("h100-sxm5-80"), seconds=2.0, memory_bytes=300 << 20)
    assert [cell.fits for cell in found.cells] == [True, False, True]
    assert found.cells[1].reason.startswith(reason)
    assert found.cells[1].registers_per_thread is None


def test_a_device_that_triton_does_not_know_is_unknown(checked):
    target = dataclasses.replace(target_named("h100-sxm5-80"), key="new", architecture="sm_999")
    (cell,) = checked([fakes.case([[{}]])], [target]).cells
    assert cell.fits is None
    assert "Triton 3.9.0 does not compile for sm_999" in cell.reason


def test_a_plan_that_cannot_be_is_its_cells_result(checked):
    found = checked([fakes.case([[{}]], sm_75="there is no such plan")], devices("t4", "h100-sxm5-80"))
    assert [(cell.fits, cell.reason) for cell in found.cells] == [
        (False, "does not compile: there is no such plan"),
        (True, ""),
    ]


def test_a_binary_that_cannot_be_read_is_its_cells_result(checked, monkeypatch):
    def refuse(binary, artifacts):
        raise FileError("it is damaged")

    monkeypatch.setattr(checking, "read_binary", refuse)
    (cell,) = checked([fakes.case([[{}]])], devices("t4")).cells
    assert (cell.fits, cell.reason) == (False, "what it takes cannot be read: it is damaged")


def test_the_worst_launch_decides(checked):
    launches = [{"registers": 40}, {"registers": 168, "dynamic_shared": 99_000}, {"spill_load_bytes": 8}]
    t4, h100 = checked([fakes.case([launches])], devices("t4", "h100-sxm5-80")).cells
    assert (t4.fits, t4.reason) == (False, "needs 99000 B of shared memory, has 65536")
    assert h100.fits
    assert (h100.registers_per_thread, h100.shared_bytes, h100.spill_bytes) == (168, 99_000, 8)
    assert h100.blocks_per_multiprocessor == min(launch.occupancy.blocks for launch in h100.launches) == 2
    assert h100.limited_by == ("shared",)
    assert [launch.name for launch in h100.launches] == ["launch 0", "launch 1", "launch 2"]
