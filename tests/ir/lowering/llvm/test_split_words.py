"""f16 as sums of two bf16 for a matrix unit: every number, and what infinities, NaN and zeros become."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vkernels.compiler.backends.llvm import host_dot_units
from vkernels.ir.interpret import interpret
from vkernels.ir.interpret.words import split_words
from vkernels.ir.plan import Plan
from vkernels.ir.text import parse_module

from .memory import guarded
from .running import Call
from .test_matrix_units import SPECIAL, SPLIT, facts_of, floats, matrix_plan
from .test_units import compiled
from .texts import matmul_text

EVERY = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16)
PLAN = Plan({"i": 32, "j": 16}, {"k": 32}, packs=("a", "b"), lanes="j")


def parts_of(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The upper and lower parts as f32, in the order of the numbers, of which there is a multiple of 32."""
    words = split_words(numbers).view(np.uint32).reshape(-1, 2, 16)
    elements = np.stack([words << np.uint32(16), words & np.uint32(0xFFFF0000)], axis=2)  # group, part, half, word
    upper, lower = (elements[:, part].reshape(-1).view(np.float32) for part in range(2))
    return upper, lower


def test_every_number_is_the_sum_of_its_parts() -> None:
    upper, lower = parts_of(EVERY)
    values, finite = EVERY.astype(np.float64), np.isfinite(EVERY)
    sums = upper[finite].astype(np.float64) + lower[finite].astype(np.float64)
    np.testing.assert_array_equal(sums, values[finite])
    assert (np.abs(upper) < np.abs(values))[finite & (values != 0)].all()
    other = lower[(values != 0) & finite]
    assert (np.signbit(other) == np.signbit(values[(values != 0) & finite])).all()
    assert np.abs(other).min() >= 2.0**-32  # whose products are far from where f32 counts as 0
    assert (np.abs(lower[values == 0]) == 0).all()


def test_infinities_and_nan_stay_what_they_are() -> None:
    upper, lower = parts_of(EVERY)
    infinite = np.isinf(EVERY)
    assert (np.abs(upper[infinite]) == np.float32(2.0**128 * (1 - 2.0**-8))).all()
    np.testing.assert_array_equal(lower[infinite], EVERY[infinite].astype(np.float32))
    assert np.isnan(lower[np.isnan(EVERY)]).all()


@pytest.mark.sample(1)
@pytest.mark.parametrize("packs", [("a", "b"), (), ("a",), ("b",)])
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
def test_products_of_every_number_are_exact(packs: tuple[str, ...], turned: tuple[bool, bool]) -> None:
    """One product for each sum: 22 bits."""
    finite = EVERY[np.isfinite(EVERY)].reshape(-1, 32)
    factors = np.random.default_rng(seed := np.random.SeedSequence().entropy).uniform(1, 2, 32).astype(np.float16)
    print("seed", seed)
    a, b = finite.copy(), np.diag(factors)
    a, b = (guarded(x.T).T if each else guarded(x) for x, each in zip((a, b), turned, strict=True))
    out = guarded(np.full(finite.shape, np.nan, np.float32))
    facts = facts_of(turned, {"M": len(finite), "N": 32, "K": 32})
    code, mapped = compiled(matmul_text("f16", "f32"), replace(PLAN, packs=packs), facts, (SPLIT,), 64)
    assert "of matrix_split_f16" in mapped
    Call(code, [a, b, out], {"M": len(finite), "N": 32, "K": 32}).run()
    np.testing.assert_array_equal(out, finite.astype(np.float32) * factors.astype(np.float32))


@pytest.mark.parametrize("packs", [("a", "b"), ()])
def test_special_numbers_are_as_those_of_f32(packs: tuple[str, ...]) -> None:
    """Each with each: infinity times 0 is NaN, times anything else an infinity; also beside numbers and zeros."""
    special = np.array(SPECIAL["f16"], np.uint16).view(np.float16)
    n = len(special)
    a, b = np.zeros((2 * n, 40), np.float16), np.zeros((40, 2 * n), np.float16)
    a[:n, 0], a[n:, 39], b[0, :n], b[39, n:] = special, special, special, special
    a[:, 17], b[17] = 1.0, np.float16(0.5)
    stored = [guarded(a), guarded(b)]
    out, seen = guarded(np.full((2 * n, 2 * n), 7, np.float32)), np.full((2 * n, 2 * n), 7, np.float32)
    sizes = {"M": 2 * n, "N": 2 * n, "K": 40}
    plan = replace(PLAN, packs=packs)
    code, mapped = compiled(matmul_text("f16", "f32"), plan, facts_of((False, False), sizes), (SPLIT,), 64)
    Call(code, [*stored, out], sizes).run()
    with np.errstate(all="ignore"):
        interpret(parse_module(mapped), {"a": stored[0], "b": stored[1], "out": seen})
        exact = (a.astype(np.float64)[:, :, None] * b.astype(np.float64)).sum(1)
    np.testing.assert_array_equal(out, seen)
    np.testing.assert_array_equal(np.isnan(out), np.isnan(exact))
    is_infinite = np.isinf(exact)
    np.testing.assert_array_equal(out[is_infinite], exact[is_infinite].astype(np.float32))
    rest = np.isfinite(exact)
    np.testing.assert_allclose(out[rest], exact[rest], rtol=2.0**-22)


@pytest.mark.slow
@pytest.mark.sample(2)
@pytest.mark.skipif(SPLIT not in host_dot_units(), reason="this processor's matrix unit takes no bf16, or f16 too")
@pytest.mark.parametrize("tile", [(32, 32), (16, 48), (5, 21)])
@pytest.mark.parametrize("packs", [("a", "b"), (), ("b",)])
def test_this_processors_unit_is_as_interpreted(tile: tuple[int, int], packs: tuple[str, ...]) -> None:
    from vkernels.compiler.backends.llvm import compile_lowered
    from vkernels.ir.lowering.llvm.lower_to_llvm import lower_to_llvm
    from vkernels.ir.pipeline import cpu_pipeline, run_passes

    m, n, k = 35, 50, 77
    a, b = floats((m, k), "f16", False, 1), floats((k, n), "f16", False, 2)
    out, seen = guarded(np.full((m, n), np.nan, np.float32)), np.full((m, n), np.nan, np.float32)
    plan = replace(matrix_plan("f16", tile), packs=packs)
    pipeline = cpu_pipeline(plan, facts_of((False, False)), units=(SPLIT,))
    mapped = run_passes(pipeline, parse_module(matmul_text("f16", "f32")))
    code = compile_lowered(lower_to_llvm(next(iter(mapped.ops)), 64))
    assert "tdpbf16ps" in code.assembly
    Call(code, [a, b, out], {"M": m, "N": n, "K": k}).run()
    interpret(mapped, {"a": a, "b": b, "out": seen})
    np.testing.assert_array_equal(out, seen)
