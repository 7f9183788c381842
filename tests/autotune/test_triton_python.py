"""`vk.tune` of plain Triton kernels."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

import vkernels as vk
from vkernels.autotune import triton_python
from vkernels.autotune.triton_bounds import StaticBounds
from vkernels.autotune.triton_configs import TritonConfig
from vkernels.inspect.cases import KernelSource

from .test_triton_tuning import FILE

torch = pytest.importorskip("torch")
A100 = "a100-sxm4-80"
GRID = "cdiv(N, BLOCK)"


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The kernels of a file that the program has imported."""
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    path = tmp_path / "plain_kernels_in_python.py"
    path.write_text(FILE)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)
    spec.loader.exec_module(module)
    return module


def inputs(n: int = 1 << 20, **more):
    return {"a": torch.zeros(n), "b": torch.zeros(n), "N": n, **more}


@pytest.fixture
def bounds(monkeypatch: pytest.MonkeyPatch):
    """Bounds that are known: the larger a block, the faster; and the tasks and targets that were asked for."""
    asked = []

    class Bounds(StaticBounds):
        def __init__(self, task, target, tools, stop):
            super().__init__(task, target, tools, stop)
            asked.append((task, target.key))

        def _found(self, config):
            return 1.0 / (int(config.constants["BLOCK"]) * config.warps)

    monkeypatch.setattr(triton_python, "StaticBounds", Bounds)
    return asked


def test_block_sizes_are_tuned_around_the_given_ones_for_each_device(kernels, bounds):
    told = []
    found = vk.tune(kernels.copy, inputs(BLOCK=64), grid=GRID, slices=[A100, "h100-sxm5-80"], budget="125",
                    on_trial=told.append)  # fmt: skip
    assert list(found) == [A100, "h100-sxm5-80"]
    for each in found.values():
        assert each.best.config == TritonConfig({"BLOCK": 256}, 16, each.best.config.stages)
        assert each.given.config.constants == {"BLOCK": 64}
        assert each.gain > 1
    config = found[A100].best.config.to_triton()
    assert (config.kwargs, config.num_warps) == ({"BLOCK": 256}, 16)
    assert len(told) == sum(len(each.trials) for each in found.values())
    (task, _), (_, other) = bounds
    assert other != A100
    assert task.arguments["N"] == 1 << 20
    assert dict(task.signature.types) == {"a": "*fp32", "b": "*fp32", "N": "i32"}
    assert set(task.signature.divisible) == {"a", "b", "N"}
    assert isinstance(task.source, KernelSource)


def test_types_and_multiples_follow_from_the_arguments(kernels, bounds):
    half = torch.zeros(1 << 10, dtype=torch.bfloat16)
    vk.tune(kernels.copy, (half, half[1:], (1 << 10) - 1, 64), grid=GRID, slices=[A100], budget="2")
    ((task, _),) = bounds
    assert dict(task.signature.types) == {"a": "*bf16", "b": "*bf16", "N": "i32"}
    assert task.signature.divisible == ("a",)


def test_an_autotune_list_is_taken_as_it_is(kernels, bounds):
    found = vk.tune(kernels.pruned, inputs(), grid=GRID, slices=[A100], budget="50")[A100]
    assert found.varied == ()
    assert found.count == len(kernels.pruned.configs)
    assert any("prune" in note for note in found.notes)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"grid": None}, "needs its grid"),
        ({"grid": "cdiv(N"}, "grid"),
        ({"slices": None}, "runs on GPUs"),
        ({"slices": "a100-sxm4-80"}, "expected a list"),
        ({"slices": ["cpu:cores=1"]}, "not on cpu:cores=1"),
        ({"slices": ["cuda:0"]}, "on the CPU"),
        ({"slices": ["a100-sxm4-8"]}, "did you mean"),
        ({"objective": "p99"}, "do not apply"),
        ({"inputs": {**inputs(8), "M": 3}}, "no parameter M"),
        ({"inputs": {"a": torch.zeros(8), "N": 8, "BLOCK": 64}}, "b is missing"),
        ({"inputs": {**inputs(8, BLOCK=64), "a": torch.zeros(8, dtype=torch.complex64)}}, "complex64"),
    ],
)
def test_what_does_not_fit_is_refused(kernels, bounds, options, text):
    given = {"inputs": inputs(BLOCK=64), "grid": GRID, "slices": [A100], "budget": "2", **options}
    with pytest.raises((vk.OptionError, vk.ArgumentError), match=text):
        vk.tune(kernels.copy, given.pop("inputs"), **given)


def test_a_grid_is_for_plain_kernels_only():
    from vkernels.library.rows import softmax_rows

    with pytest.raises(vk.OptionError, match="grid: applies to plain Triton kernels"):
        vk.tune(softmax_rows, (torch.zeros(2, 2), torch.zeros(2, 2)), grid=GRID)


@pytest.mark.thorough
def test_a_kernel_is_tuned_by_its_binaries(kernels):
    found = vk.tune(kernels.copy, inputs(BLOCK=64), grid=GRID, slices=[f"{A100}:1g.10gb"], budget="6")
    (tuned,) = found.values()
    assert tuned.ranked_by == "static bound"
    assert tuned.best is not None
    assert {trial.reason for trial in tuned.trials} == {""}
