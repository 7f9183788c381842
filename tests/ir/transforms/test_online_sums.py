"""Sums that are linear in exponentials run in one loop with their maximum, and give what the text as written gives."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float, Int

import vkernels.language as vk
from tests.generated.random_kernels.native import run_native
from vkernels.ir.errors import PlanError
from vkernels.ir.facts import Facts
from vkernels.ir.interpret import interpret
from vkernels.ir.plan import Home, Plan
from vkernels.ir.text import print_module
from vkernels.ir.transforms.apply_plan import apply_plan

from ..lowering.ttir.lowering import copied
from .three_ways import run_three_ways

INF, NAN = float("inf"), float("nan")


@vk.kernel
def weighted_sums(
    q: Float[vk.Tensor, "G R M D"],
    k: Float[vk.Tensor, "G N D"],
    v: Float[vk.Tensor, "G N E"],
    bias: Float[vk.Tensor, "M N"],
    keep: Int[vk.Tensor, "M N"],
    weight: Float[vk.Tensor, "N"],
    out: Float[vk.Tensor, "G R M E"],
    total: Float[vk.Tensor, "G R M"],
    mean: Float[vk.Tensor, "G R M"],
    most: Float[vk.Tensor, "G R M"],
    biased: vk.Constant = False,
    capped: vk.Constant = False,
    masked: vk.Constant = False,
    hidden: vk.Constant = False,
    rounded: vk.Constant = False,
    phased: vk.Constant = False,
    guarded: vk.Constant = False,
    started: vk.Constant = False,
):
    g = vk.tile("G")
    r = vk.tile("R")
    i = vk.tile("M")
    j = vk.whole("N")
    d = vk.whole("D")
    e = vk.whole("E")
    score = vk.dot(q[g, r, i, d], k[g, j, d])
    if biased:
        score = score + bias[i, j]
    if capped:
        score = 5 * vk.tanh(score / 5)
    if masked:
        score = vk.where(keep[i, j] != 0, score, float("-inf"))
    if phased:
        vk.phase()
    highest = vk.max(score, axis=j)
    low = highest
    if guarded:
        low = vk.where(highest == float("-inf"), 0.0, highest)
    p = vk.exp(score - low)
    if hidden:
        p = vk.where(keep[i, j] != 0, p, 0.0)
    if rounded:
        p = p.to(v.dtype)
    if phased:
        vk.phase()
    both = vk.sum(p, axis=j)
    part = vk.sum(p * weight[j] / 2, axis=j)
    if started:
        value = vk.dot(p.to(v.dtype), v[g, j, e], vk.full((g, r, i, e), 2.0, total.dtype))
    else:
        value = vk.dot(p.to(v.dtype), v[g, j, e])
    out[g, r, i, e] = value / (both + 0.5)
    total[g, r, i] = both
    mean[g, r, i] = part
    most[g, r, i] = highest


FLAGS = ("biased", "capped", "masked", "hidden", "rounded", "phased", "guarded", "started")
EPSILON = {"float64": 1e-12, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


def numbers_in(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The numbers of an array in float64; bfloat16 is in uint16."""
    array = (array.astype(np.uint32) << 16).view(np.float32) if array.dtype == np.uint16 else array
    return array.astype(np.float64)


def reference(x: dict[str, Any], on: dict[str, bool]) -> dict[str, np.ndarray]:
    """The sums in float64."""
    q, k, v, bias, weight = (numbers_in(x[name]) for name in ("q", "k", "v", "bias", "weight"))
    keep = x["keep"] != 0
    with np.errstate(all="ignore"):
        score = np.einsum("grid,gjd->grij", q, k)
        score = score + bias if on["biased"] else score
        score = 5 * np.tanh(score / 5) if on["capped"] else score
        score = np.where(keep, score, -INF) if on["masked"] else score
        most = score.max(-1, initial=-INF)
        low = np.where(np.isneginf(most), 0, most) if on["guarded"] else most
        p = np.exp(score - low[..., None])
        p = np.where(keep, p, 0) if on["hidden"] else p
        value = np.einsum("grij,gje->grie", p, v) + 2 * on["started"]
        total = p.sum(-1)
        return {"out": value / (total[..., None] + 0.5), "total": total, "mean": (p * weight / 2).sum(-1), "most": most}


def as_memory(values: Any, dtype: str) -> Any:
    """Numbers as a tensor of a dtype holds them."""
    if dtype != "bfloat16":
        return np.asarray(values).astype(dtype)
    return (np.asarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def draw(choose: random.Random, dtype: str) -> tuple[dict[str, Any], dict[str, int], dict[str, bool]]:
    """Random arguments, sizes and constants."""
    sizes = {"G": 2, "R": choose.choice([1, 2]), "M": choose.choice([1, 5, 9]), "D": choose.choice([1, 3, 8])}
    sizes |= {"N": choose.choice([0, 1, 7, 16, 33, 100]), "E": choose.choice([1, 4, 7])}
    numbers = np.random.default_rng(choose.getrandbits(32))

    def normal(axes: str, scale: float = 1.0) -> np.ndarray[Any, Any]:
        return as_memory(scale * numbers.standard_normal([sizes[axis] for axis in axes]), dtype)

    wide = dtype if dtype == "float64" else "float32"
    x: dict[str, Any] = {"q": normal("GRMD", 3), "k": normal("GND", 2), "v": normal("GNE"), "bias": normal("MN", 20)}
    x["keep"] = numbers.integers(0, 2, (sizes["M"], sizes["N"]), dtype=np.int32)
    x["keep"][: choose.choice([0, 1])] = 0  # a row without anything
    x["weight"] = normal("N")
    for name, axes in (("out", "GRME"), ("total", "GRM"), ("mean", "GRM"), ("most", "GRM")):
        x[name] = np.full([sizes[axis] for axis in axes], 7, wide)
    x["bias"][: choose.choice([0, 0, 1])] = as_memory(-INF, dtype)
    if x["bias"].size and choose.random() < 0.5:
        for strange in (INF, -INF, NAN):
            place = choose.randrange(sizes["M"]), choose.randrange(sizes["N"])
            x["bias"][place] = as_memory(strange, dtype)
    return x, sizes, {flag: choose.random() < 0.5 for flag in FLAGS}


def built(x: dict[str, Any], on: dict[str, bool]) -> Any:
    dtypes = {name: vk_dtype(value) for name, value in x.items()}
    return weighted_sums.build(weighted_sums.signature(**dtypes, **on))


def vk_dtype(value: np.ndarray[Any, Any]) -> str:
    return "bfloat16" if value.dtype == np.uint16 else str(value.dtype)


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(64))
@pytest.mark.parametrize("dtype", list(EPSILON))
def test_random_texts_are_as_written(dtype: str, seed: int) -> None:
    choose = random.Random(f"{dtype} {seed}")
    x, sizes, on = draw(choose, dtype)
    print(f"seed {seed}: {sizes} {on}")
    module = built(x, on)
    chunks = {"j": choose.choice([1, 4, 8]), "d": choose.choice([2, 8]), "e": choose.choice([1, 8])}
    tiles = {"g": 1, "r": choose.choice([1, 2]), "i": choose.choice([1, 4])}
    facts = Facts(sizes if choose.random() < 0.5 else {}, distinct=choose.random() < 0.5)
    homes = {"value": choose.choice([Home.SHARED, Home.MEMORY] if facts.sizes else [Home.MEMORY])}
    lanes = choose.choice(["i", "j", "e", None])
    plan = Plan(tiles, chunks, homes if choose.random() < 0.5 else {}, online=("j",), lanes=lanes)
    expected = copied(x)
    interpret(module, expected)
    for name, right in reference(x, on).items():
        tolerance = 1e3 * EPSILON[dtype] if on["biased"] else 20 * EPSILON[dtype]
        np.testing.assert_allclose(expected[name], right, tolerance, tolerance, err_msg=name)
    run_three_ways(module, x, sizes, plan, facts, EPSILON[dtype])


@vk.kernel
def sums_of_rows(x: Float[vk.Tensor, "M N"], v: Float[vk.Tensor, "N E"], out: Float[vk.Tensor, "M E"]):
    i = vk.tile("M")
    j = vk.whole("N")
    e = vk.whole("E")
    value = vk.dot(vk.exp(x[i, j] - vk.max(x[i, j], axis=j)), v[j, e], axis=j)
    out[i, e] = value


@pytest.mark.sample(3)
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("chunk", [3, 8])
@pytest.mark.parametrize("length", [100, 5000, 40_000])
def test_long_sums_in_homes_are_as_accurate_as_others(length: int, chunk: int, known: bool) -> None:
    sizes = {"M": 2, "N": length, "E": 3}
    x = np.zeros((2, length), np.float32)
    x[1] = np.linspace(-40, 0, length)  # a base that moves
    v = np.full((length, 3), 0.1, np.float32)
    arguments: dict[str, Any] = {"x": x, "v": v, "out": np.full((2, 3), 7, np.float32)}
    module = sums_of_rows.build(sums_of_rows.signature(x="float32", v="float32", out="float32"))
    plan = Plan({"i": 2}, {"j": chunk, "e": 2}, {"value": Home.MEMORY}, online=("j",), lanes="i")
    run_native(apply_plan(module, plan, Facts(sizes if known else {}, distinct=True)), arguments, sizes)
    wide = x.astype(np.float64)
    right = np.exp(wide - wide.max(1, keepdims=True)) @ v.astype(np.float64)
    bound = (16 + 4 * np.log2(length)) * 2.0**-24 * 1.1  # and each exponential has an error of its own
    np.testing.assert_allclose(arguments["out"][0], right[0], bound)
    np.testing.assert_allclose(arguments["out"][1], right[1], 2 * bound + 1e-6)


@vk.kernel
def sum_of_kept(x: Float[vk.Tensor, "M N"], keep: Int[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    j = vk.whole("N")
    p = vk.exp(x[i, j] - vk.max(x[i, j], axis=j))
    out[i] = vk.sum(vk.where(keep[i, j] != 0, p, 0.0), axis=j)


@pytest.mark.sample(2)
@pytest.mark.parametrize("tile", [1, 4])
@pytest.mark.parametrize("lanes", ["j", None])
def test_an_infinite_maximum_that_is_hidden_leaves_numbers(tile: int, lanes: str | None) -> None:
    x: dict[str, Any] = {"x": np.zeros((4, 32), np.float32), "keep": np.ones((4, 32), np.int32)}
    x["x"][:3, [2, 9]] = INF
    x["keep"][1, [2, 9]] = x["keep"][2] = 0
    x["out"] = np.full(4, 7, np.float32)
    module = sum_of_kept.build(sum_of_kept.signature(x="float32", keep="int32", out="float32"))
    expected = copied(x)
    interpret(module, expected)
    np.testing.assert_array_equal(expected["out"], [NAN, 0, 0, 32])
    sizes = {"M": 4, "N": 32}
    run_three_ways(module, x, sizes, Plan({"i": tile}, {"j": 4}, online=("j",), lanes=lanes), Facts(sizes), 0.0)


@vk.kernel
def softmax_gradient(
    x: Float[vk.Tensor, "M N"],
    change: Float[vk.Tensor, "M N"],
    out: Float[vk.Tensor, "M N"],
    squares: vk.Constant = False,
):
    i = vk.tile("M")
    j = vk.whole("N")
    p = vk.exp(x[i, j] - vk.max(x[i, j], axis=j))
    total = vk.sum(p, axis=j)
    mean = vk.sum(p * change[i, j], axis=j) / total
    if squares:
        mean = mean + vk.sum(p * p, axis=j)
    out[i, j] = p / total * (change[i, j] - mean)


@pytest.mark.parametrize(("squares", "loops"), [(False, 2), (True, 3)])
def test_what_is_not_linear_stays_in_a_later_loop(squares: bool, loops: int) -> None:
    numbers = np.random.default_rng(3)
    x = {name: numbers.normal(0, 20, (4, 32)).astype(np.float32) for name in ("x", "change")}
    x["out"] = np.full((4, 32), 7, np.float32)
    module = softmax_gradient.build(softmax_gradient.signature(**dict.fromkeys(x, "float32"), squares=squares))
    plan, sizes = Plan({"i": 4}, {"j": 8}, online=("j",), lanes="j"), {"M": 4, "N": 32}
    text = run_three_ways(module, x, sizes, plan, Facts(sizes, distinct=True))
    assert text.count("scf.for") == loops


@vk.kernel
def two_maxima(x: Float[vk.Tensor, "M N"], y: Float[vk.Tensor, "M K"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    j = vk.whole("N")
    k = vk.whole("K")
    a = vk.sum(vk.exp(x[i, j] - vk.max(x[i, j], axis=j)), axis=j)
    p = vk.exp(y[i, k] - vk.max(y[i, k], axis=k))
    out[i] = vk.sum(p * y[i, k] * a, axis=k) / vk.sum(p, axis=k) + vk.max(y[i, k] * a, axis=k)


@pytest.mark.sample(2)
@pytest.mark.parametrize("online", [("j",), ("k",), ("j", "k")])
def test_maxima_along_two_axes_are_apart(online: tuple[str, ...]) -> None:
    numbers = np.random.default_rng(4)
    sizes = {"M": 5, "N": 20, "K": 13}
    x: dict[str, Any] = {"x": numbers.normal(0, 9, (5, 20)), "y": numbers.normal(0, 9, (5, 13)), "out": np.ones(5)}
    module = two_maxima.build(two_maxima.signature(**dict.fromkeys(x, "float64")))
    plan = Plan({"i": 2}, {"j": 8, "k": 4}, online=online, lanes="k")
    run_three_ways(module, x, sizes, plan, Facts(sizes), 1e-12)


@vk.kernel
def refused_sums(
    x: Float[vk.Tensor, "M N"], w: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"], case: vk.Constant = ""
):
    i = vk.tile("M")
    j = vk.whole("N")
    highest = vk.max(x[i, j], axis=j)
    p = vk.exp(x[i, j] - highest)
    if case == "square":
        weight = p
    elif case == "maximum":
        weight = x[i, j] * highest
    elif case == "later":
        weight = x[i, j] + vk.sum(w[i, j], axis=j)
    elif case == "written":
        w[i, j] = p
        vk.phase()
        weight = w[i, j]
    elif case == "rounded":
        p = (p * w[i, j]).to(vk.float16)
        weight = 1
    elif case == "wide":
        wide = vk.cast(x[i, j], vk.float64)
        p = (vk.exp(wide - vk.max(wide, axis=j)) * w[i, j]).to(vk.float32)
        weight = 1
    else:
        weight = 2 * w[i, j]
        vk.phase()
    out[i] = vk.sum(p * weight, axis=j)


@pytest.mark.parametrize(("case", "homes", "message"), [
    ("square", {}, r"no sum of exp\(x - m\)"),
    ("maximum", {}, "by what depends on the maximum or comes after it"),
    ("later", {}, "by what depends on the maximum or comes after it"),
    ("rounded", {}, r"no sum of exp\(x - m\)"),
    ("wide", {}, r"no sum of exp\(x - m\)"),
    ("written", {}, "computed after the maximum, but in the same loop|is written before"),
    ("home", {"weight": Home.MEMORY}, "computed after the maximum, but in the same loop"),
])  # fmt: skip
def test_a_sum_that_cannot_go_online_is_refused(case: str, homes: dict[str, Home], message: str) -> None:
    signature = refused_sums.signature(x="float32", w="float32", out="float32", case=case)
    plan = Plan({"i": 4}, {"j": 16}, homes, online=("j",))
    with pytest.raises(PlanError, match=message):
        apply_plan(refused_sums.build(signature), plan, Facts(distinct=True))


@vk.kernel
def rounded_sum(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"], dtype: vk.Constant = vk.float16):
    i = vk.tile("M")
    j = vk.whole("N")
    p = vk.exp(x[i, j] - vk.max(x[i, j], axis=j)).to(dtype)
    out[i] = vk.sum(p.to(vk.float32), axis=j)


@pytest.mark.parametrize(("dtype", "slack"), [(vk.float16, "8"), (vk.float8_e5m2, "8"), (vk.float8_e4m3fn, "6")])
def test_exponentials_above_the_base_are_finite_in_narrow_dtypes(dtype: Any, slack: str) -> None:
    module = rounded_sum.build(rounded_sum.signature(x="float32", out="float32", dtype=dtype))
    mapped = apply_plan(module, Plan({"i": 4}, {"j": 8}, online=("j",), lanes="j"), Facts())
    assert f"dense<{slack}.000000e+00>" in print_module(mapped)
    x = np.linspace(0, 40, 64, dtype=np.float32).reshape(1, 64)
    expected, actual = np.zeros(1, np.float32), np.zeros(1, np.float32)
    interpret(module, {"x": x, "out": expected})
    interpret(mapped, {"x": x, "out": actual})
    np.testing.assert_allclose(actual, expected, 0.1)
