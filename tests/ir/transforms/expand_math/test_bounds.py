"""Every function stays within the error that docs/maths.md states, over the whole range of its arguments."""

from __future__ import annotations

import re
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

from .native import compiled
from .reference import FUNCTIONS, HAS_LONG_DOUBLE, WIDER, Array, edges, errors, exact_error, samples

PAGE = Path(__file__).parents[4] / "docs" / "maths.md"
ROW = re.compile(r"^\| (\w+) \| ([\d.]+) \| ([\d.]+) \|$", re.MULTILINE)
BOUNDS = {name: {"float32": float(a), "float64": float(b)} for name, a, b in ROW.findall(PAGE.read_text())}
UNARY = [name for name, function in FUNCTIONS.items() if function.operands == 1]
BINARY = [name for name, function in FUNCTIONS.items() if function.operands == 2]
BOTH = pytest.mark.parametrize("dtype", ["float32", "float64"])

SEED = 20261121


def assert_within(name: str, dtype: str, operands: list[Array], got: Array, error: Array) -> None:
    worst = int(np.argmax(error))
    where = ", ".join(float(x[worst]).hex() for x in operands)
    bound = BOUNDS[name][dtype]
    assert error[worst] <= bound, f"{name}({where}) gave {got[worst]}: {error[worst]} ulp, bound {bound} (seed {SEED})"


def check(name: str, dtype: str, *operands: Array) -> None:
    """Compare with the reference in the wider dtype."""
    function = FUNCTIONS[name]
    got = compiled(function.kind, dtype, function.operands)(*operands)
    with np.errstate(all="ignore"):
        want = np.asarray(function.arrays(*(x.astype(WIDER[dtype]) for x in operands)), WIDER[dtype])
    assert_within(name, dtype, list(operands), got, errors(got, want))


def test_every_function_has_a_bound() -> None:
    assert set(BOUNDS) == set(FUNCTIONS)


def lacks_reference(name: str, dtype: str) -> bool:
    return dtype == "float64" and (name == "erf" or not HAS_LONG_DOUBLE)


@pytest.mark.sample(10)
@BOTH
@pytest.mark.parametrize("name", UNARY)
def test_errors_are_within_bounds_over_all_exponents(name: str, dtype: str) -> None:
    if lacks_reference(name, dtype):
        pytest.skip("NumPy has no wider reference here; mpmath's test remains")
    rng = np.random.default_rng(SEED)
    check(name, dtype, np.concatenate([edges(dtype), samples(dtype, 1 << 17, rng)]))


@pytest.mark.parametrize("name", UNARY)
def test_errors_are_within_bounds_at_every_4096th_f32(name: str) -> None:
    start = np.random.default_rng(SEED).integers(4096)
    check(name, "float32", (np.arange(1 << 20, dtype=np.uint32) * 4096 + np.uint32(start)).view(np.float32))


@pytest.mark.thorough
@pytest.mark.parametrize("name", UNARY)
def test_errors_are_within_bounds_at_every_f32(name: str) -> None:
    for high in range(256):
        check(name, "float32", (np.arange(1 << 24, dtype=np.uint32) + np.uint32(high << 24)).view(np.float32))


@BOTH
@pytest.mark.parametrize("name", BINARY)
def test_errors_of_two_operands_are_within_bounds(name: str, dtype: str) -> None:
    if lacks_reference(name, dtype):
        pytest.skip("NumPy has no wider reference here; mpmath's test remains")
    rng = np.random.default_rng(SEED)
    all_edges = edges(dtype)
    pairs = [x.ravel() for x in np.meshgrid(all_edges, all_edges)]
    with np.errstate(all="ignore"):
        near = 1 + samples(dtype, 1 << 15, rng) * np.asarray(1e-3, dtype)
        far = samples(dtype, 1 << 15, rng) * np.asarray(300, dtype)
    left = np.concatenate([pairs[0], samples(dtype, 1 << 17, rng), near])
    right = np.concatenate([pairs[1], samples(dtype, 1 << 17, rng), far])
    if name == "powf" and dtype == "float64":
        check_power(left, right)
    else:
        check(name, dtype, left, right)


def check_power(x: Array, y: Array) -> None:
    """x**y in f64 where the long double result is exact enough: its own error grows with the exponent's size."""
    function = FUNCTIONS["powf"]
    got = compiled(function.kind, "float64", 2)(x, y)
    with np.errstate(all="ignore"):
        error = errors(got, np.power(x.astype(np.longdouble), y.astype(np.longdouble)))
    assert_within("powf", "float64", [x, y], got, error)


@pytest.mark.sample(6)
@BOTH
@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_errors_are_within_bounds_of_mpmath(name: str, dtype: str) -> None:
    function = FUNCTIONS[name]
    rng = np.random.default_rng(SEED)
    count = 300 if function.operands == 1 else 200
    operands = [samples(dtype, count, rng) for _ in range(function.operands)]
    if name == "acosh":
        operands = [1 + np.abs(np.nan_to_num(x, posinf=1)) for x in operands]
    got = compiled(function.kind, dtype, function.operands)(*operands)
    usable = np.isfinite(got) & np.all([np.isfinite(x) for x in operands], axis=0)
    error = np.zeros(count)
    for k in np.flatnonzero(usable):
        error[k] = exact_error(function, float(got[k]), tuple(float(x[k]) for x in operands), dtype)
    assert usable.sum() > count // 8
    assert_within(name, dtype, operands, got, error)


def test_erf_is_within_bounds_of_mpmath_where_its_formula_changes() -> None:
    x = np.concatenate([np.linspace(0.9, 1.1, 400), np.linspace(1.1, 6.1, 800), [5.9215871957945083, 1e-300, 5e-324]])
    got = compiled(FUNCTIONS["erf"].kind, "float64", 1)(x)
    error = np.array([exact_error(FUNCTIONS["erf"], g, (v,), "float64") for g, v in zip(got, x, strict=True)])
    assert_within("erf", "float64", [x], got, error)


@BOTH
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_next_to_multiples_of_a_quarter_turn_keep_their_accuracy(name: str, dtype: str) -> None:
    """Where reduction cancels most: the nearest number to k π/2, for k of every size."""
    rng = np.random.default_rng(SEED)
    limits = np.finfo(dtype)
    with mp.workdps(420):
        ks = [int(rng.integers(1, 1 << 20)) << int(shift) for shift in rng.integers(0, limits.maxexp - 22, 300)]
        x = np.array([float(k * mp.pi / 2) for k in ks]).astype(dtype)
    # and the number that of all of its dtype is nearest to one
    x = np.append(x, np.asarray(np.ldexp(6381956970095103.0, 797) if dtype == "float64" else 16367173 * 2.0**72, dtype))
    got = compiled(FUNCTIONS[name].kind, dtype, 1)(x)
    error = [exact_error(FUNCTIONS[name], float(g), (float(v),), dtype) for g, v in zip(got, x, strict=True)]
    assert_within(name, dtype, [x], got, np.array(error))
