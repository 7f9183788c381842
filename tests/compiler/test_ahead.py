"""Code that is made ahead is what calls run, and they make none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from jaxtyping import Float, Int

import vkernels as vk
from vkernels.compiler.default_session import use_session
from vkernels.compiler.session import CompilerSession
from vkernels.ir.disk_cache import DiskCache
from vkernels.runtime.dispatch import Launcher
from vkernels.runtime.gpu.device import GpuDevice
from vkernels.targets import limits_of, target_named

from ..runtime.gpu.fakes import FakeDriver, OnGpu


def new(name):
    def scaled(
        x: Float[vk.Tensor, "M N"],
        row: Int[vk.Tensor, "K"],
        by: vk.Scalar,
        out: Float[vk.Tensor, "K N"],
        square: vk.Constant = False,
    ):
        k = vk.tile("K")
        j = vk.tile("N")
        value = x[row[k], j] * by
        out[k, j] = value * value if square else value

    scaled.__name__ = name
    return vk.kernel(scaled)


SHAPE = {"M": 40, "N": 256, "K": 30}


def test_a_later_call_on_the_cpu_runs_what_was_made():
    kernel = new("ahead_cpu")
    (made,) = kernel.compile(shapes=SHAPE, targets="cpu", dtype=vk.float64, by=float)
    assert (made.kernel, made.target, made.shape, made.binaries, made.resources) == ("ahead_cpu", "cpu", SHAPE, (), ())
    compiles = vk.stats().kernels["ahead_cpu"].compiles
    x = np.random.default_rng().standard_normal((40, 256))
    row, out, seen = np.arange(30, dtype=np.int64)[::-1].copy(), np.full((30, 256), np.nan), []
    with vk.on_launch(seen.append):
        kernel(x, row, 2.5, out)
    np.testing.assert_array_equal(out, x[row] * 2.5)
    assert vk.stats().kernels["ahead_cpu"].compiles == compiles
    assert (seen[0].plan, seen[0].rung) == (made.plan, made.rung)


def test_a_later_call_on_tensors_in_another_order_runs_what_was_made():
    kernel, layouts = new("ahead_laid_out"), {"x": "N M", "out": "N K"}
    (made,) = kernel.compile(shapes=SHAPE, targets="cpu", dtype="float64", by=float, layouts=layouts)
    (dense,) = kernel.compile(shapes=SHAPE, targets="cpu", dtype="float64", by=float)
    assert made.plan.lanes == "k" != dense.plan.lanes
    compiles = vk.stats().kernels["ahead_laid_out"].compiles
    x = np.random.default_rng().standard_normal((256, 40)).T
    row, out, seen = np.arange(30, dtype=np.int64), np.full((256, 30), np.nan).T, []
    with vk.on_launch(seen.append):
        kernel(x, row, 2.5, out)
    np.testing.assert_array_equal(out, x[row] * 2.5)
    assert vk.stats().kernels["ahead_laid_out"].compiles == compiles
    assert seen[0].plan == made.plan


@pytest.mark.parametrize(
    ("layouts", "said"),
    [
        ({"y": "M N"}, "ahead_no_layout has no tensor 'y'"),
        ({"x": "M"}, "the layout of `x`: expected M N in another order, got 'M'"),
        ({"x": "N N"}, "the layout of `x`: expected M N in another order, got 'N N'"),
        ({"by": "M"}, "has no tensor 'by'"),
    ],
)
def test_a_layout_that_cannot_be_is_refused(layouts, said):
    with pytest.raises(vk.OptionError, match=said):
        new("ahead_no_layout").compile(shapes=SHAPE, targets="cpu", dtype="float64", by=float, layouts=layouts)


@pytest.mark.slow
def test_each_shape_on_each_target_has_binaries_that_fit():
    shapes, targets = [SHAPE, {**SHAPE, "K": 1}], ["t4", "h100-sxm5-80:1g.10gb", target_named("mi300x"), "cpu:cores=1"]
    made = new("ahead_all").compile(shapes=shapes, targets=targets, dtype="float16", by=int, square=True)
    keys = ["t4", "h100-sxm5-80:1g.10gb", "mi300x", "cpu:cores=1"]
    assert [(each.target, each.shape) for each in made] == [(key, shape) for shape in shapes for key in keys]
    for each in made:
        assert each.rung
        assert (each.target == "cpu:cores=1") == (each.binaries == ())
        for taken in each.resources:
            assert taken.use.threads == each.plan.warps * target_named(each.target.partition(":")[0]).sizes.warp
            assert 0 < taken.use.registers <= 255
    assert {each.binaries[0].architecture for each in made if each.binaries} == {"sm_75", "sm_90", "gfx942"}


def test_a_later_process_finds_plan_and_binaries_on_disk(monkeypatch, tmp_path: Path):
    cache, device = DiskCache(tmp_path), "vkernels.runtime.gpu.device.gpu_device"
    driver = FakeDriver()
    monkeypatch.setattr(driver, "parameters", lambda function: 3)
    target = driver.target(0)
    with use_session(CompilerSession(cache)):
        (made,) = new("ahead_disk").compile(shapes=SHAPE, targets=[target], dtype="float32", by=float)

    def no(*args, **kwargs):
        raise AssertionError("nothing is left to do")

    monkeypatch.setattr("vkernels.compiler.gpu_binaries.BinaryCompiler._workers", lambda self: None)
    monkeypatch.setattr("vkernels.ir.planning.choose_plan.plans_down", no)
    monkeypatch.setattr(device, {"cuda:0": GpuDevice(0, driver, target, limits_of(target))}.__getitem__)
    later, seen = CompilerSession(cache), []
    tensors = [torch.zeros(40, 256), torch.zeros(30, dtype=torch.int64), torch.zeros(30, 256)]
    x, row, out = (OnGpu(_aligned(tensor)) for tensor in tensors)
    again = new("ahead_disk")
    with vk.on_launch(seen.append):
        Launcher(again, later)(x, row, 2.0, out)
    assert (seen[0].plan, seen[0].rung) == (made.plan, made.rung)
    assert later.counters.binaries_from_disk == len(made.binaries)
    assert driver.loaded[0][0] == made.binaries[0].code


def _aligned(tensor: torch.Tensor) -> torch.Tensor:
    """A copy whose address is a multiple of 16, as a GPU's allocations are."""
    block = torch.zeros(tensor.numel() + 16, dtype=tensor.dtype)
    skip = -block.data_ptr() % 64 // tensor.element_size()
    return block[skip : skip + tensor.numel()].view(tensor.shape)


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"targets": "h1000"}, vk.OptionError, "there is no target 'h1000'"),
        ({"targets": ["t4", "t4:1g.10gb"]}, vk.OptionError, "1g.10gb"),
        ({"shapes": {**SHAPE, "n": 3}}, vk.OptionError, "has no size 'n'; "),
        ({"shapes": {"M": 4}}, vk.ArgumentError, "the size [KN] is not given"),
        ({"shapes": {**SHAPE, "N": -1}}, vk.OptionError, "the size N: expected a whole number"),
        ({"dtype": "int32", "x": "int32"}, vk.ArgumentError, "`x` cannot be 'int32'; it takes float"),
        ({"dtype": "float99"}, vk.ArgumentError, "no tensor supports 'float99'"),
        ({"by": "text"}, vk.ArgumentError, "`by`: expected float, int or bool"),
        ({"bye": float}, vk.ArgumentError, "no parameter `bye`"),
    ],
)
def test_what_cannot_be_compiled_is_said(wrong, error, words):
    given = {"shapes": SHAPE, "targets": "t4", "by": float, **wrong}
    with pytest.raises(error, match=words):
        new("ahead_wrong").compile(**given)


def test_a_missing_scalar_is_said():
    with pytest.raises(vk.ArgumentError, match="`by` is missing: float, int or bool"):
        new("ahead_missing").compile(shapes=SHAPE, targets="cpu")


def test_the_error_notes_shape_and_target():
    kernel = vk.kernel(budget=vk.Budget(threads=1))(new("ahead_noted").function)
    with pytest.raises(vk.BudgetError) as caught:
        kernel.compile(shapes=SHAPE, targets="t4", by=float)
    assert caught.value.__notes__ == ["compiling ahead_noted for t4, M=40, N=256, K=30"]


def test_parameters_of_these_names_are_parameters():
    @vk.kernel
    def scaled(shapes: Float[vk.Tensor, "N"], targets: Float[vk.Tensor, "N"]):
        i = vk.tile("N")
        targets[i] = shapes[i]

    x = np.zeros(8, np.float32)
    assert scaled.compile(shapes=x, targets=x.copy()).plan.tiles
