"""The library's kernels as binaries of every architecture in the table, read from their disassembly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from vkernels.compiler.backends.resources import Resources, read_resources
from vkernels.compiler.backends.triton_adapter import GpuOptions
from vkernels.inspect.check.prepare_kernel import KernelPreparer
from vkernels.library.dense import matmul_bias
from vkernels.library.rows import softmax_rows
from vkernels.targets import known_targets, limits_of

from .test_resources import WITHOUT_MATRIX_CORES, WITHOUT_TRITONS_USE
from .texts import compiled

TARGETS = {target.architecture: target for target in known_targets().values()}
"""One device of each architecture."""


def resources_of(
    kernel: Any, sizes: dict[str, int], dtype: str, architecture: str, transposed: tuple[str, ...] = ()
) -> Resources:
    """Of the one launch of a kernel, planned for a device of the architecture; matrices `transposed` lie by columns."""
    dtypes = {p.name: dtype for p in kernel.parameters if p.kind == "tensor"}
    constants = {p.name: p.default for p in kernel.parameters if p.kind == "constant"}
    preparer = KernelPreparer(kernel, sizes, dtypes, {}, constants)
    for name in transposed:
        view = preparer.tensors[name]
        preparer.tensors[name] = replace(view, strides=(1, view.shape[0]))
    preparer.prepare(limits_of(TARGETS[architecture]))
    (launch,) = preparer.lowered[0].launches
    options = GpuOptions(**launch["options"])
    return read_resources(
        compiled(
            launch["text"], architecture, warps=options.warps, stages=options.stages, scratch=options.scratch_bytes
        )
    )


SLOW = [pytest.param(name, marks=pytest.mark.thorough) for name in WITHOUT_TRITONS_USE]
"""Where products are multiplied and added one by one, ptxas takes long."""


@pytest.mark.sample(1)
@pytest.mark.parametrize("architecture", [*SLOW, *(name for name in TARGETS if name not in WITHOUT_TRITONS_USE)])
def test_matmul_uses_tensor_cores_wherever_triton_does(architecture: str) -> None:
    found = resources_of(matmul_bias, {"M": 4096, "N": 4096, "K": 4096}, "float16", architecture)
    assert (found.mix.tensor_core > 0) == (architecture not in WITHOUT_MATRIX_CORES + WITHOUT_TRITONS_USE)
    # without tensor cores a thread's share of an operand's rows may be narrower than 16 bytes
    assert found.mix.wide_loads + (0 if found.mix.tensor_core else found.mix.wide_stores) > 0


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize(("architecture", "transposed"), [("sm_90", ("a", "b")), ("gfx942", ("b",))])
def test_transposed_operands_come_16_bytes_at_a_time_too(architecture: str, transposed: tuple[str, ...]) -> None:
    mix = resources_of(matmul_bias, dict.fromkeys("MNK", 4096), "float16", architecture, transposed).mix
    assert mix.tensor_core > 0
    straight = resources_of(matmul_bias, dict.fromkeys("MNK", 4096), "float16", architecture).mix
    assert mix.wide_loads >= straight.wide_loads > 0


@pytest.mark.sample(2)
@pytest.mark.parametrize("architecture", TARGETS)
def test_softmax_moves_16_bytes_at_a_time(architecture: str) -> None:
    mix = resources_of(softmax_rows, {"M": 4096, "N": 1024}, "float32", architecture).mix
    assert mix.wide_loads == mix.global_loads > 0
    assert mix.wide_stores == mix.global_stores > 0
