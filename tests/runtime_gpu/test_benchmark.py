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
    monkeypatch.setattr(module, "ON", "cpu")
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
