"""The GPU benchmark says where there is no GPU, and its checks tell right from wrong; tried with tensors of the CPU."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
import torch

from vkernels.memory import Report

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu.py"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(SCRIPT.parent)
    spec = spec_from_file_location("benchmarks_gpu", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "benchmarks_gpu", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(sys.modules["gpu_cases"], "ON", "cpu")
    return module


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_it_says_so() -> None:
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, timeout=120)
    assert done.returncode == 3
    assert "no GPU" in done.stdout


SMALL = {"softmax": (9, 37), "layer_norm": (9, 37), "matmul": (17, 31, 65), "spdnn": (33, 4, 29)}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", SMALL)
def test_right_results_are_right_and_wrong_ones_are_not(gpu: ModuleType, name: str, dtype: torch.dtype) -> None:
    case = gpu.CHECKED[name][0](*SMALL[name], dtype)
    assert gpu.check(case).right, gpu.check(case)
    torch.testing.assert_close(case.theirs().double(), case.exact(), rtol=0.05, atol=0.05)

    def unwritten() -> torch.Tensor:
        result = case.ours().clone()
        result[-1, -1] = float("nan")
        return result

    def off() -> torch.Tensor:
        result = case.ours().clone()
        result[-1, -1] += 0.05 * float(result.abs().max())
        return result

    def fails() -> torch.Tensor:
        raise RuntimeError("made up")

    assert not gpu.check(replace(case, ours=off)).right
    assert "not written" in gpu.check(replace(case, ours=unwritten)).problem
    assert gpu.check(replace(case, ours=fails)).problem == "RuntimeError: made up"


@pytest.fixture
def memory(gpu: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = gpu.gpu_memory
    small = {"cnn": lambda: module.cnn(8, 2, 4, 16), "transformer": lambda: module.transformer(32, 1, 2, 16)}
    for name, value in {
        "ON": "cpu",
        "PROGRAMS": small,
        "STEPS": 5,
        "PARTS": (0.5,),
        "TRANSFER": 1 << 20,
        "IN_A_ROW": 1,
    }.items():
        monkeypatch.setattr(module, name, value)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield module
    torch.set_num_threads(before)


def test_steps_in_less_memory_are_checked_and_timed(memory: ModuleType) -> None:
    found = list(memory.checks())
    assert [(each.program, each.part, each.problem) for each in found] == [
        (name, 0.5, "") for name in ("cnn", "transformer")
    ]
    assert all(0 < each.arena <= each.part * each.peak and each.moved for each in found)
    timed = list(memory.timings(2))
    assert [(each.program, each.part) for each in timed] == [(each.program, each.part) for each in found]
    assert all(each.simulated > 0 and each.limited.median > 0 for each in timed)
    assert memory.table_of(timed).row_count == 2


def test_other_bits_and_plans_that_are_not_followed_are_no_right_results(
    memory: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Off:
        """A limit that changes what it is to leave as it is, or plans nothing."""

        def __init__(self, step, size):
            self.step, self.calls = step, 0
            self.report = Report(planned=5 - 3)

        def __call__(self):
            self.calls += 1
            return self.step() + (self.calls == 5)

        def close(self):
            pass

    make = memory.PROGRAMS["cnn"]
    monkeypatch.setattr(memory.vkernels.memory, "limit", Off)
    assert memory.check("cnn", make, 0.5).problem == "other bits than without a limit"
    monkeypatch.setattr(Off, "__call__", lambda self: self.step())
    assert memory.check("cnn", make, 0.5).right
    monkeypatch.setattr(memory, "STEPS", 6)
    assert "2 of 3 calls followed the plan" in memory.check("cnn", make, 0.5).problem
