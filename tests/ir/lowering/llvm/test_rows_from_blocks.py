"""Rows that begin where a tensor says: neighbours along the contracted axis are loaded as vectors all the same."""

from __future__ import annotations

import re

import numpy as np
import pytest
from jaxtyping import Float, Int

import vkernels.language as vk
from vkernels.compiler.backends.llvm import compile_lowered
from vkernels.compiler.protocols import Signature
from vkernels.ir.facts import Facts
from vkernels.ir.interpret import interpret
from vkernels.ir.lowering.llvm.emit import ToBf16
from vkernels.ir.lowering.llvm.lower_to_llvm import lower_to_llvm
from vkernels.ir.pipeline import cpu_pipeline, run_passes
from vkernels.ir.plan import Plan
from vkernels.ir.text import print_module

from ....library.reference import fresh_seed
from .memory import guarded
from .running import Call
from .software_units import software_units
from .test_matrix_units import SPLIT, floats, numbers

ROWS, DEPTH = 20, 32


@vk.kernel
def of_blocks(
    x: Float[vk.Tensor, "M K"], w: Float[vk.Tensor, "K N"], block: Int[vk.Tensor, "P 2"], out: Float[vk.Tensor, "M N"]
):
    p = vk.tile("P")
    m = vk.whole(ROWS)
    c = vk.whole(DEPTH)
    n = vk.whole("N")
    first, begin = block[p, 0], block[p, 1]
    out[first + m, n] = vk.dot(x[first + m, begin + c], w[begin + c, n])


@pytest.mark.sample(2)
@pytest.mark.parametrize(("element", "dtype", "unit"), [("bf16", "bfloat16", "amx-bf16"), ("f16", "float16", SPLIT)])
@pytest.mark.parametrize("far", [False, True])
def test_rows_that_begin_where_a_tensor_says(element: str, dtype: str, unit: str, far: bool) -> None:
    """Blocks lie in the tensors, or some reach beyond their ends."""
    seed = fresh_seed()
    random = np.random.default_rng(seed)
    m, k, n = (47, 90, 32) if far else (40, 96, 32)
    block = guarded(np.array([[0, int(random.integers(0, 50))], [20, 64], [40, 0]][: 2 + far], np.int64))
    x, w = floats((m, k), element, False, seed), floats((k, n), element, False, seed + 1)
    out, seen = guarded(np.full((m, n), np.nan, np.float32)), np.full((m, n), np.nan, np.float32)
    types = {"x": dtype, "w": dtype, "block": "int64", "out": "float32"}
    facts = Facts({"N": n}, strides=dict.fromkeys(types, (-1, 1)), distinct=True)
    plan = Plan({"p": 1}, {"m": ROWS // 2, "c": DEPTH, "n": 16}, lanes="n")
    module = of_blocks.build(Signature(tuple(types.items()), (), ()))
    mapped = run_passes(cpu_pipeline(plan, facts, units=(unit,)), module)
    assert "of matrix_" in print_module(mapped)
    lowered = lower_to_llvm(next(iter(mapped.ops)), 64, ToBf16.FLUSHED)
    assert re.search(rf"llvm.load .*-> vector<{DEPTH}x(i16|f16)>", lowered.text)
    sizes = {"M": m, "K": k, "N": n, "P": len(block)}
    Call(compile_lowered(lowered, units=software_units), [x, w, block, out], sizes).run()
    interpret(mapped, {"x": x, "w": w, "block": block, "out": seen})
    np.testing.assert_allclose(out, seen, rtol=1e-5, atol=1e-5)
    one, other = (numbers(each).astype(np.float64) for each in (x, w))
    for first, begin in block.tolist():
        exact = one[first : first + ROWS, begin : begin + DEPTH] @ other[begin : begin + DEPTH]
        np.testing.assert_allclose(out[first : first + ROWS], exact, rtol=1e-4, atol=1e-4)
