"""Conversions: every f16 and bf16 there is, rounding as torch rounds, integers that do not fit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from .memory import guarded, poisoned
from .running import Call, compiled, run
from .texts import facts, tile

HALVES = {"f16": torch.float16, "bf16": torch.bfloat16}
WIDE = {"f32": np.float32, "f64": np.float64}


def convert(
    name: str, source: str, result: str, values: np.ndarray, out: np.ndarray, width: int = 64, lanes: str = "j"
) -> None:  # fmt: skip
    """Run one conversion over a whole array, `width` elements a program and a masked tail."""
    text = f"""
vk.mapped @convert(%x: !vk.tensor<[N], {source}>, %out: !vk.tensor<[N], {result}>) lanes {lanes}
    {facts({"x": [1], "out": [1]})} {{
  %N = vk.size N
  %c = arith.constant {width} : i64
  %programs = arith.ceildivsi %N, %c : i64
  vk.launch "convert" over (%p = %programs) {{
    %j0 = arith.muli %p, %c : i64
    %left = arith.subi %N, %j0 : i64
    %a = vk.load %x[%j0 + j] within (j < %left) : !vk.tensor<[N], {source}> -> {tile(source, j=width)}
    %r = {name} %a : {tile(source, j=width)} to {tile(result, j=width)}
    vk.store %r in %out[%j0 + j] within (j < %left) : !vk.tensor<[N], {result}> <- {tile(result, j=width)}
  }}
}}
"""
    Call(compiled(text), [values, out], {"N": values.size}).run()


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("wide", WIDE)
@pytest.mark.parametrize("width", [64, 1])
def test_every_half_extends_exactly(half: str, wide: str, width: int) -> None:
    bits = guarded(np.arange(1 << 16, dtype=np.uint16).view(np.int16))
    out = poisoned(bits.shape, WIDE[wide])
    convert("arith.extf", half, wide, bits, out, width)
    expected = torch.from_numpy(bits.copy()).view(HALVES[half]).double().numpy()
    np.testing.assert_array_equal(out, expected)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(out[number]), np.signbit(expected[number]))


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("width", [1, 2, 3, 6, 8, 24])
def test_halves_without_lanes_extend_exactly(half: str, width: int) -> None:
    bits = guarded(np.arange(0, 1 << 16, 61, dtype=np.uint16).view(np.int16))
    out = poisoned(bits.shape, np.float32)
    convert("arith.extf", half, "f32", bits, out, width, lanes="other")
    np.testing.assert_array_equal(out, torch.from_numpy(bits.copy()).view(HALVES[half]).float().numpy())


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("width", [1, 2, 3, 8, 13])
def test_every_half_is_the_same_in_all_lanes(half: str, width: int) -> None:
    """A bf16 is repeated before it is extended."""
    text = f"""
vk.mapped @spread(%x: !vk.tensor<[M], {half}>, %out: !vk.tensor<[M, N], f32>) lanes j
    {facts({"x": [1], "out": [-1, 1]})} {{
  %M = vk.size M
  vk.launch "spread" over (%p = %M) {{
    %a = vk.load %x[%p + i] : !vk.tensor<[M], {half}> -> {tile(half, i=1)}
    %e = arith.extf %a : {tile(half, i=1)} to {tile("f32", i=1)}
    %r = vk.broadcast %e : {tile("f32", i=1)} -> {tile("f32", i=1, j=width)}
    vk.store %r in %out[%p + i, j] : !vk.tensor<[M, N], f32> <- {tile("f32", i=1, j=width)}
  }}
}}
"""
    bits = guarded(np.arange(1 << 16, dtype=np.uint16).view(np.int16))
    out = poisoned((bits.size, width), np.float32)
    Call(compiled(text), [bits, out], {"M": bits.size, "N": width}).run()
    expected = torch.from_numpy(bits.copy()).view(HALVES[half]).float().numpy()
    np.testing.assert_array_equal(out, np.repeat(expected[:, None], width, axis=1))
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(out[number]), np.repeat(np.signbit(expected[number])[:, None], width, 1))


def near_halves(half: str, wide: str) -> np.ndarray:
    """Every half, the midpoints between neighbours, and both neighbours of each in the wide format."""
    exact = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(HALVES[half]).double().numpy()
    exact = np.unique(exact[np.isfinite(exact)])
    middles = (exact[1:] + exact[:-1]) / 2
    beyond = exact[-1] + (exact[-1] - exact[-2]) * np.array([0.25, 0.5, 0.75, 1.0])
    points = np.concatenate([exact, middles, beyond, -beyond]).astype(WIDE[wide])
    with np.errstate(over="ignore"):
        around = [points, np.nextafter(points, np.inf), np.nextafter(points, -np.inf)]
    special = np.array([np.inf, -np.inf, np.nan, -0.0, 1e-300, -1e-300, 1e300, -1e300]).astype(WIDE[wide])
    return np.concatenate([*around, special]).astype(WIDE[wide])


def rounded(values: np.ndarray, half: str) -> np.ndarray:
    """Round to nearest, ties to even, as float64, worked out from the two neighbouring halves."""
    exact = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(HALVES[half]).double().numpy()
    grid = np.unique(exact[np.isfinite(exact)])
    step = grid[-1] - grid[-2]
    grid = np.concatenate([[grid[0] - step], grid, [grid[-1] + step]])
    wide = values.astype(np.float64)
    at = np.clip(np.searchsorted(grid, wide, side="right") - 1, 0, grid.size - 2)
    low, high = grid[at], grid[at + 1]
    middle = low + (high - low) / 2
    even_low = (at - 1) % 2 == (np.searchsorted(grid, 0.0) - 1) % 2
    nearest = np.where((wide < middle) | ((wide == middle) & even_low), low, high)
    nearest = np.where(nearest >= grid[-1], np.inf, np.where(nearest <= grid[0], -np.inf, nearest))
    return np.where(np.isfinite(wide), nearest, wide)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("wide", WIDE)
@pytest.mark.parametrize("width", [64, 1])
@pytest.mark.filterwarnings("ignore:overflow")
def test_truncation_rounds_to_nearest_even(half: str, wide: str, width: int) -> None:
    values = guarded(near_halves(half, wide))
    out = poisoned(values.shape, np.int16)
    convert("arith.truncf", wide, half, values, out, width)
    got = torch.from_numpy(out.copy()).view(HALVES[half]).double().numpy()
    np.testing.assert_array_equal(got, rounded(values, half))
    number = ~np.isnan(got)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(values[number]))
    if wide == "f32":
        torchs = torch.from_numpy(values.copy()).to(HALVES[half]).double().numpy()
        np.testing.assert_array_equal(got, torchs)


def test_f64_to_f32() -> None:
    values = guarded(np.array([1.1, 1e300, -1e300, 1e-300, np.nan, np.inf, 0.1, -0.0]))
    out = poisoned(values.shape, np.float32)
    convert("arith.truncf", "f64", "f32", values, out, 8)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(out, values.astype(np.float32))


@pytest.mark.parametrize("kind", ["si", "ui"])
@pytest.mark.parametrize("integer", ["i8", "i16", "i32", "i64"])
@pytest.mark.parametrize("wide", WIDE)
def test_floats_that_do_not_fit_become_the_nearest_integer(kind: str, integer: str, wide: str) -> None:
    bits = int(integer[1:])
    unsigned = kind == "ui"
    dtype = np.dtype(f"{'u' if unsigned else 'i'}{bits // 8}")
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    values = [0.0, -0.9, 1.9, -1.9, 127.9, 128.0, -128.9, 255.5, 1e6, -1e6, 3e9, 1e19, -1e19, np.inf, -np.inf, np.nan]
    x = guarded(np.array(values, WIDE[wide]))
    out = poisoned(x.shape, dtype)
    convert(f"arith.fpto{kind}", wide, integer, x, out, 16)
    expected = [0 if v != v else high if v >= high else low if v <= low else int(v) for v in x.astype(np.float64)]
    np.testing.assert_array_equal(out, np.array(expected, dtype))


@pytest.mark.parametrize("kind", ["si", "ui"])
@pytest.mark.parametrize("integer", ["i8", "i16", "i32", "i64"])
@pytest.mark.parametrize("wide", WIDE)
def test_integers_to_floats(kind: str, integer: str, wide: str) -> None:
    dtype = np.dtype(f"{'u' if kind == 'ui' else 'i'}{int(integer[1:]) // 8}")
    info = np.iinfo(dtype)
    x = guarded(np.array([0, 1, 7, info.max, info.min, info.max - 1, info.max // 3, 16777217 % info.max], dtype))
    out = poisoned(x.shape, WIDE[wide])
    convert(f"arith.{kind}tofp", integer, wide, x, out, 5)
    np.testing.assert_array_equal(out, x.astype(WIDE[wide]))


def test_integers_widen_and_narrow() -> None:
    x = guarded(np.arange(-128, 128, dtype=np.int8))
    out = poisoned(x.shape, np.int64)
    convert("arith.extsi", "i8", "i64", x, out)
    np.testing.assert_array_equal(out, x)
    convert("arith.extui", "i8", "i64", x, out)
    np.testing.assert_array_equal(out, x.view(np.uint8))
    back = poisoned(x.shape, np.int8)
    convert("arith.trunci", "i64", "i8", out, back)
    np.testing.assert_array_equal(back, x)


def test_bits_are_kept_by_bitcasts_and_moves() -> None:
    rng = np.random.default_rng(0)
    x = guarded(rng.integers(-(1 << 31), 1 << 31, 50).astype(np.int32))
    out = poisoned(x.shape, np.int32)
    convert("arith.bitcast", "i32", "f32", x, out.view(np.float32))
    np.testing.assert_array_equal(out, x)
    halves = guarded(np.arange(1 << 16, dtype=np.uint16).view(np.int16))
    copied = poisoned(halves.shape, np.int16)
    convert("arith.bitcast", "f16", "i16", halves, copied)
    np.testing.assert_array_equal(copied, halves)


def test_f16_is_refused_where_it_is_computed_with() -> None:
    from vkernels.ir.errors import UnsupportedError

    text = f"""
vk.mapped @half(%x: !vk.tensor<[N], f16>) lanes j {{
  %one = arith.constant 1 : i64
  vk.launch "half" over (%p = %one) {{
    %a = vk.load %x[j] : !vk.tensor<[N], f16> -> {tile("f16", j=8)}
    %r = arith.addf %a, %a : {tile("f16", j=8)}
  }}
}}
"""
    with pytest.raises(UnsupportedError, match=r"arith.addf: f16 is a memory format"):
        compiled(text)


def test_half_constants_are_rounded() -> None:
    t = tile("bf16", j=4)
    text = f"""
vk.mapped @constant(%out: !vk.tensor<[N], bf16>) lanes j {facts({"out": [1]})} {{
  %one = arith.constant 1 : i64
  vk.launch "constant" over (%p = %one) {{
    %a = arith.constant dense<3.1415927> : {t}
    vk.store %a in %out[j] : !vk.tensor<[N], bf16> <- {t}
  }}
}}
"""
    out = poisoned((4,), np.int16)
    run(text, [out], {"N": 4})
    assert (torch.from_numpy(out.copy()).view(torch.bfloat16) == torch.tensor(3.1415927).bfloat16()).all()
