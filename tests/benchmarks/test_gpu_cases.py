"""Checks of the day on a GPU tell right from wrong; tried with tensors of the CPU."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch

from vkernels.memory import Report

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def cases(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = importlib.import_module("gpu_cases")
    monkeypatch.setattr(module, "ON", "cpu")
    return module


SMALL = {"softmax": (9, 37), "layer_norm": (9, 37), "matmul": (17, 31, 65), "spdnn": (33, 4, 29)}


@pytest.mark.sample(4)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", SMALL)
def test_right_results_are_right_and_wrong_ones_are_not(cases: ModuleType, name: str, dtype: torch.dtype) -> None:
    case = cases.CHECKED[name][0](*SMALL[name], dtype)
    assert cases.check(case).right, cases.check(case)
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

    assert not cases.check(replace(case, ours=off)).right
    assert "not written" in cases.check(replace(case, ours=unwritten)).problem
    assert cases.check(replace(case, ours=fails)).problem == "RuntimeError: made up"


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = importlib.import_module("gpu_memory")
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


@pytest.mark.slow
def test_steps_in_less_memory_are_checked_and_timed(memory: ModuleType) -> None:
    links = memory.measured_links()
    for name, make in memory.PROGRAMS.items():
        found = memory.check(name, make, 0.5)
        assert (found.program, found.part, found.problem) == (name, 0.5, "")
        assert 0 < found.arena <= found.part * found.peak
        assert found.moved
        timed = memory.time_program(name, make, 0.5, found.peak // 2, links, 2)
        assert timed.simulated > 0
        assert timed.limited.median > 0


def test_other_bits_and_plans_that_are_not_followed_are_no_right_results(
    memory: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Off:
        """A limit that changes what it is to leave as it is, or plans nothing."""

        def __init__(self, step, size, watch):
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
