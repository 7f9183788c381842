"""Dtypes promote exactly as torch's, values without axes as tensors of rank 0, Python scalars as themselves."""

from __future__ import annotations

import itertools

import pytest
import torch

from vkernels.language.dtypes import DTYPES, WEAK, PromotionError, promote, result_type, weak_type

PAIRS = list(itertools.product(DTYPES.values(), repeat=2))


def torch_dtype(dtype) -> torch.dtype:
    return getattr(torch, dtype.name)


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=str)
def test_promotes_as_torch(a, b):
    try:
        expected = torch.promote_types(torch_dtype(a), torch_dtype(b))
    except (RuntimeError, ValueError):
        with pytest.raises(PromotionError):
            promote(a, b)
        return
    assert torch_dtype(promote(a, b)) == expected


@pytest.mark.parametrize(("tile", "scalar"), [p for p in PAIRS if not any(d.is_f8 for d in p)], ids=str)
def test_values_without_axes_are_tensors_of_rank_0(tile, scalar):
    expected = torch.result_type(torch.zeros(1, dtype=torch_dtype(tile)), torch.zeros((), dtype=torch_dtype(scalar)))
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
