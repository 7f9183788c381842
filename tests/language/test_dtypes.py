"""Dtypes promote exactly as torch's, values without axes as tensors of rank 0, Python scalars as themselves.

Where torch has no rule for unsigned integers, they take the smallest dtype that holds both.
"""

from __future__ import annotations

import itertools

import pytest
import torch

from vkernels.language.dtypes import DTYPES, WEAK, PromotionError, promote, result_type, weak_type

PAIRS = list(itertools.product(DTYPES.values(), repeat=2))


def torch_dtype(dtype) -> torch.dtype:
    return getattr(torch, dtype.name)


def holds_both(a, b) -> str | None:
    """The smallest integer dtype with the values of both, unsigned where neither has a sign; None where none is."""
    kinds = {"u" if dtype.is_uint else "" for dtype in (a, b) if dtype.is_int}
    sign = "u" if kinds == {"u"} else ""
    for bits in (8, 16, 32, 64):
        info = torch.iinfo(getattr(torch, f"{sign}int{bits}"))
        if all(info.min <= each.limits[0] and each.limits[1] <= info.max for each in (a, b) if each.is_int):
            return f"{sign}int{bits}"
    return None


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=str)
def test_promotes_as_torch(a, b):
    try:
        expected = str(torch.promote_types(torch_dtype(a), torch_dtype(b))).removeprefix("torch.")
    except (RuntimeError, ValueError):
        expected = None if a.is_f8 or b.is_f8 else holds_both(a, b)
    if expected is None:
        with pytest.raises(PromotionError):
            promote(a, b)
        return
    assert promote(a, b).name == expected


@pytest.mark.parametrize("pair", [p for p in PAIRS if all(d.is_int for d in p)], ids=str)
def test_integers_take_the_smallest_dtype_that_holds_both(pair):
    """Where torch has a rule it is this one, too."""
    try:
        assert promote(*pair).name == holds_both(*pair)
    except PromotionError:
        assert holds_both(*pair) is None


@pytest.mark.parametrize(("tile", "scalar"), [p for p in PAIRS if not any(d.is_f8 for d in p)], ids=str)
def test_values_without_axes_are_tensors_of_rank_0(tile, scalar):
    one, other = torch.zeros(1, dtype=torch_dtype(tile)), torch.zeros((), dtype=torch_dtype(scalar))
    try:
        expected = torch.result_type(one, other)
    except RuntimeError:
        expected = torch_dtype(promote(tile, scalar))
    assert torch_dtype(result_type([tile], [scalar])) == expected


@pytest.mark.parametrize("tile", [d for d in DTYPES.values() if not d.is_f8], ids=str)
@pytest.mark.parametrize("value", [True, 2, 2.5])
def test_python_scalars_are_weak(tile, value):
    of_rank_1, of_rank_0 = torch.zeros(1, dtype=torch_dtype(tile)), torch.zeros((), dtype=torch_dtype(tile))
    weak = WEAK[type(value)]
    assert torch_dtype(result_type([tile], [], [weak])) == torch.result_type(of_rank_1, value)
    assert torch_dtype(result_type([], [tile], [weak])) == torch.result_type(of_rank_0, value)


def test_python_scalars_alone():
    assert weak_type([WEAK[int], WEAK[float]]).name == "float64"
    assert weak_type([WEAK[bool], WEAK[int]]).name == "int64"
    with pytest.raises(PromotionError):
        result_type([])
