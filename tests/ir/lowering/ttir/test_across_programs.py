"""Persistent programs whose loop of dots goes on to the next program: which do, and that results stay the same."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from vkernels.ir.facts import Facts
from vkernels.ir.lowering.ttir import LoweredTtir, print_ttir
from vkernels.ir.plan import Home, Plan
from vkernels.ir.text import parse_module

from .lowering import assert_same, kernel, lowered

PLAN = Plan({"i": 16, "j": 32}, {"k": 16}, lanes="j", order=("i", "j"), stages=3, resident_programs=2)
FULL = Facts(multiples={"M": 16, "N": 32}, distinct=True)


def goes_on(ttir: LoweredTtir) -> bool:
    (launch,) = ttir.launches
    return "tt.flatten" in print_ttir(launch.module)


def matrices(k: int) -> dict[str, Any]:
    numbers = np.random.default_rng(0)
    return {
        "a": numbers.integers(-3, 4, (48, k)).astype(np.float16),
        "b": numbers.integers(-3, 4, (k, 64)).astype(np.float16),
        "bias": numbers.integers(-3, 4, 64).astype(np.float32), "out": np.full((48, 64), np.nan, np.float32),
    }  # fmt: skip


@pytest.mark.parametrize("k", [0, 1, 16, 45])
def test_products_are_the_same(k: int) -> None:
    module = kernel("matmul")
    ttir = lowered(module, PLAN, FULL, PLAN.resident_programs)
    assert goes_on(ttir)
    assert_same(module, ttir, matrices(k), {"M": 48, "N": 64, "K": k})


@pytest.mark.parametrize(("plan", "facts", "resident"), [
    (replace(PLAN, stages=1), FULL, 2),  # nothing is pipelined
    (PLAN, Facts(multiples={"M": 16}, distinct=True), 2),  # full and partial tiles have loops of their own
    (PLAN, FULL, 0),  # no persistent programs
])  # fmt: skip
def test_loops_that_end_with_their_program(plan: Plan, facts: Facts, resident: int) -> None:
    assert not goes_on(lowered(kernel("matmul"), plan, facts, resident))


def test_loops_without_dots_end_with_their_program() -> None:
    plan = Plan({"i": 4}, {"j": 64}, {"e": Home.RECOMPUTE}, stages=2)
    assert not goes_on(lowered(kernel("softmax"), plan, Facts(multiples={"M": 4}, distinct=True), 2))


SQUARE = """
vk.kernel @matmul(%a: !vk.tensor<[M, M], f16>, %b: !vk.tensor<[M, M], f16>, %out: !vk.tensor<[M, M], f16>) {
  %M = vk.size M
  vk.tile i < %M
  vk.tile j < %M
  vk.whole k < %M
  %x = vk.load %a[i, k] : !vk.tensor<[M, M], f16> -> T(f16; i, k)
  %y = vk.load %b[k, j] : !vk.tensor<[M, M], f16> -> T(f16; k, j)
  %xf = arith.extf %x : T(f16; i, k) to T(f32; i, k)
  %yf = arith.extf %y : T(f16; k, j) to T(f32; k, j)
  %zero = arith.constant 0.0 : f32
  %init = vk.broadcast %zero : f32 -> T(f32; i, j)
  %p = vk.dot %xf, %yf, %init along k precision ieee : T(f32; i, k), T(f32; k, j), T(f32; i, j)
  %r = arith.truncf %p : T(f32; i, j) to T(f16; i, j)
  vk.store %r in %out[i, j] : !vk.tensor<[M, M], f16> <- T(f16; i, j)
}
"""


def test_the_result_may_not_be_an_operand() -> None:
    """Triton loads the next program's operands before this one has stored its results."""
    module = parse_module(re.sub(r"T\((\w+); ([^)]*)\)", r"tensor<?x?x\1, #vk.axes<\2>>", SQUARE))
    facts = Facts(multiples={"M": 32}, distinct=True)
    assert goes_on(lowered(module, PLAN, facts, 2))
    assert not goes_on(lowered(module, PLAN, replace(facts, distinct=False), 2))
