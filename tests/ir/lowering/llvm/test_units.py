"""Dots on dot units: planned kernels with units in software, against the kernel as written and the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from vkernels.compiler.backends.llvm import NativeKernel, compile_lowered, host_dot_units
from vkernels.ir.facts import Facts
from vkernels.ir.interpret import interpret
from vkernels.ir.lowering.llvm.lower_to_llvm import lower_to_llvm
from vkernels.ir.pipeline import cpu_pipeline, run_passes
from vkernels.ir.plan import Plan
from vkernels.ir.text import parse_module, print_module
from vkernels.ir.transforms.verify_mapped import verify_mapped

from .memory import guarded
from .running import Call
from .software_units import software_units
from .texts import matmul_text

LEAST = np.float32(2.0**-126)


def compiled(
    text: str, plan: Plan, facts: Facts, units: tuple[str, ...], register_bytes: int
) -> tuple[NativeKernel, str]:
    """Native code with units in software, and the mapped IR."""
    mapped = run_passes(cpu_pipeline(plan, facts, units=units), parse_module(text))
    verify_mapped(mapped)
    lowered = lower_to_llvm(next(iter(mapped.ops)), register_bytes)
    return compile_lowered(lowered, units=software_units), print_module(mapped)


def operand(shape: tuple[int, int], element: str, turned: bool, seed: int) -> np.ndarray:
    """Numbers of i8, or bits of bf16, whose first or last dimension is contiguous."""
    rng = np.random.default_rng(seed)
    if element == "i8":
        values = rng.integers(-128, 128, shape).astype(np.int8)
    else:
        values = (rng.standard_normal(shape).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return guarded(values.T).T if turned else guarded(values)


def as_floats(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


SHAPES = [(6, 32, 64), (7, 37, 61), (1, 1, 1), (3, 90, 200), (13, 5, 2), (2, 3, 0)]
CASES = [(shape, (n % 2 > 0, n % 3 > 1)) for n, shape in enumerate([*SHAPES, (5, 33, 12), (9, 48, 7)])]
"""Rows, columns and depth, and whether each operand's rows are its columns in memory."""
PLANS = [
    Plan({"i": 4, "j": 32}, {"k": 4}, packs=("a", "b"), lanes="j", order=("j", "i")),
    Plan({"i": 3, "j": 21}, {"k": 8}, packs=("a", "b"), lanes="j", order=("i", "j")),
    Plan({"i": 32, "j": 3}, {"k": 4}, packs=("a", "b"), lanes="i", order=("i", "j")),
    Plan({"i": 2, "j": 16}, {"k": 4}, packs=("a", "b"), lanes="j", splits={"k": 3}),
    Plan({"i": 2, "j": 16}, {"k": 64}, packs=("a", "b"), lanes="j"),
]


@pytest.mark.sample(2)
@pytest.mark.parametrize(("shape", "turned"), CASES)
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize(
    ("units", "register_bytes", "signs"),
    [
        (("vnni",), 64, "ss"),
        (("vnni",), 64, "uu"),
        (("vnni",), 32, "su"),
        (("vnni", "vnni-int8"), 32, "us"),
        (("vnni-int8",), 32, "ss"),
        (("neon-dotprod",), 16, "us"),
        (("neon-dotprod", "neon-i8mm"), 16, "su"),
        (("sve-dotprod", "sve-i8mm"), 32, "us"),
        (("sve-dotprod",), 64, "ss"),
    ],
)
def test_int8_is_exact(
    plan: Plan,
    shape: tuple[int, int, int],
    turned: tuple[bool, bool],
    units: tuple[str, ...],
    register_bytes: int,
    signs: str,
) -> None:
    m, n, k = shape
    a, b = operand((m, k), "i8", turned[0], 1), operand((k, n), "i8", turned[1], 2)
    out = guarded(np.full((m, n), -7, np.int32))
    facts = Facts(strides={"a": _strides(turned[0]), "b": _strides(turned[1]), "out": (-1, 1)}, distinct=True)
    code, mapped = compiled(matmul_text("i8", "i32", signs), plan, facts, units, register_bytes)
    assert "vk.word_dot" in mapped
    assert "vk.dot " not in mapped
    Call(code, [a, b, out], {"M": m, "N": n, "K": k}).run()
    np.testing.assert_array_equal(out, product(a, b, signs))


def product(a: np.ndarray, b: np.ndarray, signs: str) -> np.ndarray:
    """The product of bytes of these signs."""
    one, other = (x.view(np.int8 if sign == "s" else np.uint8) for x, sign in zip((a, b), signs, strict=True))
    return one.astype(np.int32) @ other.astype(np.int32)


def _strides(turned: bool) -> tuple[int, int]:
    return (1, -1) if turned else (-1, 1)


def test_int8_wraps_as_the_sum_of_products_does() -> None:
    k = 140_000  # (-128)² · k > 2^31
    a, b = guarded(np.full((1, k), -128, np.int8)), guarded(np.full((k, 4), -128, np.int8))
    out = guarded(np.zeros((1, 4), np.int32))
    plan = Plan({"i": 1, "j": 16}, {"k": 4}, packs=("a", "b"), lanes="j")
    code, _ = compiled(matmul_text("i8", "i32"), plan, Facts(distinct=True), ("vnni",), 64)
    Call(code, [a, b, out], {"M": 1, "N": 4, "K": k}).run()
    assert (out == np.int64(128 * 128 * k).astype(np.int32)).all()


@pytest.mark.sample(1)
@pytest.mark.parametrize(("shape", "turned"), CASES)
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize(
    ("unit", "register_bytes"), [("avx512-bf16", 64), ("avx512-bf16", 32), ("neon-bf16", 16), ("sve-bf16", 32)]
)
def test_bf16_is_within_the_bound_and_as_interpreted(
    plan: Plan, shape: tuple[int, int, int], turned: tuple[bool, bool], unit: str, register_bytes: int
) -> None:
    m, n, k = shape
    a, b = operand((m, k), "bf16", turned[0], 1), operand((k, n), "bf16", turned[1], 2)
    out, seen = guarded(np.full((m, n), np.nan, np.float32)), np.full((m, n), np.nan, np.float32)
    facts = Facts(strides={"a": _strides(turned[0]), "b": _strides(turned[1]), "out": (-1, 1)}, distinct=True)
    code, mapped = compiled(matmul_text("bf16", "f32"), plan, facts, (unit,), register_bytes)
    assert "vk.word_dot" in mapped
    Call(code, [a, b, out], {"M": m, "N": n, "K": k}).run()
    exact = as_floats(a).astype(np.float64) @ as_floats(b).astype(np.float64)
    sizes = np.abs(as_floats(a)).astype(np.float64) @ np.abs(as_floats(b)).astype(np.float64)
    assert (np.abs(out - exact) <= (16 + 4 * np.log2(max(2, k))) * 2.0**-24 * sizes + 2 * k * float(LEAST)).all()
    interpret(parse_module(mapped), {"a": a, "b": b, "out": seen})
    np.testing.assert_array_equal(out, seen)


def test_bf16_below_the_least_normal_number_is_zero() -> None:
    """As the manual has it: 2^-127 · 2^127 counts as 0, and so does a sum of 2^-130."""
    a = guarded(np.array([[0x0040, 0x3F80]], np.uint16))  # 2^-127, 1
    b = guarded(np.array([[0x7F00, 0x0008], [0x3F80, 0x0000]], np.uint16))  # 2^127, 2^-130; 1, 0
    out, seen = guarded(np.full((1, 2), np.nan, np.float32)), np.full((1, 2), np.nan, np.float32)
    plan = Plan({"i": 1, "j": 16}, {"k": 2}, packs=("a", "b"), lanes="j")
    code, mapped = compiled(matmul_text("bf16", "f32"), plan, Facts(distinct=True), ("avx512-bf16",), 64)
    Call(code, [a, b, out], {"M": 1, "N": 2, "K": 2}).run()
    interpret(parse_module(mapped), {"a": a, "b": b, "out": seen})
    np.testing.assert_array_equal(out, [[1, 0]])
    np.testing.assert_array_equal(out, seen)


@pytest.mark.parametrize(("unit", "register_bytes"), [("neon-bf16", 16), ("neon-mmla-bf16", 16), ("sve-mmla-bf16", 32)])
def test_equal_numbers_that_are_rounded_to_odd_stay_within_the_bound(unit: str, register_bytes: int) -> None:
    """Each addition errs the same way, as much as it can: of 1 and 1 + 2^-7, squared and not."""
    k = 4096
    a = guarded(np.full((2, k), 0x3F81, np.uint16))
    b = guarded(np.stack([np.full(k, 0x3F81, np.uint16), np.full(k, 0x3F80, np.uint16)], axis=1))
    out = guarded(np.full((2, 2), np.nan, np.float32))
    plan = Plan({"i": 2, "j": 4}, {"k": 4}, packs=("a", "b"), lanes="j")
    facts = Facts({"M": 2, "N": 2, "K": k}, distinct=True)
    code, _ = compiled(matmul_text("bf16", "f32"), plan, facts, (unit,), register_bytes)
    Call(code, [a, b, out], {"M": 2, "N": 2, "K": k}).run()
    exact = as_floats(a).astype(np.float64) @ as_floats(b).astype(np.float64)
    assert (np.abs(out - exact) <= (16 + 4 * np.log2(k)) * 2.0**-24 * exact).all()


BLOCK_PLANS = [
    Plan({"i": 4, "j": 8}, {"k": 8}, packs=("a", "b"), lanes="j", order=("j", "i")),
    Plan({"i": 6, "j": 10}, {"k": 16}, packs=("a", "b"), lanes="j", order=("i", "j")),
    Plan({"i": 8, "j": 2}, {"k": 8}, packs=("a", "b"), lanes="i", order=("i", "j")),
    Plan({"i": 2, "j": 16}, {"k": 8}, packs=("a", "b"), lanes="j", splits={"k": 3}),
    Plan({"i": 2, "j": 46}, {"k": 8}, packs=("a", "b"), lanes="j"),
]
"""Plans with an even number of rows and of columns."""
BLOCK_UNITS = [("neon", 16), ("sve", 32), ("sve", 64)]
"""Units whose registers hold one, two and four blocks."""


@pytest.mark.sample(2)
@pytest.mark.parametrize(("shape", "turned"), CASES)
@pytest.mark.parametrize("plan", BLOCK_PLANS)
@pytest.mark.parametrize("signs", ["ss", "uu", "su", "us"])
@pytest.mark.parametrize(("make", "register_bytes"), BLOCK_UNITS)
def test_blocks_of_int8_are_exact_and_as_interpreted(
    plan: Plan, shape: tuple[int, int, int], turned: tuple[bool, bool], signs: str, make: str, register_bytes: int
) -> None:
    m, n, k = shape
    a, b = operand((m, k), "i8", turned[0], 1), operand((k, n), "i8", turned[1], 2)
    out, seen = guarded(np.full((m, n), -7, np.int32)), np.full((m, n), -7, np.int32)
    facts = Facts(strides={"a": _strides(turned[0]), "b": _strides(turned[1]), "out": (-1, 1)}, distinct=True)
    units = tuple(f"{make}-{name}" for name in ("mmla-int8", "dotprod", "i8mm"))
    code, mapped = compiled(matmul_text("i8", "i32", signs), plan, facts, units, register_bytes)
    assert "of block_" in mapped
    Call(code, [a, b, out], {"M": m, "N": n, "K": k}).run()
    np.testing.assert_array_equal(out, product(a, b, signs))
    if m * n * k < 5000:
        interpret(parse_module(mapped), {"a": a, "b": b, "out": seen})
        np.testing.assert_array_equal(out, seen)


@pytest.mark.sample(1)
@pytest.mark.parametrize(("shape", "turned"), CASES)
@pytest.mark.parametrize("plan", BLOCK_PLANS)
@pytest.mark.parametrize(("make", "register_bytes"), BLOCK_UNITS)
def test_blocks_of_bf16_are_within_the_bound_and_as_interpreted(
    plan: Plan, shape: tuple[int, int, int], turned: tuple[bool, bool], make: str, register_bytes: int
) -> None:
    test_bf16_is_within_the_bound_and_as_interpreted(plan, shape, turned, f"{make}-mmla-bf16", register_bytes)


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize(("rows", "columns"), [(3, 32), (4, 21), (1, 16)])
def test_odd_tiles_take_another_unit_than_blocks(rows: int, columns: int) -> None:
    plan = Plan({"i": rows, "j": columns}, {"k": 8}, packs=("a", "b"), lanes="j")
    _, mapped = compiled(matmul_text("i8", "i32"), plan, Facts(distinct=True), ("neon-mmla-int8", "neon-dotprod"), 16)
    assert "of s8s8" in mapped


@pytest.mark.sample(2)
@pytest.mark.parametrize("chunk", [1, 2, 6])
def test_chunks_that_are_not_whole_words_use_no_unit(chunk: int) -> None:
    plan = Plan({"i": 4, "j": 32}, {"k": chunk}, packs=("a", "b"), lanes="j")
    _, mapped = compiled(matmul_text("i8", "i32"), plan, Facts(distinct=True), ("vnni",), 64)
    assert "vk.word_dot" not in mapped


@pytest.mark.parametrize("plan", [
    Plan({"i": 4, "j": 32}, {"k": 4}, packs=("b",), lanes="j"),
    Plan({"i": 4, "j": 4}, {"k": 32}, packs=("a", "b"), lanes="k"),
])  # fmt: skip
def test_plans_without_words_use_no_unit(plan: Plan) -> None:
    _, mapped = compiled(matmul_text("i8", "i32"), plan, Facts(distinct=True), ("vnni",), 64)
    assert "vk.word_dot" not in mapped


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.skipif("vnni" not in host_dot_units(), reason="this processor has no VNNI")
@pytest.mark.parametrize("lanes", [1, 3, 5, 16, 21, 48])
def test_this_processors_unit_is_exact(lanes: int) -> None:
    m, n, k = 5, 50, 77
    a, b = operand((m, k), "i8", False, 1), operand((k, n), "i8", False, 2)
    out = guarded(np.zeros((m, n), np.int32))
    plan = Plan({"i": 4, "j": lanes}, {"k": 4}, packs=("a", "b"), lanes="j")
    mapped = run_passes(
        cpu_pipeline(plan, Facts(distinct=True), units=("vnni",)), parse_module(matmul_text("i8", "i32"))
    )
    code = compile_lowered(lower_to_llvm(next(iter(mapped.ops)), 64))
    assert "vpdpbusd" in code.assembly
    Call(code, [a, b, out], {"M": m, "N": n, "K": k}).run()
    np.testing.assert_array_equal(out, a.astype(np.int32) @ b.astype(np.int32))
