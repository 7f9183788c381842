"""Configurations of plain Triton kernels that worker processes compile, for a GPU that is not here."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from vkernels.autotune.drive import Stop
from vkernels.autotune.result import MEASURED
from vkernels.autotune.triton_bounds import TritonTask
from vkernels.autotune.triton_configs import TritonConfig, grid_from, listed
from vkernels.autotune.triton_online import MeasuredLaunch, compiled_ahead
from vkernels.autotune.triton_tuning import tune_triton
from vkernels.compiler.backends.triton_launches import compile_launch
from vkernels.inspect.cases import JitSignature, KernelSource, executed

from .test_triton_tuning import Clock

torch = pytest.importorskip("torch")
FILE = """
import time
import triton
import triton.language as tl

@triton.heuristics({"EVEN": lambda args: args["N"] % args["BLOCK"] == 0})
@triton.jit
def copy(a, b, N, scale, BLOCK: tl.constexpr, EVEN: tl.constexpr, dtype: tl.constexpr, sides: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(b + at, (tl.load(a + at, at < N) * scale).to(dtype) + sides[0], at < N)

@tl.core.builtin
def slow(_semantic=None):
    time.sleep(600)

@triton.jit
def hangs(a, b, N, BLOCK: tl.constexpr):
    if BLOCK == 128:
        slow()
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(b + at, tl.load(a + at, at < N), at < N)
"""
GRID = grid_from("cdiv(N, BLOCK)")


class Utils:
    """Loads everything, and runs nothing."""

    def get_device_properties(self, device):
        return {"max_shared_mem": 1 << 17, "multiprocessor_count": 132, "warpSize": 32}

    def load_binary(self, name, kernel, shared, device):
        return 1, 2, 32, 0, 1024


class Driver:
    """An H100 that is not there."""

    utils = Utils()

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0

    def get_current_target(self):
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 90, 32)

    def launcher_cls(self, source, metadata):
        return lambda *arguments: None


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """The kernels of a file, on a GPU that is not there; and whether each compile found its binary on disk."""
    from triton import knobs
    from triton.runtime import driver

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / f"kernels_ahead_{tmp_path.name.replace('-', '_')}.py"
    path.write_text(FILE)
    hits = []
    monkeypatch.setattr(knobs.compilation, "listener", lambda **told: hits.append(told["cache_hit"]))
    monkeypatch.setattr(driver, "_active", Driver())
    return SimpleNamespace(path=str(path), hits=hits, **vars(executed(str(path))))


def launch_of(kernel, **more):
    arguments = {"a": torch.ones(1000), "b": torch.zeros(1000), "N": 1000, **more}
    return MeasuredLaunch(kernel, arguments, GRID, Clock())


def scaled(**more):
    from triton.language import float16

    return {"scale": 0.5, "dtype": float16, "sides": (2, 3), **more}


def test_a_launch_finds_what_another_process_compiled(kernels):
    """The data of a launch make the same source and the same key, with defaults, heuristics, types and tuples."""
    launch = launch_of(kernels.copy, **scaled())
    found = launch.to_compile(TritonConfig({"BLOCK": 128}, 2, 1))
    assert kernels.hits == []
    assert compile_launch(kernels.copy, found)
    assert list(launch.seconds([TritonConfig({"BLOCK": 128}, 2, 1)])) == [pytest.approx(1e-3 / 128)]
    assert kernels.hits == [False, True]
    assert launch.to_compile(TritonConfig({"BLOCK": 128}, 2, 1)) is None
    assert not compile_launch(kernels.hangs, found)


@pytest.mark.slow
def test_workers_compile_and_what_fails_there_is_skipped(kernels, monkeypatch):
    monkeypatch.setattr("vkernels.autotune.triton_online.START_SECONDS", 0.0)
    launch = launch_of(kernels.copy, **scaled())
    configs = [TritonConfig({"BLOCK": size}, 4, 1) for size in (64, 48, 128)]
    source = KernelSource("copy", file=kernels.path)
    with compiled_ahead(launch, source, Stop()) as ahead:
        found = tune_triton(
            TritonTask(source, JitSignature(()), {}, GRID), "nvidia:0", listed(configs), launch.seconds, Stop(),
            ranked_by=MEASURED, ahead=ahead, compare=launch.compared,
        )  # fmt: skip
    assert kernels.hits == [True, True]
    assert found.best.config == configs[2]
    assert [trial.seconds is None for trial in found.trials] == [False, True, False]
    assert found.trials[1].reason.startswith("does not compile: ")
    assert "power of 2" in found.trials[1].reason


@pytest.mark.slow
def test_what_takes_too_long_to_compile_is_skipped(kernels, monkeypatch):
    monkeypatch.setattr("vkernels.autotune.triton_online.compile_seconds", lambda stop: 10.0)
    launch = launch_of(kernels.hangs)
    configs = [TritonConfig({"BLOCK": size}, 4, 1) for size in (64, 128)]
    with compiled_ahead(launch, KernelSource("hangs", file=kernels.path), Stop()) as ahead:
        ahead.begin(configs)
    (first, second) = launch.seconds(configs)
    assert isinstance(first, float)
    assert second == "does not compile: the compiler took more than 10 s"


def test_what_no_worker_finds_is_compiled_here(kernels):
    launch = launch_of(kernels.hangs)
    configs = [TritonConfig({"BLOCK": size}, 4, 1) for size in (64, 256)]
    with compiled_ahead(launch, KernelSource("missing", file=kernels.path), Stop()) as ahead:
        ahead.begin(configs)
    assert all(isinstance(each, float) for each in launch.seconds(configs))
    assert kernels.hits == [False, False]


def test_a_launch_that_cannot_be_bound_says_so_itself(kernels):
    launch = launch_of(kernels.copy)
    assert launch.to_compile(TritonConfig({"BLOCK": 64})) is None
    (found,) = launch.seconds([TritonConfig({"BLOCK": 64})])
    assert "missing" in found
