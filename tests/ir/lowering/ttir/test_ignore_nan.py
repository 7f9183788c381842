"""Maxima that may ignore NaN: which kernels have them, and what these store where an element is NaN."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.ir.planning.test_attention_on_gpus import built
from vkernels.ir.analyses import phases_of
from vkernels.ir.dialect import KernelOp, MaxOp
from vkernels.ir.facts import Facts
from vkernels.ir.lowering.ttir import print_ttir
from vkernels.ir.pipeline import run_passes
from vkernels.ir.plan import Plan
from vkernels.ir.text import parse_module
from vkernels.ir.transforms.ignore_nan import IgnoreNan
from vkernels.ir.transforms.split_phases import SplitPhases
from vkernels.library.attention import attention_rows
from vkernels.library.attention_blocks import attention_blocks

from .lowering import assert_same, kernel, lowered

ROWS, LENGTH = 7, 150
TILE, ROW = "tensor<?x?xf32, #vk.axes<i, j>>", "tensor<?xf32, #vk.axes<i>>"


def marks_of(kernel_: KernelOp) -> list[bool]:
    """Whether each maximum of a kernel is marked."""
    module = run_passes([SplitPhases(), IgnoreNan()], ModuleOp([phases_of(kernel_).clone()]))
    return [op.ignores_nan is not None for op in module.walk() if isinstance(op, MaxOp)]


def rows_kernel(body: str) -> KernelOp:
    """A kernel that computes the exponentials %e of rows relative to their maxima %max, and does `body`."""
    module = parse_module(
        f"""
vk.kernel @k(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M, N], f32>, %last: !vk.tensor<[M], f32>) {{
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %zero = arith.constant 0.0 : f32
  %zeros = vk.broadcast %zero : f32 -> {ROW}
  %row = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> {TILE}
  %max = vk.max %row along j : {TILE} -> {ROW}
  %mb = vk.broadcast %max : {ROW} -> {TILE}
  %d = arith.subf %row, %mb : {TILE}
  %e = math.exp %d : {TILE}
{body}
}}
""",
        "k",
    )
    (found,) = (op for op in module.ops if isinstance(op, KernelOp))
    return found


SUM = f"  %sum = vk.sum %e along j : {TILE} -> {ROW}\n"
STORE = "  vk.store %{0} in %last[i] : !vk.tensor<[M], f32> <- " + ROW


@pytest.mark.parametrize(
    ("body", "may"),
    [
        (SUM + STORE.format("sum"), True),
        (SUM + f"  %l = math.log %sum : {ROW}\n  %n = arith.addf %l, %max : {ROW}\n" + STORE.format("n"), True),
        (SUM + STORE.format("sum") + "\n" + STORE.format("max"), False),
        (f"  vk.store %e in %out[i, j] : !vk.tensor<[M, N], f32> <- {TILE}", False),
        (
            SUM + f"  %c = arith.cmpf ogt, %max, %zeros : {ROW}\n  %s = arith.select %c, %sum, %zeros : tensor<?xi1,"
            f" #vk.axes<i>>, {ROW}\n" + STORE.format("s"),
            False,
        ),
        (
            SUM + f"  %c = arith.cmpf ogt, %zeros, %zeros : {ROW}\n  %s = arith.select %c, %sum, %zeros : tensor<?xi1,"
            f" #vk.axes<i>>, {ROW}\n" + STORE.format("s"),
            True,
        ),
        (SUM + f"  %m = arith.maxnumf %sum, %zeros : {ROW}\n" + STORE.format("m"), False),
    ],
    ids=["sum", "logarithm", "itself", "elements", "condition", "other condition", "sum that loses NaN"],
)  # fmt: skip
def test_a_maximum_may_ignore_nan_where_all_that_it_decides_is_nan(body: str, may: bool) -> None:
    assert marks_of(rows_kernel(body)) == [may]


def test_maxima_of_attention_may_ignore_nan() -> None:
    assert marks_of(built(attention_rows)) == [True]
    assert marks_of(built(attention_rows, causal=True)) == [True]
    assert marks_of(built(attention_blocks, kept=True, size=128)) == [True, True]
    assert marks_of(built(attention_blocks, kept=True, size=128, windowed=True)) == [True]


@pytest.mark.parametrize(
    "plan",
    [Plan({"i": 4}, {"j": 64}), Plan({"i": 4}, {"j": 256}), Plan({"i": 2}, {"j": 16}, online=("j",))],
    ids=["chunks", "held", "online"],
)
def test_rows_with_nan_are_nan_and_others_are_not(plan: Plan) -> None:
    """Also where one element is infinite, or all of them are."""
    seed = int(np.random.default_rng().integers(1 << 31))
    print(f"seed {seed}")
    random = np.random.default_rng(seed)
    x = random.standard_normal((ROWS, LENGTH)).astype(np.float32)
    x[1, random.integers(LENGTH)] = np.nan
    x[2] = np.nan
    x[3, 5], x[3, random.integers(6, LENGTH)] = np.inf, np.nan
    x[4, 7:] = -np.inf
    x[5] = -np.inf
    module = kernel("softmax")
    marked = run_passes([SplitPhases(), IgnoreNan()], module)
    ttir = lowered(marked, plan, Facts({"M": ROWS, "N": LENGTH}))
    texts = [print_ttir(launch.module) for launch in ttir.launches]
    assert any("arith.maxnumf" in text for text in texts) == (plan.chunks["j"] > 64 or bool(plan.online))
    assert_same(module, ttir, {"x": x, "out": np.full_like(x, 7)}, {"M": ROWS, "N": LENGTH}, 1e-5)
