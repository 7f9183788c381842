"""f16 from homes, which a matrix unit takes as sums of two bf16."""

from __future__ import annotations

import re

import numpy as np
import pytest

import vkernels.language as vk
from vkernels.compiler.backends.llvm import compile_lowered
from vkernels.compiler.protocols import Signature
from vkernels.ir.facts import Facts
from vkernels.ir.interpret import interpret
from vkernels.ir.lowering.llvm.lower_to_llvm import lower_to_llvm
from vkernels.ir.pipeline import cpu_pipeline, run_passes
from vkernels.ir.plan import Home, Plan
from vkernels.ir.text import print_module

from .memory import guarded
from .running import Call
from .software_units import software_units
from .test_matrix_units import SPLIT, floats
from .test_staged_words import of_scores, of_steps


@pytest.mark.sample(2)
@pytest.mark.parametrize("rows", [16, 20])
@pytest.mark.parametrize("home", [Home.SHARED, Home.MEMORY, Home.RECOMPUTE])
@pytest.mark.parametrize("shape", [(16, 32, 32), (21, 50, 70)])
def test_operands_come_from_homes(rows: int, home: Home, shape: tuple[int, int, int]) -> None:
    m, n, d = shape
    q, k = floats((m, d), "f16", False, 1), guarded(np.stack([floats((n, d), "f16", False, 2 + s) for s in range(3)]))
    out, seen = guarded(np.full((3, n, m), np.nan, np.float32)), np.full((3, n, m), np.nan, np.float32)
    sizes = {"M": m, "N": n, "D": d, "S": 3}
    plan = Plan({"i": rows}, {"j": 32, "d": 32}, {"query": home}, lanes="i")
    facts = Facts(sizes, strides={"q": (-1, 1), "k": (-1, -1, 1)}, distinct=True)
    _run(of_steps, plan, {"q": q, "k": k}, {"out": out}, sizes, facts, seen, home is not Home.RECOMPUTE and d > 32)
    one, other = q.astype(np.float64), k.astype(np.float64)
    exact, bound = other @ one.T, np.abs(other) @ np.abs(one.T)
    assert (np.abs(out - exact) <= (16 + 4 * np.log2(d)) * 2.0**-24 * bound).all()


@pytest.mark.sample(1)
@pytest.mark.parametrize("shape", [(16, 32, 32, 32), (7, 45, 40, 33)])
@pytest.mark.parametrize("home", [Home.SHARED, Home.RECOMPUTE])
def test_scores_are_multiplied(home: Home, shape: tuple[int, int, int, int]) -> None:
    m, n, d, e = shape
    arrays = {"q": floats((m, d), "f16", False, 1), "k": floats((n, d), "f16", False, 2)}
    arrays["v"] = floats((n, e), "f16", False, 3)
    out, seen = guarded(np.full((e, m), np.nan, np.float32)), np.full((e, m), np.nan, np.float32)
    sizes = {"M": m, "N": n, "D": d, "E": e}
    plan = Plan({"i": 16}, {"j": 32, "d": 32, "e": 32}, {"score": home, "p": home}, lanes="i")
    facts = Facts(sizes, strides=dict.fromkeys(arrays, (-1, 1)), distinct=True)
    _run(of_scores, plan, arrays, {"out": out}, sizes, facts, seen, has_words=False)
    q, k, v = (each.astype(np.float64) for each in arrays.values())
    p = np.exp((scores := k @ q.T) - scores.max(0))
    np.testing.assert_allclose(out, v.T @ p / p.sum(0), atol=5e-3)


def _run(
    kernel: vk.Kernel, plan: Plan, arrays: dict[str, np.ndarray], outputs: dict[str, np.ndarray],
    sizes: dict[str, int], facts: Facts, seen: np.ndarray, has_words: bool,
) -> None:  # fmt: skip
    """Run a kernel with the unit in software, and interpret it. `has_words`: whether a home holds words."""
    every = {**arrays, **outputs}
    names = {np.dtype(np.float16): "float16", np.dtype(np.float32): "float32"}
    module = kernel.build(Signature(tuple((name, names[each.dtype]) for name, each in every.items()), (), ()))
    mapped = run_passes(cpu_pipeline(plan, facts, units=(SPLIT,)), module)
    text = print_module(mapped)
    assert "of matrix_split_f16" in text
    assert bool(re.search(r"(scratch|buffer)<\[[^]]*\], i32>", text)) == has_words
    code = compile_lowered(lower_to_llvm(next(iter(mapped.ops)), 64), units=software_units)
    Call(code, [*every.values()], sizes).run()
    interpret(mapped, {**arrays, "out": seen})
    np.testing.assert_allclose(outputs["out"], seen, rtol=2e-3, atol=1e-6)
