"""Registers that loops carry, beside what the compiler makes of such a kernel."""

from __future__ import annotations

import pytest

from vkernels.autotune.drive import Stop
from vkernels.autotune.triton_bounds import BoundTools, StaticBounds, TritonTask
from vkernels.autotune.triton_configs import TritonConfig, grid_from
from vkernels.compiler.backends.resources import read_resources, taken_by
from vkernels.compiler.backends.triton_adapter import GpuOptions
from vkernels.compiler.backends.triton_kernels import Configuration, jit_ttir
from vkernels.compiler.binaries.carried_registers import carried_registers
from vkernels.compiler.workers.compile_cached import compile_cached
from vkernels.compiler.workers.compile_pool import CompilePool
from vkernels.compiler.workers.jobs import CompileJob
from vkernels.inspect.cases import JitSignature, KernelSource, kernel_at
from vkernels.ir.planning.resources import spill
from vkernels.targets import limits_of, target_named

from ...inspect import jit_matmul

H100, B200 = target_named("h100-sxm5-80"), target_named("b200-sxm-180")
TYPES = {"a": "*fp16", "b": "*fp16", "c": "*fp16", "N": "i32", "K": "i32"}
SOURCE = KernelSource("matmul", file=str(jit_matmul.__file__))
LOOPS = """
%1:2 = scf.for %i = %a to %b step %c iter_args(%s = %z, %p = %q) -> (tensor<64x32xf32>, tensor<64x!tt.ptr<f16>>) : i32 {
  %2 = scf.for %j = %a to %b step %c iter_args(%t = %s) -> (tensor<64xf16>)  : i32 {
%3 = scf.for %i = %a to %b step %c iter_args(%n = %z) -> (i32)  : i32 {
"""


def ttir(target, rows, columns, warps):
    constants = {"BM": rows, "BN": columns, "BK": 32}
    text, options = jit_ttir(
        kernel_at(SOURCE), TYPES, {}, ("a", "b", "c", "N", "K"), Configuration(constants, warps, 3), target.architecture
    )
    return text, options


def test_the_loop_that_carries_most_counts():
    assert carried_registers(LOOPS, 64, limits_of(H100)) == 32
    assert carried_registers("", 64, limits_of(H100)) == 0
    assert carried_registers(LOOPS, 64, limits_of(B200)) == 0


@pytest.mark.parametrize(("rows", "columns", "warps"), [(64, 64, 4), (128, 256, 1), (16, 32, 2)])
def test_the_sums_of_a_product_are_carried(rows, columns, warps):
    text, _ = ttir(H100, rows, columns, warps)
    assert carried_registers(text, 32 * warps, limits_of(H100)) == rows * columns / (32 * warps)


def test_what_surely_spills_is_not_compiled():
    class Prepared:
        def submit(self, request):
            given = request["configuration"]
            text, _ = ttir(H100, given["constants"]["BM"], given["constants"]["BN"], given["warps"])
            return type("Done", (), {"result": lambda self: {"lowered": {"text": text}}})()

    task = TritonTask(SOURCE, JitSignature(()), {}, grid_from("1"))
    with StaticBounds(task, H100, BoundTools(Prepared(), None), Stop()) as bounds:
        (found,) = bounds.seconds([TritonConfig({"BM": 128, "BN": 256, "BK": 32}, 2)])
    assert found == "spills: its loop carries 512 registers a thread, which has 255"


@pytest.mark.thorough
def test_the_compiler_spills_what_is_more_than_a_thread_has():
    with CompilePool() as pool:
        for rows, columns, warps in ((128, 128, 1), (64, 64, 4)):
            text, options = ttir(H100, rows, columns, warps)
            assert isinstance(options, GpuOptions)
            (done,) = compile_cached([CompileJob(text, H100.architecture, options)], pool)
            binary = done.outcome.binary
            assert (spill(taken_by(read_resources(binary), binary.threads)) is None) == (warps == 4)
