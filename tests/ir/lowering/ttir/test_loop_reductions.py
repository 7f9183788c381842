"""Triton keeps the reductions in loops whose results need them there. The results in the interpreter of TTIR do not
show that: it is Triton's own pass that moves them."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from vkernels.compiler.backends.triton_adapter import GpuOptions, compile_ttir
from vkernels.ir.facts import Facts
from vkernels.ir.lowering.ttir import LoweredTtir, print_ttir
from vkernels.ir.plan import Plan
from vkernels.ir.text import parse_module

from .lowering import assert_same, lowered

LOOP = """
vk.kernel @rows(%x: !vk.tensor<[K, M, N], f32>, %out: !vk.tensor<[M], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %K = vk.size K
  %c0 = arith.constant 0 : i64
  %zero = arith.constant 0.0 : f32
  %start = vk.broadcast %zero : f32 -> tensor<?xf32, #vk.axes<i>>
  %end = vk.range %k = %c0 to %K carrying (%so_far = %start : tensor<?xf32, #vk.axes<i>>) {
    %row = vk.load %x[%k, i, j] : !vk.tensor<[K, M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
    %sum = vk.sum %row along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
    %next = arith.UPDATE : tensor<?xf32, #vk.axes<i>>
    vk.yield %next : tensor<?xf32, #vk.axes<i>>
  }
  vk.store %end in %out[i] : !vk.tensor<[M], f32> <- tensor<?xf32, #vk.axes<i>>
}
"""
SCAN = """
vk.kernel @rows(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %row = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %running = vk.scan KIND %row along j : tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %running in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}
"""
FACTS = Facts(
    multiples={"M": 4, "N": 256}, strides={"x": (-1, -1, 1), "out": (1,)}, aligned=("x", "out"), distinct=True
)
OF_A_SCAN = Facts(multiples={"N": 256}, strides={"x": (-1, 1), "out": (-1, 1)}, aligned=("x", "out"), distinct=True)
ARCHITECTURES = ("sm_90", "gfx942")


def loop(update: str, reduction: str = "sum") -> LoweredTtir:
    module = parse_module(LOOP.replace("UPDATE", update).replace("vk.sum", f"vk.{reduction}"))
    return lowered(module, Plan({"i": 4}, {"j": 256}, lanes="j"), replace(FACTS, sizes={"N": 256}))


def reductions(ttir: LoweredTtir, architecture: str) -> tuple[int, int]:
    """How many there are as lowered, and once Triton has chosen layouts."""
    (launch,) = ttir.launches
    text = print_ttir(launch.module)
    binary = compile_ttir(text, architecture, GpuOptions(4, 1, launch.scratch_bytes))
    return text.count('"tt.reduce"('), binary.ttgir.count('"tt.reduce"(')


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("update", ["maximumf %so_far, %sum", "subf %so_far, %sum", "addf %start, %sum"])
def test_reductions_whose_results_are_combined_otherwise_stay(update: str, architecture: str) -> None:
    before, after = reductions(loop(update), architecture)
    assert before == after == 1


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_maxima_of_maxima_are_still_moved_so_the_test_above_can_fail(architecture: str) -> None:
    before, after = reductions(loop("maximumf %so_far, %sum", "max"), architecture)
    assert (before, after) == (1, 2)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("kind", ["sum", "product", "max"])
def test_running_values_of_several_chunks_compile(kind: str, architecture: str) -> None:
    ttir = lowered(parse_module(SCAN.replace("KIND", kind)), Plan({"i": 1}, {"j": 256}, lanes="j"), OF_A_SCAN)
    before, after = reductions(ttir, architecture)
    assert before == after


def test_results_are_the_same() -> None:
    print("seed", seed := random.randrange(1 << 32))
    x = np.random.default_rng(seed).normal(size=(5, 8, 256)).astype(np.float32)
    arguments = {"x": x, "out": np.full(8, np.nan, np.float32)}
    module = parse_module(LOOP.replace("UPDATE", "maximumf %so_far, %sum"))
    ttir = lowered(module, Plan({"i": 4}, {"j": 64}, lanes="j"), FACTS)
    assert_same(module, ttir, arguments, {"K": 5, "M": 8, "N": 256}, 1e-5)
