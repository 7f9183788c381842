"""Loops that visit only chunks that a mask lets through give what the text gives, and visit no others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from vkernels.ir.errors import PlanError
from vkernels.ir.facts import Facts
from vkernels.ir.interpret import interpret
from vkernels.ir.plan import Home, Plan
from vkernels.ir.transforms.apply_plan import apply_plan

from ...library.reference import fresh_seed
from .masked_kernels import FORMS, attention, attention_by_tensors, module_of, reductions, seen
from .three_ways import run_three_ways

INF, NAN = np.float32(np.inf), np.float32(np.nan)


def rows_of(form: str, rows: int, columns: int, seed: int) -> tuple[dict[str, Any], NDArray[np.bool_]]:
    """The integers of rows and of a call, and the mask."""
    numbers = np.random.default_rng(seed)
    low = numbers.integers(-2, columns + 2, rows).astype(np.int32)
    high = numbers.integers(-2, columns + 2, rows).astype(np.int32)
    w = int(numbers.integers(-1, 6))
    return {"low": low, "high": high, "w": w}, seen(form, rows, columns, low, high, w)


def facts_of(numbers: np.random.Generator, **sizes: int) -> Facts:
    """Some, all or none of the sizes."""
    share = numbers.choice([0.0, 0.5, 1.0])
    return Facts({name: size for name, size in sizes.items() if numbers.random() < share}, distinct=True)


def reduced(form: str, seed: int) -> tuple[dict[str, Any], dict[str, int]]:
    """Arguments of `reductions`: what the mask leaves out is NaN and infinities, of which nothing may be seen."""
    numbers = np.random.default_rng(seed)
    rows, columns = int(numbers.integers(1, 40)), int(numbers.integers(0, 40))
    row, mask = rows_of(form, rows, columns, seed)
    x = numbers.integers(-4, 5, (rows, columns)).astype(np.float32)
    x[~mask] = numbers.choice([NAN, INF, -INF, 9], (~mask).sum())
    outs = {name: np.full(rows, 7, np.float32) for name in ("total", "most", "least")}
    truths = {name: np.zeros(rows, np.bool_) for name in ("some", "every")}
    return {"x": x, **row, **outs, **truths, "copy": np.full_like(x, 7)}, {"M": rows, "N": columns}


@pytest.mark.sample(2)
@pytest.mark.parametrize("form", FORMS)
def test_reductions_and_stores_are_as_written(form: str) -> None:
    seed = fresh_seed()
    numbers = np.random.default_rng(seed)
    arguments, sizes = reduced(form, seed)
    tile, chunk = (int(n) for n in numbers.choice([1, 2, 4, 16], 2))
    plan = Plan({"i": tile}, {"j": chunk}, lanes=str(numbers.choice(["i", "j"])))
    run_three_ways(module_of(reductions, form=form), arguments, sizes, plan, facts_of(numbers, **sizes), tolerance=0)


@pytest.mark.sample(8)
@pytest.mark.parametrize("w", [1 << 62, (1 << 63) - 1, -(1 << 63), -(1 << 62), 1 << 56])
@pytest.mark.parametrize("form", ["two sides", "turned", "narrow", "minimum", "scaled"])
def test_integers_that_wrap_are_as_written(form: str, w: int) -> None:
    arguments, _ = reduced(form, 3)
    arguments["x"] = np.nan_to_num(arguments["x"])
    module = module_of(reductions, form=form)
    expected = {name: np.copy(value) for name, value in (arguments | {"w": w}).items()}
    actual = {name: np.copy(value) for name, value in expected.items()}
    interpret(module, expected)
    interpret(apply_plan(module, Plan({"i": 4}, {"j": 4}), Facts()), actual)
    for name, value in expected.items():
        np.testing.assert_array_equal(actual[name], value, name)


def attended(form: str, seed: int) -> tuple[dict[str, Any], dict[str, int]]:
    numbers = np.random.default_rng(seed)
    rows, columns = (int(n) for n in numbers.integers(1, 40, 2))
    q, k, v = (numbers.normal(size=(n, 4)).astype(np.float32) for n in (rows, columns, columns))
    row, _ = rows_of(form, rows, columns, seed)
    out, total = np.full((rows, 4), 7, np.float32), np.full(rows, 7, np.float32)
    sizes = {"M": rows, "N": columns, "D": 4, "E": 4}
    return {"q": q, "k": k, "v": v, **row, "out": out, "total": total}, sizes


PLANS = [
    Plan({"i": 4}, {"j": 8, "d": 4, "e": 4}, lanes="j"),
    Plan({"i": 2}, {"j": 4, "d": 2, "e": 2}, {"score": Home.MEMORY, "p": Home.MEMORY}, lanes="i"),
    Plan({"i": 2}, {"j": 4, "d": 4, "e": 4}, {"p": Home.MEMORY}, lanes="e"),
    Plan({"i": 4}, {"j": 2, "d": 4, "e": 4}, splits={"j": 3}, lanes="i"),
    Plan({"i": 4}, {"j": 4, "d": 4, "e": 4}, online=("j",), lanes="i"),
]


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("number", range(len(PLANS)))
@pytest.mark.parametrize("kind", ["select", "sum", "product"])
def test_attention_is_as_written(form: str, number: int, kind: str) -> None:
    """Rows that see nothing included, whose weights are NaN."""
    seed = fresh_seed()
    arguments, sizes = attended(form, seed)
    plan, module = PLANS[number], module_of(attention, form=form, kind=kind)
    if kind != "select":
        plan = replace(plan, online=(), homes={label: home for label, home in plan.homes.items() if label == "p"})
    run_three_ways(module, arguments, sizes, plan, facts_of(np.random.default_rng(seed), **sizes), tolerance=2e-5)


@pytest.mark.sample(6)
@pytest.mark.parametrize("kind", ["select", "sum", "product"])
@pytest.mark.parametrize("form", ["moved", "window", "rows", "minimum", "maximum", "narrow"])
def test_chunks_that_no_row_sees_are_not_read(form: str, kind: str) -> None:
    seed = fresh_seed()
    arguments, sizes = attended(form, seed)
    for name in ("low", "high"):
        arguments[name][:] = arguments[name][0]  # each comparison is bounded by itself
    row, columns = {name: arguments[name] for name in ("low", "high", "w")}, sizes["N"]
    mask = seen(form, sizes["M"], columns, **row)
    places = np.flatnonzero(mask.any(0)) // 4
    first, last = (int(places[0]), int(places[-1])) if len(places) else (0, columns)
    away = (np.arange(columns) // 4 < first) | (np.arange(columns) // 4 > last)
    module = module_of(attention, form=form, kind=kind)
    expected = {name: np.copy(value) for name, value in arguments.items()}
    interpret(module, expected)
    actual = {name: np.copy(value) for name, value in arguments.items()}
    actual["k"][away] = actual["v"][away] = NAN
    mapped = apply_plan(module, Plan({"i": 64}, {"j": 4, "d": 4, "e": 4}), Facts(distinct=True))
    interpret(mapped, actual)
    for name in ("out", "total"):
        np.testing.assert_allclose(actual[name], expected[name], rtol=1e-5, atol=1e-5)


def attended_by_tensors(seed: int) -> tuple[dict[str, Any], dict[str, int]]:
    """Arguments of `attention_by_tensors`; sequences of few rows each, and few blocks."""
    numbers = np.random.default_rng(seed)
    rows, columns = (int(n) for n in numbers.integers(1, 40, 2))
    q, k, v = (numbers.normal(size=(n, 4)).astype(np.float32) for n in (rows, columns, columns))
    block = (numbers.random((-(-rows // 4), -(-columns // 4))) < 0.4).astype(np.int32)
    mine, theirs = (np.sort(numbers.integers(0, 6, n)).astype(np.int32) for n in (rows, columns))
    tensors = {"q": q, "k": k, "v": v, "block": block, "mine": mine, "theirs": theirs}
    sizes = {"M": rows, "N": columns, "D": 4, "E": 4, "P": block.shape[0], "Q": block.shape[1]}
    return {**tensors, "out": np.full((rows, 4), 7, np.float32), "total": np.full(rows, 7, np.float32)}, sizes


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("form", ["blocks", "segments", "causal segments", "both"])
@pytest.mark.parametrize("number", range(len(PLANS)))
def test_guarded_chunks_are_as_written(form: str, number: int) -> None:
    seed = fresh_seed()
    arguments, sizes = attended_by_tensors(seed)
    plan, module = replace(PLANS[number], guards=("j",)), module_of(attention_by_tensors, form=form)
    facts = facts_of(np.random.default_rng(seed), **sizes)
    run_three_ways(module, arguments, sizes, plan, facts, tolerance=2e-5)


@pytest.mark.parametrize("form", ["blocks", "segments", "causal segments", "both"])
def test_chunks_in_which_nothing_is_seen_are_not_read(form: str) -> None:
    """But for the first, and the last if it is partial."""
    arguments, sizes = attended_by_tensors(5)
    if form != "blocks":
        arguments["mine"][:], arguments["theirs"][8:20] = 3, 4
    arguments["block"][:, 2:5] = 0
    module = module_of(attention_by_tensors, form=form)
    expected = {name: np.copy(value) for name, value in arguments.items()}
    actual = {name: np.copy(value) for name, value in arguments.items()}
    actual["k"][8:20] = actual["v"][8:20] = NAN
    interpret(module, expected)
    plan = Plan({"i": 8}, {"j": 4, "d": 4, "e": 4}, {"score": Home.MEMORY, "p": Home.MEMORY}, guards=("j",))
    interpret(apply_plan(module, plan, Facts(sizes, distinct=True)), actual)
    for name in ("out", "total"):
        np.testing.assert_allclose(actual[name], expected[name], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("plan", "message"), [
    (Plan({"i": 4}, {"j": 8, "d": 4, "e": 4}, guards=("d",)), "no loop over it has a mask"),
    (Plan({"i": 4}, {"j": 8, "d": 2, "e": 4}, guards=("i",)), "no whole axis"),
    (Plan({"i": 4}, {"j": 8, "d": 2, "e": 4}, guards=("x",)), "no whole axis"),
])  # fmt: skip
def test_a_plan_that_cannot_guard_is_refused(plan: Plan, message: str) -> None:
    sizes = {"M": 9, "N": 20, "D": 8, "E": 4}
    with pytest.raises(PlanError, match=message):
        apply_plan(module_of(attention_by_tensors), plan, Facts(sizes))
