"""Dots on matrix units: planned kernels with the unit in software, against NumPy and the interpreter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vkernels.ir.facts import Facts
from vkernels.ir.interpret import interpret
from vkernels.ir.plan import Plan
from vkernels.ir.text import parse_module

from .memory import guarded
from .running import Call
from .test_units import as_floats, compiled, operand, product
from .texts import matmul_text

CASES = [
    (shape, (n % 2 > 0, n % 3 > 1))
    for n, shape in enumerate(
        [(6, 32, 64), (7, 37, 61), (1, 1, 1), (33, 90, 200), (13, 5, 2), (2, 3, 0), (16, 16, 4200)]
    )
]
"""Rows, columns and depth, and whether each operand's rows are its columns in memory."""
TILES = [(32, 32), (16, 48), (5, 16), (20, 20), (48, 16), (32, 8)]
"""Rows and columns that a program takes at once."""
CHUNK = {"i8": 64, "bf16": 32, "f16": 32}
UNITS = {"i8": "amx-int8", "bf16": "amx-bf16", "f16": "amx-fp16"}
SPLIT = "amx-bf16-split"
"""The unit that takes f16 as sums of two bf16."""


def matrix_plan(element: str, tile: tuple[int, int], parts: int = 1) -> Plan:
    splits = {"k": parts} if parts > 1 else {}
    return Plan({"i": tile[0], "j": tile[1]}, {"k": CHUNK[element]}, packs=("a", "b"), lanes="j", splits=splits)


def facts_of(turned: tuple[bool, bool], sizes: dict[str, int] | None = None) -> Facts:
    a, b = ((1, -1) if each else (-1, 1) for each in turned)
    return Facts(sizes or {}, strides={"a": a, "b": b, "out": (-1, 1)}, distinct=True)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("shape", "turned"), CASES)
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize(("signs", "parts"), [("ss", 1), ("su", 3), ("us", 1), ("uu", 1)])
def test_int8_is_exact_for_all_signs(
    tile: tuple[int, int], shape: tuple[int, int, int], turned: tuple[bool, bool], parts: int, signs: str
) -> None:
    m, n, k = shape
    a, b = operand((m, k), "i8", turned[0], 1), operand((k, n), "i8", turned[1], 2)
    out = guarded(np.full((m, n), -7, np.int32))
    text, plan = matmul_text("i8", "i32", signs), matrix_plan("i8", tile, parts)
    code, mapped = compiled(text, plan, facts_of(turned), ("amx-int8",), 64)
    assert "of matrix_" in mapped
    Call(code, [a, b, out], {"M": m, "N": n, "K": k}).run()
    np.testing.assert_array_equal(out, product(a, b, signs))


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize(("shape", "turned"), CASES)
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize(
    ("unit", "parts", "known"),
    [("amx-bf16", 1, True), ("amx-bf16", 3, False), ("amx-fp16", 1, False), ("amx-fp16", 3, True), (SPLIT, 1, True),
     (SPLIT, 3, False)],
)  # fmt: skip
def test_floats_are_within_the_bound_and_as_interpreted(
    unit: str, tile: tuple[int, int], shape: tuple[int, int, int], turned: tuple[bool, bool], parts: int, known: bool
) -> None:
    element = "bf16" if unit == "amx-bf16" else "f16"
    m, n, k = shape
    a, b = floats((m, k), element, turned[0], 1), floats((k, n), element, turned[1], 2)
    out, seen = guarded(np.full((m, n), np.nan, np.float32)), np.full((m, n), np.nan, np.float32)
    sizes = {"M": m, "N": n, "K": k}
    facts = facts_of(turned, sizes if known else None)
    code, mapped = compiled(matmul_text(element, "f32"), matrix_plan(element, tile, parts), facts, (unit,), 64)
    assert ("of matrix_" in mapped) == (k > 0 or not known)
    Call(code, [a, b, out], sizes).run()
    one, other = (numbers(each).astype(np.float64) for each in (a, b))
    sums = np.abs(one) @ np.abs(other)
    assert (np.abs(out - one @ other) <= (16 + 4 * np.log2(max(2, k))) * 2.0**-24 * sums + 2 * k * 2.0**-126).all()
    if m * n * k < 50_000:
        interpret(parse_module(mapped), {"a": a, "b": b, "out": seen})
        np.testing.assert_array_equal(out, seen)


@pytest.mark.sample(2)
@pytest.mark.parametrize("element", ["bf16", "f16", "i8"])
@pytest.mark.parametrize(("rows", "depth"), [(64, 128), (48, 128), (64, 130)])
def test_rows_are_read_where_they_are(element: str, rows: int, depth: int) -> None:
    """Rows that are not packed, with gaps between them, at the end of memory; some of them out of range."""
    sizes = {"M": rows, "N": 45, "K": depth}
    make = operand if element == "i8" else floats
    a = make((rows, depth + 32), element, False, 1)[:, 32:]
    b = make((depth, 45), element, False, 2)
    result = np.int32 if element == "i8" else np.float32
    out = guarded(np.full((rows, 45), 7, result))
    multiples = {name: sizes[name] for name in ("M", "K")}
    facts = Facts(multiples=multiples, strides=dict.fromkeys(("a", "b", "out"), (-1, 1)), distinct=True)
    plan = replace(matrix_plan(element, (32, 32)), packs=("b",))
    code, mapped = compiled(matmul_text(element, result_name(element)), plan, facts, (UNITS[element],), 64)
    assert "of matrix_" in mapped
    Call(code, [a, b, out], sizes).run()
    one, other = (numbers(each).astype(np.float64) for each in (a, b))
    assert (np.abs(out - one @ other) <= 64 * 2.0**-24 * (np.abs(one) @ np.abs(other)) * (element != "i8")).all()


def result_name(element: str) -> str:
    return "i32" if element == "i8" else "f32"


def floats(shape: tuple[int, int], element: str, turned: bool, seed: int) -> np.ndarray:
    if element == "bf16":
        return operand(shape, element, turned, seed)
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float16)
    return guarded(values.T).T if turned else guarded(values)


def numbers(stored: np.ndarray) -> np.ndarray:
    """The numbers that bits of bf16 or f16 are."""
    return as_floats(stored) if stored.dtype == np.uint16 else stored.astype(np.float32)


SPECIAL = {
    "bf16": [0x0000, 0x8000, 0x0001, 0x007F, 0x0080, 0x3F80, 0xBF80, 0x7F7F, 0x7F80, 0xFF80, 0x7FC0, 0x3F81, 0x2000],
    "f16": [0x0000, 0x8000, 0x0001, 0x03FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0x3C01, 0x1001],
}
"""Zeros, subnormal and least normal numbers, ones, the greatest, infinities, NaN, and what makes products tie."""


@pytest.mark.parametrize(("element", "unit"), [
    ("bf16", "amx-bf16"), ("f16", "amx-fp16"), ("f16", SPLIT), ("bf16", "avx512-bf16"), ("bf16", "neon-bf16"),
])  # fmt: skip
def test_special_numbers_are_as_interpreted(element: str, unit: str) -> None:
    """Subnormal numbers, ties, infinities and NaN: of pairs of all kinds, in the first and the last place of a word."""
    special = np.array(SPECIAL[element], np.uint16)
    k, n = 34, len(special)
    a, b = np.zeros((4 * n, k), np.uint16), np.zeros((k, n), np.uint16)
    for row in range(4 * n):  # a special number, then 1 and a small one, so that the sum rounds
        a[row, [row // n % 2, 2 + row // n]] = special[row % n], special[5]
        a[row, 33] = special[2 + row % 3]
    b[:], b[33] = special, special[::-1]
    stored = [guarded(x if element == "bf16" else x.view(np.float16)) for x in (a, b)]
    out, seen = guarded(np.full((4 * n, n), 7, np.float32)), np.full((4 * n, n), 7, np.float32)
    plan = Plan({"i": 8, "j": 16}, {"k": 32}, packs=("a", "b"), lanes="j")
    sizes = {"M": 4 * n, "N": n, "K": k}
    code, mapped = compiled(matmul_text(element, "f32"), plan, Facts(sizes, distinct=True), (unit,), 64)
    Call(code, [*stored, out], sizes).run()
    with np.errstate(all="ignore"):
        interpret(parse_module(mapped), {"a": stored[0], "b": stored[1], "out": seen})
    np.testing.assert_array_equal(out, seen)
    assert np.isnan(out).any()
    assert np.isinf(out).any()
