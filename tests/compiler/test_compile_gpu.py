"""The road from a kernel to GPU binaries, with no GPU: what runs there is what the host packs arguments for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from vkernels.compiler.backends.triton_adapter import compile_ttir
from vkernels.compiler.compile_gpu import CompiledGpu, lower_for, with_binaries
from vkernels.compiler.gpu_binaries import BinaryCompiler
from vkernels.compiler.session import CompilerSession
from vkernels.compiler.specialise import kernel_in
from vkernels.ir.disk_cache import DiskCache
from vkernels.ir.errors import PlanError, SetupError
from vkernels.ir.facts import Facts
from vkernels.ir.pin import Pin
from vkernels.ir.plan import Home
from vkernels.ir.planning.choose_plan import choose_plan
from vkernels.library.dense import matmul_bias
from vkernels.library.rows import softmax_rows
from vkernels.library.spdnn import spdnn
from vkernels.runtime.dispatch import Launcher
from vkernels.runtime.gpu.device import GpuDevice
from vkernels.runtime.gpu.loading import hidden_parameters, load
from vkernels.targets import limits_of, target_named

from ..runtime.gpu.fakes import FakeDriver, OnGpu, use
from .backends.texts import COPY, compiled

TARGETS = {"sm_90": "h200-sxm-141", "gfx942": "mi300x"}
LAUNCHED = {
    "softmax": (softmax_rows, [(33, 1000), (33, 1000)], ()),
    "matmul": (matmul_bias, [(100, 64), (64, 80), (80,), (100, 80)], ("gelu",)),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("architecture", TARGETS)
@pytest.mark.parametrize("name", LAUNCHED)
def test_calls_are_compiled_for_their_device(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, architecture: str
) -> None:
    driver = FakeDriver()
    target = target_named(TARGETS[architecture])
    monkeypatch.setattr(driver, "target", lambda device: target)
    monkeypatch.setattr(driver, "parameters", lambda function: 3)
    session = CompilerSession(DiskCache(tmp_path), patience=600.0)
    compile_jobs = BinaryCompiler.compile
    use(monkeypatch, driver, lambda jobs: compile_jobs(session.binaries, jobs))
    kernel, shapes, rest = LAUNCHED[name]
    tensors = [OnGpu(torch.zeros(shape, dtype=torch.float16)) for shape in shapes]
    launcher = Launcher(kernel, session)
    launcher(*tensors, *rest)
    ((code, symbol, shared),) = driver.loaded
    assert code[:4] == b"\x7fELF"
    assert symbol.encode() in code
    (launched,) = driver.launches
    assert (launched.threads % target.warp, launched.shared) == (0, shared)
    made = launcher.compile((*tensors, *rest), {})
    assembly = "ptx" if architecture.startswith("sm_") else "amdgcn"
    assert {"as-written", "after-apply-plan", "after-expand-math", "ttir", "ttgir", assembly} <= set(made.stages)
    assert made.binaries[0].code == code


def compiled_softmax(architecture: str) -> CompiledGpu:
    limits = limits_of(target_named(TARGETS[architecture]))
    module = softmax_rows.build(softmax_rows.signature(x="float32", out="float32"))
    pin = Pin(chunks={"j": 4096}, homes={"e": Home.SHARED}, splits={})
    plan = choose_plan(kernel_in(module), {"M": 8, "N": 9000}, limits, pin=pin).plan
    lowering = lower_for(module, plan, Facts(sizes={"N": 9000}))
    binaries = [compile_ttir(job.text, job.architecture, job.options) for job in lowering.jobs(architecture)]
    return with_binaries(lowering, architecture, binaries)


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("architecture", TARGETS)
def test_triton_adds_two_parameters(architecture: str) -> None:
    compiled_ = compiled_softmax(architecture)
    (launch, binary), *_ = compiled_.launches
    assert hidden_parameters(binary, len(launch.parameters)) == 2
    assert hidden_parameters(compiled(COPY, architecture), 2) == 2
    with pytest.raises(SetupError, match="more than vkernels knows"):
        hidden_parameters(binary, len(launch.parameters) - 1)
    with pytest.raises(SetupError, match="more than vkernels knows"):
        hidden_parameters(binary, len(launch.parameters) + 3)


def test_more_shared_memory_than_the_device_has_is_refused() -> None:
    compiled_, target = compiled_softmax("sm_90"), target_named("h200-sxm-141")
    least = compiled_.binaries[0].shared
    assert least > 9000 * 4  # the row is kept on chip
    for shared in (least, least - 1):
        device = GpuDevice(0, FakeDriver(), target, replace(limits_of(target), shared=shared))
        if shared == least:
            assert len(load(device, compiled_)) == 1
            continue
        with pytest.raises(PlanError, match=rf"needs {least} bytes of shared memory a program, .* has {shared}"):
            load(device, compiled_)


def test_lowering_says_what_is_to_be_compiled() -> None:
    limits = limits_of(target_named("h200-sxm-141"))
    dtypes = {"y": "float32", "column": "int64", "weight": "float32", "out": "float32", "peak": "float32"}
    sizes = {"N": 1024, "I": 64, "L": 2, "K": 4}
    module = spdnn.build(spdnn.signature(**dtypes, bias=float))
    plan = choose_plan(kernel_in(module), sizes, limits, pin=Pin(copies=("features",))).plan
    lowering = lower_for(module, plan, Facts(sizes={"N": 1024}), keep=True)
    (job,) = lowering.jobs("sm_90")
    assert job.text == lowering.stages["ttir"]
    assert job.options.scratch_bytes == lowering.lowered.launches[0].scratch_bytes >= 2 * 4 * 1024
    assert (job.options.warps, job.architecture) == (plan.warps, "sm_90")
