"""Reductions of the language along whole axes keep the bounds that docs/numerics.md states, in kernels of one's own."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from jaxtyping import Float, Num, Shaped

import vkernels as vk

from ..library.reference import fresh_seed
from .bounds import REDUCTIONS
from .formats import FORMATS, Array
from .numbers import Number, dot
from .run import compare
from .subject import Expected, Results


@vk.kernel
def reduce_rows(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"], kind: vk.Constant):
    i = vk.tile("M")
    j = vk.whole("N")
    row = x[i, j]
    if kind == "vk.sum":
        out[i] = vk.sum(row, axis=j)
    if kind == "vk.mean":
        out[i] = vk.mean(row, axis=j)
    if kind == "vk.product":
        out[i] = vk.product(row, axis=j)
    if kind == "vk.dot":
        out[i] = vk.dot(row, x[0, j], axis=j)
    if kind == "vk.max":
        out[i] = vk.max(row, axis=j)
    if kind == "vk.min":
        out[i] = vk.min(row, axis=j)


@vk.kernel
def scan_rows(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"], kind: vk.Constant):
    i = vk.tile("M")
    j = vk.whole("N")
    row = x[i, j]
    if kind == "vk.cumulative_sum":
        out[i, j] = vk.cumulative_sum(row, axis=j)
    if kind == "vk.cumulative_product":
        out[i, j] = vk.cumulative_product(row, axis=j)
    if kind == "vk.cumulative_max":
        out[i, j] = vk.cumulative_max(row, axis=j)
    if kind == "vk.cumulative_min":
        out[i, j] = vk.cumulative_min(row, axis=j)


@vk.kernel
def find_rows(x: Num[vk.Tensor, "M N"], out: Shaped[vk.Tensor, "M"], kind: vk.Constant):
    i = vk.tile("M")
    j = vk.whole("N")
    row = x[i, j]
    if kind == "vk.argmax":
        out[i] = vk.argmax(row, axis=j)
    if kind == "vk.argmin":
        out[i] = vk.argmin(row, axis=j)
    if kind == "vk.any":
        out[i] = vk.any(row > 0, axis=j)
    if kind == "vk.all":
        out[i] = vk.all(row > 0, axis=j)


def _product(x: Number, value: Array, places: Array) -> Number:
    return Number(value, x.format, places * x.format.unit * np.abs(value))


def _exact(of: Callable[[Array], Array]) -> Callable[[Number], Number]:
    return lambda x: Number(of(x.value), x.format)


FLOATS: dict[str, Callable[[Number], Number]] = {
    "vk.sum": lambda x: x.sum(1),
    "vk.mean": lambda x: x.mean(1),
    "vk.dot": lambda x: dot("ij,j->i", x, x[0]),
    "vk.product": lambda x: _product(x, x.value.prod(1), np.asarray(x.shape[1])),
    "vk.max": _exact(lambda x: x.max(1)),
    "vk.min": _exact(lambda x: x.min(1)),
    "vk.cumulative_sum": lambda x: x.cumulative_sum(1),
    "vk.cumulative_product": lambda x: _product(x, x.value.cumprod(1), np.arange(1, x.shape[1] + 1)),
    "vk.cumulative_max": _exact(lambda x: np.maximum.accumulate(x, 1)),
    "vk.cumulative_min": _exact(lambda x: np.minimum.accumulate(x, 1)),
}
WHOLE: dict[str, Callable[[Array], Array]] = {
    "vk.argmax": lambda x: x.argmax(1),
    "vk.argmin": lambda x: x.argmin(1),
    "vk.any": lambda x: (x > 0).any(1),
    "vk.all": lambda x: (x > 0).all(1),
}


def test_every_reduction_of_the_page_is_tested() -> None:
    assert {name for names in REDUCTIONS for name in names.split(", ")} == set(FLOATS) | set(WHOLE)


def drawn(choose: random.Random, dtype: str) -> Array:
    """Rows of numbers near 1, of either sign, so that products stay finite."""
    shape = choose.choice([1, 3, 8]), choose.choice([1, 2, 7, 16, 31, 33, 64, 127, 255, 300])
    rng = np.random.default_rng(choose.randrange(1 << 31))
    signs = np.where(rng.random(shape) < choose.choice([0.0, 0.5]), -1, 1)
    return (signs * rng.uniform(0.9, 1.1, shape)).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted(FLOATS))
def test_the_reduction_keeps_its_bound(name: str, dtype: str) -> None:
    choose = random.Random(fresh_seed())
    x = drawn(choose, dtype)
    scans = "cumulative" in name
    out = np.full(x.shape if scans else x.shape[:1], np.nan, dtype)
    (scan_rows if scans else reduce_rows)(x, out, name)
    format = FORMATS["float64" if dtype == "float64" else "float32"]
    expected: Results = [Expected(FLOATS[name](Number(x, format)), dtype)]
    found = compare([out], expected, "numpy")
    assert found.kind == "right", found.message


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_the_reduction_is_exact(name: str) -> None:
    x = drawn(random.Random(fresh_seed()), "float32")
    expected = WHOLE[name](x)
    out = np.full(x.shape[:1], 7, expected.dtype)
    find_rows(x, out, name)
    assert (out == expected).all()
