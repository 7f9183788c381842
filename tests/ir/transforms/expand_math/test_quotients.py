"""Quotients by what has fewer elements are those of a division, to the bit but for numbers next to the smallest."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ir.lowering.llvm.running import Call
from tests.library.reference import fresh_seed
from vkernels.compiler.backends.llvm import compile_cpu
from vkernels.ir.dialect import arith
from vkernels.ir.text import parse_module
from vkernels.ir.transforms.expand_math import expand_math

COLUMNS = 32
TEXT = f"""
vk.mapped @f(%x: !vk.tensor<[M, N], f32>, %y: !vk.tensor<[M], f32>, %out: !vk.tensor<[M, N], f32>) lanes j {{
  %M = vk.size M
  vk.launch "f" over (%i = %M) {{
    %n = vk.load %x[%i + i, j] : !vk.tensor<[M, N], f32> -> tensor<1x{COLUMNS}xf32, #vk.axes<i, j>>
    %d = vk.load %y[%i + i] : !vk.tensor<[M], f32> -> tensor<1xf32, #vk.axes<i>>
    %db = vk.broadcast %d : tensor<1xf32, #vk.axes<i>> -> tensor<1x{COLUMNS}xf32, #vk.axes<i, j>>
    %q = arith.divf %n, %db : tensor<1x{COLUMNS}xf32, #vk.axes<i, j>>
    vk.store %q in %out[%i + i, j] : !vk.tensor<[M, N], f32> <- tensor<1x{COLUMNS}xf32, #vk.axes<i, j>>
  }}
}}
"""
LEAST = np.float32(2.0**-126)
SMALL = np.float32(2.0**-100)
"""What is left of smaller numerators after a product is subtracted is subnormal."""
SPECIAL = np.array(
    [0.0, 1.0, 3.0, 7.0, LEAST, np.nextafter(LEAST, np.float32(0)), 2.0**-149, 3.4028235e38, np.inf, np.nan, 2.0**100,
     2.0**-100, 1.9999999, 1.0000001], np.float32,
)  # fmt: skip


def drawn(random: np.random.Generator, *shape: int) -> np.ndarray:
    """Floats of any exponent, one in eight of which is special."""
    bits = random.integers(0, 1 << 32, shape, dtype=np.uint32).view(np.float32)
    near = random.standard_normal(shape).astype(np.float32)
    special = random.choice(np.concatenate([SPECIAL, -SPECIAL]), shape)
    return np.choose(random.integers(0, 8, shape), [special, *[bits] * 3, *[near] * 4])


@pytest.mark.parametrize("approximate", [False, True])
def test_quotients_are_those_of_a_division(approximate: bool) -> None:
    random = np.random.default_rng(fresh_seed())
    x, y = drawn(random, 40_000, COLUMNS), drawn(random, 40_000)
    x[: len(SPECIAL), : len(SPECIAL)] = SPECIAL
    y[: len(SPECIAL)] = SPECIAL
    module = parse_module(TEXT.replace("%n, %db :", "%n, %db fastmath<afn> :") if approximate else TEXT)
    expand_math(module, approximates=True)
    module.verify()
    assert sum(isinstance(op, arith.DivfOp) for op in module.walk()) == 1
    out = np.full_like(x, 77)
    Call(compile_cpu(module), [x, y, out], {"M": x.shape[0], "N": COLUMNS}).run()
    with np.errstate(all="ignore"):
        want = x / y[:, None]
    np.testing.assert_array_equal(np.isnan(out), np.isnan(want))
    known = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(out[known]), np.signbit(want[known]))
    if approximate:
        large = np.isfinite(want) & np.isfinite(out)
        apart = np.abs(out[large].astype(np.float64) - want[large])
        assert np.all(apart <= np.maximum(2.0**-22 * np.abs(want[large].astype(np.float64)), 2.0**-149))
        assert np.all(np.abs(np.where(np.isfinite(want), want, out)[~large & known]) > 2.0**127)
        return
    small = np.isfinite(want) & ((np.abs(want) < 2 * LEAST) | (np.abs(x) < SMALL))
    np.testing.assert_array_equal(out[known & ~small], want[known & ~small])
    apart = np.abs(out[small].astype(np.float64) - want[small])
    assert np.all(apart <= np.maximum(np.spacing(np.abs(want[small])), np.float32(2.0**-149)))
