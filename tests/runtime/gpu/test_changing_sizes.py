"""Calls on a GPU whose sizes change: few binaries, which are right for every size and layout of their class."""

from __future__ import annotations

import pytest
import torch

from tests.compiler.test_code_providers import finished
from tests.library.reference import assert_close, fresh_seed, normal, poisoned
from vkernels.compiler.arguments import example_arguments
from vkernels.compiler.gpu_binaries import BinaryCompiler
from vkernels.compiler.protocols import Signature
from vkernels.compiler.request import CompileRequest, CompileTarget
from vkernels.compiler.session import CompilerSession
from vkernels.compiler.size_classes import LEVELS_ON_GPU, class_at
from vkernels.library.attention import attention_rows
from vkernels.library.rows import softmax_rows
from vkernels.runtime import class_calls
from vkernels.runtime.dispatch import Launcher
from vkernels.runtime.interpret import memory_of
from vkernels.targets import limits_of, target_named

from .fakes import OnGpu, RunningDriver, use


@pytest.mark.slow
def test_calls_of_changing_lengths_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = RunningDriver([])
    use(monkeypatch, driver)
    launcher, seed = Launcher(softmax_rows, CompilerSession(patience=600.0, exact_shapes=1)), fresh_seed()
    for length in (20, 300, 64, 48, 65, 1, 256):
        x, out = normal((2, length), torch.float32, seed), poisoned((2, length), torch.float32)
        for tensor in (x, out):
            driver.arrays[tensor.data_ptr()] = memory_of(tensor)
        launcher(OnGpu(x), OnGpu(out))
        assert_close(out, torch.softmax(x.double(), -1), length)
    assert len(driver.loaded) <= 6


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("key", ["h200-sxm-141", "mi300x"])
@pytest.mark.parametrize(("kernel", "sizes"), [(softmax_rows, "MN"), (attention_rows, "BGRDMNE")])
def test_one_binary_of_a_class_serves_its_sizes(key: str, kernel, sizes: str) -> None:
    """It says what divides a length where that is known, and is compiled by Triton for the device."""
    target = target_named(key)
    session = CompilerSession(patience=600.0)
    signature = Signature(
        tuple((p.name, "float16") for p in kernel.parameters if p.kind == "tensor"),
        tuple((p.name, "f64") for p in kernel.parameters if p.kind == "scalar"),
        tuple((p.name, p.default) for p in kernel.parameters if p.kind == "constant"),
    )
    fixed = {"M": 512} if kernel is softmax_rows else dict.fromkeys("BGR", 1) | dict.fromkeys("DE", 64) | {"M": 100}
    wide = {}
    for length in (300, 304, 1024):
        arguments = example_arguments(kernel, signature, {**dict.fromkeys(sizes, 1), **fixed, "N": length})
        request = CompileRequest(kernel, arguments, CompileTarget(limits_of(target), target.architecture, key))
        of = class_at(LEVELS_ON_GPU[0], {"N": length}, on_gpu=True)
        found = session.compile(request).of_class(of).executable()
        assert "N" not in found.code.facts.sizes
        assert (found.code.facts.multiples.get("N") == 16) == (length % 16 == 0)
        wide.setdefault(length % 16 == 0, set()).add(id(found.code))
    assert {is_wide: len(codes) for is_wide, codes in wide.items()} == {False: 1, True: 1}
    assert isinstance(session.binaries, BinaryCompiler)
    session.close()


def test_a_shape_that_runs_often_gets_code_of_its_own_except_while_a_graph_is_captured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = RunningDriver([])
    use(monkeypatch, driver)
    monkeypatch.setattr(class_calls, "WORTH_SECONDS", 3600.0)
    launcher = Launcher(softmax_rows, CompilerSession(patience=600.0, exact_shapes=1))

    def call(length: int) -> None:
        x, out = normal((2, length), torch.float32, fresh_seed()), poisoned((2, length), torch.float32)
        driver.arrays = {tensor.data_ptr(): memory_of(tensor) for tensor in (x, out)}
        launcher(OnGpu(x), OnGpu(out))
        assert_close(out, torch.softmax(x.double(), -1), length)

    call(30)
    call(33)
    entry = [*launcher.entries][-1]
    of_class = entry.distinct
    assert isinstance(of_class, class_calls.ClassCalls)
    monkeypatch.setattr(class_calls, "WORTH_SECONDS", class_calls.GPU_SECONDS)
    before = len(driver.loaded)
    driver.captures = True
    call(33)
    finished()
    assert entry.distinct is not of_class
    call(33)
    assert len(driver.loaded) == before
    driver.captures = False
    for _ in range(2):
        call(33)
    assert len(driver.loaded) == before + 1
