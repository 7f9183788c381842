"""Dots on dot units of operands that are not packed: words are joined where their elements are loaded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vkernels.ir.facts import Facts
from vkernels.ir.interpret import interpret
from vkernels.ir.lowering.llvm.lower_to_llvm import lower_to_llvm
from vkernels.ir.pipeline import cpu_pipeline, run_passes
from vkernels.ir.plan import Plan
from vkernels.ir.text import parse_module

from .memory import guarded
from .running import Call
from .test_units import LEAST, as_floats, compiled, operand, product
from .texts import matmul_text

ROWS = {"a": (-1, 1), "b": (-1, 1), "out": (-1, 1)}
SHAPES = [(6, 32, 64), (7, 37, 61), (1, 1, 1), (3, 90, 202), (13, 5, 2), (2, 3, 0), (9, 48, 7)]
PACKS = [(), ("a",), ("b",)]
PLANS = [
    Plan({"i": 4, "j": 32}, {"k": 4}, lanes="j", order=("j", "i")),
    Plan({"i": 3, "j": 21}, {"k": 8}, lanes="j", order=("i", "j")),
    Plan({"i": 2, "j": 16}, {"k": 4}, lanes="j", splits={"k": 3}),
    Plan({"i": 2, "j": 16}, {"k": 64}, lanes="j"),
]


@pytest.mark.sample(2)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("packs", PACKS)
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize(("unit", "register_bytes"), [("avx512-bf16", 64), ("avx512-bf16", 32), ("neon-bf16", 16)])
def test_bf16_is_within_the_bound_and_as_interpreted(
    plan: Plan, packs: tuple[str, ...], shape: tuple[int, int, int], unit: str, register_bytes: int
) -> None:
    m, n, k = shape
    a, b = operand((m, k), "bf16", False, 1), operand((k, n), "bf16", False, 2)
    out, seen = guarded(np.full((m, n), np.nan, np.float32)), np.full((m, n), np.nan, np.float32)
    facts, plan = Facts(strides=ROWS, distinct=True), replace(plan, packs=packs)
    code, mapped = compiled(matmul_text("bf16", "f32"), plan, facts, (unit,), register_bytes)
    assert "vk.word_dot" in mapped
    assert "vk.dot " not in mapped
    Call(code, [a, b, out], {"M": m, "N": n, "K": k}).run()
    exact = as_floats(a).astype(np.float64) @ as_floats(b).astype(np.float64)
    sizes = np.abs(as_floats(a)).astype(np.float64) @ np.abs(as_floats(b)).astype(np.float64)
    assert (np.abs(out - exact) <= (16 + 4 * np.log2(max(2, k))) * 2.0**-24 * sizes + 2 * k * float(LEAST)).all()
    interpret(parse_module(mapped), {"a": a, "b": b, "out": seen})
    np.testing.assert_array_equal(out, seen)


@pytest.mark.sample(2)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("packs", PACKS)
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize(
    ("units", "register_bytes", "signs"),
    [(("vnni-int8",), 32, "ss"), (("vnni",), 64, "us"), (("neon-dotprod",), 16, "uu"), (("neon-i8mm",), 16, "su")],
)
def test_int8_is_exact(
    plan: Plan,
    packs: tuple[str, ...],
    shape: tuple[int, int, int],
    units: tuple[str, ...],
    register_bytes: int,
    signs: str,
) -> None:
    m, n, k = shape
    a, b = operand((m, k), "i8", False, 1), operand((k, n), "i8", False, 2)
    out = guarded(np.full((m, n), -7, np.int32))
    facts, plan = Facts(strides=ROWS, distinct=True), replace(plan, packs=packs)
    code, mapped = compiled(matmul_text("i8", "i32", signs), plan, facts, units, register_bytes)
    assert "vk.word_dot" in mapped
    Call(code, [a, b, out], {"M": m, "N": n, "K": k}).run()
    np.testing.assert_array_equal(out, product(a, b, signs))


@pytest.mark.parametrize(
    ("strides", "units", "changes"),
    [
        ({**ROWS, "a": (1, -1)}, ("avx512-bf16",), {}),
        ({**ROWS, "b": (1, -1)}, ("avx512-bf16",), {}),
        ({"out": (-1, 1)}, ("avx512-bf16",), {}),
        (ROWS, ("amx-bf16",), {"tiles": {"i": 4, "j": 16}, "chunks": {"k": 16}}),
        (ROWS, ("neon-mmla-bf16",), {}),
        (ROWS, ("avx512-bf16",), {"chunks": {"k": 3}}),
    ],
)
def test_no_words_are_joined_where_that_is_dear_or_impossible(strides: dict, units: tuple[str, ...], changes: dict):
    plan = replace(Plan({"i": 4, "j": 32}, {"k": 4}, lanes="j"), **changes)
    _, mapped = compiled(matmul_text("bf16", "f32"), plan, Facts(strides=strides, distinct=True), units, 64)
    assert "vk.word_dot" not in mapped


def test_elements_become_words_where_they_are_loaded_and_are_not_extended():
    plan = Plan({"i": 6, "j": 32}, {"k": 4}, lanes="j")
    text = matmul_text("bf16", "f32")
    _, mapped = compiled(text, plan, Facts(strides=ROWS, distinct=True), ("avx512-bf16",), 64)
    assert "pack" not in mapped
    assert "arith.extf" not in mapped
    assert "along k : tensor<6x4xbf16, #vk.axes<i, k>> -> tensor<6x2xi32, #vk.axes<i, k>>" in mapped
    assert "along k : tensor<4x32xbf16, #vk.axes<k, j>> -> tensor<2x32xi32, #vk.axes<k, j>>" in mapped


def test_words_for_all_lanes_are_loaded_as_they_are():
    plan = Plan({"i": 6, "j": 32}, {"k": 4}, lanes="j")
    facts = Facts(multiples={"M": 6, "N": 32, "K": 4}, strides=ROWS, distinct=True)
    mapped = run_passes(cpu_pipeline(plan, facts, units=("avx512-bf16",)), parse_module(matmul_text("bf16", "f32")))
    lowered = lower_to_llvm(next(iter(mapped.ops)), 64)
    assert lowered.text.count("-> i32") >= 6 * 2
    assert "-> i16" not in lowered.text
