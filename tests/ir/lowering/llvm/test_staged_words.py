"""Dots on matrix units of operands that are not packed: gathered, masked, computed, or across the contracted axis."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from jaxtyping import Float, Int
from xdsl.dialects.builtin import ModuleOp

import vkernels.language as vk
from vkernels.compiler.backends.llvm import compile_lowered
from vkernels.compiler.protocols import Signature
from vkernels.ir.facts import Facts
from vkernels.ir.interpret import interpret
from vkernels.ir.lowering.llvm.emit import ToBf16
from vkernels.ir.lowering.llvm.lower_to_llvm import lower_to_llvm
from vkernels.ir.pipeline import cpu_pipeline, run_passes
from vkernels.ir.plan import Home, Plan
from vkernels.ir.text import parse_module, print_module

from .memory import guarded
from .running import Call
from .software_units import software_units
from .test_matrix_units import CHUNK, SPLIT, UNITS, facts_of, floats, numbers, result_name
from .test_units import compiled, operand
from .texts import matmul_text

SHAPES = [(6, 32, 64), (7, 37, 61), (1, 1, 1), (33, 50, 130), (13, 5, 2), (2, 3, 0), (64, 64, 128)]
"""Rows, columns and depth."""


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize(("tile", "times"), [((32, 32), 1), ((16, 48), 2), ((5, 21), 1), ((20, 16), 4)])
@pytest.mark.parametrize("packs", [(), ("a",), ("b",)])
@pytest.mark.parametrize("unit", [*UNITS.values(), SPLIT])
def test_operands_of_any_order_are_written_as_words(
    unit: str, packs: tuple[str, ...], tile: tuple[int, int], times: int, turned: tuple[bool, bool],
    shape: tuple[int, int, int],
) -> None:  # fmt: skip
    m, n, k = shape
    element = next((each for each, name in UNITS.items() if name == unit), "f16")
    make = operand if element == "i8" else floats
    a, b = make((m, k), element, turned[0], 1), make((k, n), element, turned[1], 2)
    result = np.int32 if element == "i8" else np.float32
    out, seen = guarded(np.full((m, n), 7, result)), np.full((m, n), 7, result)
    plan = Plan({"i": tile[0], "j": tile[1]}, {"k": times * CHUNK[element]}, packs=packs, lanes="j")
    code, mapped = compiled(matmul_text(element, result_name(element)), plan, facts_of(turned), (unit,), 64)
    assert "of matrix_" in mapped
    sizes = {"M": m, "N": n, "K": k}
    Call(code, [a, b, out], sizes).run()
    _check(out, *(numbers(each).astype(np.float64) for each in (a, b)), exactly=element == "i8")
    if m * n * k < 50_000:
        interpret(parse_module(mapped), {"a": a, "b": b, "out": seen})
        np.testing.assert_array_equal(out, seen)


@vk.kernel
def of_computed(a: Float[vk.Tensor, "M K"], b: Float[vk.Tensor, "K N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    k = vk.whole("K")
    out[i, j] = vk.dot(a[i, k], vk.exp(vk.abs(b[k, j]) + 1.0).to(a.dtype))


@vk.kernel
def of_gathered(
    x: Float[vk.Tensor, "T K"],
    row: Int[vk.Tensor, "M"],
    weight: Float[vk.Tensor, "K N"],
    out: Float[vk.Tensor, "M N"],
):
    i = vk.tile("M")
    j = vk.tile("N")
    k = vk.whole("K")
    out[i, j] = vk.dot(vk.load(x[row[i], k], where=i < vk.size("M") - 1), weight[k, j])


@vk.kernel
def of_scores(
    q: Float[vk.Tensor, "M D"], k: Float[vk.Tensor, "N D"], v: Float[vk.Tensor, "N E"], out: Float[vk.Tensor, "E M"]
):
    i = vk.tile("M")
    j = vk.whole("N")
    d = vk.whole("D")
    e = vk.whole("E")
    score = vk.dot(k[j, d], q[i, d])
    vk.phase()
    p = vk.exp(score - vk.max(score, axis=j))
    vk.phase()
    out[e, i] = vk.dot(v[j, e], p.to(v.dtype)) / vk.sum(p, axis=j)


@vk.kernel
def of_steps(q: Float[vk.Tensor, "M D"], k: Float[vk.Tensor, "S N D"], out: Float[vk.Tensor, "S N M"]):
    i = vk.tile("M")
    j = vk.whole("N")
    d = vk.whole("D")
    query = q[i, d]
    vk.phase()
    for s in vk.range("S"):
        out[s, j, i] = vk.dot(k[s, j, d], query)


@vk.kernel
def of_ranges(a: Float[vk.Tensor, "R S M K"], b: Float[vk.Tensor, "R S K N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    k = vk.whole("K")
    total = vk.zeros((i, j), vk.float32)
    for r in vk.range("R"):
        for s in vk.range("S"):
            total = vk.dot(a[r, s, i, k], b[r, s, k, j], total)
    out[i, j] = total


@vk.kernel
def of_two_loops(
    a: Float[vk.Tensor, "S M K"],
    b: Float[vk.Tensor, "S K N"],
    c: Float[vk.Tensor, "S M L"],
    d: Float[vk.Tensor, "S L N"],
    out: Float[vk.Tensor, "M N"],
    last: Float[vk.Tensor, "M N"],
):
    i = vk.tile("M")
    j = vk.tile("N")
    k = vk.whole("K")
    l = vk.whole("L")
    one = vk.zeros((i, j), vk.float32)
    other = vk.zeros((i, j), vk.float32)
    for s in vk.range("S"):
        one = vk.dot(a[s, i, k], b[s, k, j], one)
        other = vk.dot(c[s, i, l], d[s, l, j], other)
    out[i, j] = one - other
    last[i, j] = vk.dot(a[0, i, k], b[0, k, j])


@vk.kernel
def of_overwritten(x: Float[vk.Tensor, "M K"], w: Float[vk.Tensor, "K N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    k = vk.whole("K")
    old = x[i, k]
    x[i, k] = 1.0
    out[i, j] = vk.dot(old, w[k, j])


DTYPES = {np.dtype(np.uint16): "bfloat16", np.dtype(np.float32): "float32", np.dtype(np.int64): "int64"}


def _built(kernel: vk.Kernel, arrays: dict[str, np.ndarray]) -> ModuleOp:
    return kernel.build(Signature(tuple((name, DTYPES[each.dtype]) for name, each in arrays.items()), (), ()))


def _run(
    kernel: vk.Kernel, plan: Plan, arrays: dict[str, np.ndarray], sizes: dict[str, int], facts: Facts | None = None
) -> ModuleOp:
    """Run a kernel with a matrix unit in software; its mapped IR."""
    facts = facts or Facts(
        strides={name: (-1, 1) if each.ndim == 2 else (1,) for name, each in arrays.items()}, distinct=True
    )
    mapped = run_passes(cpu_pipeline(plan, facts, units=("amx-bf16",)), _built(kernel, arrays))
    lowered = lower_to_llvm(next(iter(mapped.ops)), 64, ToBf16.FLUSHED)
    Call(compile_lowered(lowered, units=software_units), list(arrays.values()), sizes).run()
    return mapped


def _bf16(shape: tuple[int, ...], seed: int) -> np.ndarray:
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return guarded((values.view(np.uint32) >> 16).astype(np.uint16))


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tile", [(32, 32), (7, 16), (16, 48)])
def test_a_computed_operand(tile: tuple[int, int], shape: tuple[int, int, int]) -> None:
    """What is computed beyond the end of the contracted axis is not 0, and does not count."""
    m, n, k = shape
    a, b, out = _bf16((m, k), 1), _bf16((k, n), 2), guarded(np.full((m, n), np.nan, np.float32))
    plan = Plan({"i": tile[0], "j": tile[1]}, {"k": 32}, lanes="j")
    mapped = _run(of_computed, plan, {"a": a, "b": b, "out": out}, {"M": m, "N": n, "K": k})
    assert "of matrix_" in print_module(mapped)
    exact = np.exp(np.abs(numbers(b).astype(np.float64)) + 1)
    one = numbers(a).astype(np.float64)
    assert (np.abs(out - one @ exact) <= 2.0**-7 * (np.abs(one) @ exact)).all()
    seen = np.full((m, n), np.nan, np.float32)
    interpret(mapped, {"a": a, "b": b, "out": seen})
    np.testing.assert_array_equal(out, seen)


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tile", [(32, 32), (7, 16), (16, 48)])
def test_gathered_rows_under_a_mask(tile: tuple[int, int], shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    x, weight, out = _bf16((2 * m, k), 1), _bf16((k, n), 2), guarded(np.full((m, n), np.nan, np.float32))
    row = guarded(np.random.default_rng(3).permutation(2 * m)[:m].astype(np.int64))
    plan = Plan({"i": tile[0], "j": tile[1]}, {"k": 32}, lanes="j")
    mapped = _run(of_gathered, plan, {"x": x, "row": row, "weight": weight, "out": out},
                  {"T": 2 * m, "M": m, "N": n, "K": k})  # fmt: skip
    assert "of matrix_" in print_module(mapped)
    one, other = numbers(x)[row].astype(np.float64), numbers(weight).astype(np.float64)
    one[m - 1 :] = 0
    _check(out, one, other)


@pytest.mark.sample(2)
@pytest.mark.parametrize("shape", [(16, 32, 64, 32), (19, 33, 40, 20), (1, 1, 1, 1), (32, 64, 32, 64)])
@pytest.mark.parametrize("online", [("j",), ()])
@pytest.mark.parametrize("rows", [16, 32])
def test_products_of_products(rows: int, online: tuple[str, ...], shape: tuple[int, int, int, int]) -> None:
    """Scores and what they weigh, in one loop over keys and in several: both products on the unit."""
    m, n, d, e = shape
    q, k, v, out = _bf16((m, d), 1), _bf16((n, d), 2), _bf16((n, e), 3), guarded(np.full((e, m), np.nan, np.float32))
    homes = {} if online else {"score": Home.MEMORY, "p": Home.MEMORY}
    plan = Plan({"i": rows}, {"j": 32, "d": 32, "e": 32}, homes, lanes="i", online=online)
    sizes = {"M": m, "N": n, "D": d, "E": e}  # known, or LLVM takes seconds for all variants of a polynomial
    facts = Facts(sizes, strides=dict.fromkeys(("q", "k", "v", "out"), (-1, 1)), distinct=True)
    mapped = _run(of_scores, plan, {"q": q, "k": k, "v": v, "out": out}, sizes, facts)
    text = print_module(mapped)
    assert "of matrix_" in text
    assert "vk.dot " not in text
    one, other, last = (numbers(each).astype(np.float64) for each in (q, k, v))
    score = other @ one.T
    p = np.exp(score - score.max(0))
    exact, size = ((p.T @ each).T / p.sum(0) for each in (last, np.abs(last)))
    assert (np.abs(out - exact) <= 2.0**-7 * size + 2.0**-20).all()


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("shape", [(6, 32, 64), (33, 70, 40), (1, 1, 1), (64, 64, 96)])
@pytest.mark.parametrize(("rows", "home"), [(16, Home.MEMORY), (32, Home.MEMORY), (20, Home.SHARED)])
def test_homes_hold_words(rows: int, home: Home, shape: tuple[int, int, int]) -> None:
    """What is read again and again is joined to words once."""
    m, n, d = shape
    q, k, out = _bf16((m, d), 1), _bf16((3, n, d), 2), guarded(np.full((3, n, m), np.nan, np.float32))
    plan = Plan({"i": rows}, {"j": 32, "d": 32}, {"query": home}, lanes="i")
    sizes = {"M": m, "N": n, "D": d, "S": 3}
    facts = Facts(sizes if home is Home.SHARED else {}, strides={"q": (-1, 1), "k": (-1, -1, 1)}, distinct=True)
    mapped = _run(of_steps, plan, {"q": q, "k": k, "out": out}, sizes, facts)
    text = print_module(mapped)
    assert re.search(rf"{'scratch' if home is Home.SHARED else 'buffer'}<\[[^]]*\], i32>", text)
    assert "vk.dot " not in text
    one, other = numbers(q).astype(np.float64), numbers(k).astype(np.float64)
    for step in range(3):
        _check(out[step], other[step], one.T)


@pytest.mark.slow
@pytest.mark.sample(2)
@pytest.mark.parametrize("shape", [(32, 32, 32), (33, 50, 70), (7, 3, 5)])
@pytest.mark.parametrize("steps", [(3, 2), (1, 5), (0, 1)])
def test_ranges_keep_sums_in_the_unit(steps: tuple[int, int], shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b, out = _bf16((*steps, m, k), 1), _bf16((*steps, k, n), 2), guarded(np.full((m, n), np.nan, np.float32))
    sizes = {"R": steps[0], "S": steps[1], "M": m, "N": n, "K": k}
    facts = Facts(strides={"a": (-1, -1, -1, 1), "b": (-1, -1, -1, 1), "out": (-1, 1)}, distinct=True)
    plan = Plan({"i": 32, "j": 32}, {"k": 32}, lanes="j")
    arrays = {"a": a, "b": b, "out": out}
    mapped = _run(of_ranges, plan, arrays, sizes, facts)
    assert "of matrix_" in print_module(mapped)
    one = numbers(a).astype(np.float64).transpose(2, 0, 1, 3).reshape(m, -1)
    _check(out, one, numbers(b).astype(np.float64).reshape(-1, n))
    known = replace(facts, sizes={**sizes, "R": 3, "S": 2, "M": 32, "N": 32, "K": 32})
    mapped = run_passes(cpu_pipeline(plan, known, units=("amx-bf16",)), _built(of_ranges, arrays))
    text = lower_to_llvm(next(iter(mapped.ops)), 64).text
    assert text.index("@vk_matrix_zero_0()") < text.index("scf.for")
    assert text.rindex("@vk_matrix_store_0(") > text.rindex("scf.yield")


@pytest.mark.sample(2)
@pytest.mark.parametrize("tile", [(5, 16), (16, 5), (20, 20)])
def test_shapes_are_set_again_after_a_range_with_two_loops(tile: tuple[int, int]) -> None:
    """The range has the unit hold two tiles of sums, what follows one of the same rows and columns."""
    sizes = {"S": 3, "M": 21, "N": 37, "K": 70, "L": 90}
    shapes = {"a": "SMK", "b": "SKN", "c": "SML", "d": "SLN"}
    arrays = {name: _bf16(tuple(sizes[each] for each in dims), n) for n, (name, dims) in enumerate(shapes.items())}
    a, b, c, d = (numbers(each).astype(np.float64) for each in arrays.values())
    arrays |= {name: guarded(np.full((21, 37), np.nan, np.float32)) for name in ("out", "last")}
    facts = Facts(sizes, strides={name: (-1,) * (each.ndim - 1) + (1,) for name, each in arrays.items()}, distinct=True)
    _run(of_two_loops, Plan({"i": tile[0], "j": tile[1]}, {"k": 32, "l": 32}, lanes="j"), arrays, sizes, facts)
    one = np.concatenate([a, -c], 2).transpose(1, 0, 2).reshape(21, -1)
    _check(arrays["out"], one, np.concatenate([b, d], 1).reshape(-1, 37))
    _check(arrays["last"], a[0], b[0])


@pytest.mark.sample(4)
@pytest.mark.parametrize("depth", [32, 64, 70])
@pytest.mark.parametrize("lanes", ["i", "j"])
@pytest.mark.parametrize("is_turned", [False, True])
def test_operands_are_read_before_they_are_overwritten(is_turned: bool, lanes: str, depth: int) -> None:
    """A unit that reads rows where they are would read what is stored before the dot."""
    sizes = {"M": 16, "N": 16, "K": depth}
    x, w, out = _bf16((16, depth), 1), _bf16((depth, 16), 2), guarded(np.full((16, 16), np.nan, np.float32))
    if is_turned:
        x = np.asfortranarray(x)
    old = numbers(x).astype(np.float64)
    strides = {"x": (1, 16) if is_turned else (depth, 1), "w": (16, 1), "out": (16, 1)}
    plan = Plan({"i": 16}, {"j": 16, "k": 32}, lanes=lanes)
    mapped = _run(of_overwritten, plan, {"x": x, "w": w, "out": out}, sizes, Facts(sizes, {}, strides, distinct=True))
    assert "of matrix_" in print_module(mapped)
    _check(out, old, numbers(w).astype(np.float64))


def _check(out: np.ndarray, one: np.ndarray, other: np.ndarray, exactly: bool = False) -> None:
    """Products within the bound of sums of f32."""
    depth = one.shape[1]
    bound = (16 + 4 * np.log2(max(2, depth))) * 2.0**-24 * (np.abs(one) @ np.abs(other)) + 2 * depth * 2.0**-126
    assert (np.abs(out - one @ other) <= bound * (not exactly)).all()
