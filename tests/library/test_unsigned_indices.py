"""Library functions take unsigned integers: reduced as such, and as indices as their numbers, wrong ones refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkernels as vk
from vkernels import library

from ..generated.integers.numbers import UNSIGNED, at_the_edges, wrap
from .reference import fresh_seed

START, COLUMN = np.array([0, 2, 2, 5]), np.array([0, 1, 1, 2, 0])
VALUE, DENSE = np.arange(1.0, 6.0, dtype=np.float32), np.arange(12.0, dtype=np.float32).reshape(3, 4)
SCORES = np.random.default_rng(0).normal(size=(5, 9)).astype(np.float32)
CALLS: dict[str, Callable[..., Any]] = {
    "csr_matmul": lambda like, start, column: library.csr_matmul(start, column, like(VALUE), like(DENSE)),
    "segment_sum": lambda like, start, column: library.segment_sum(like(DENSE[COLUMN]), start),
    "ell_matmul": lambda like, start, column: library.ell_matmul(
        column.reshape(5, 1), like(VALUE[:, None]), like(DENSE)
    ),
    "sampled_matmul": lambda like, start, column: library.sampled_matmul(
        column, column, like(VALUE), like(DENSE), like(DENSE)
    ),
    "embedding_bag": lambda like, start, column: library.embedding_bag(like(DENSE), column, start, "mean"),
    "cross_entropy": lambda like, start, column: library.cross_entropy(like(SCORES), column),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("like", [np.asarray, torch.from_numpy])
@pytest.mark.parametrize("dtype", UNSIGNED)
@pytest.mark.parametrize("name", CALLS)
def test_indices(name: str, dtype: str, like: Callable[..., Any]) -> None:
    expected, (start, column) = (
        CALLS[name](like, like(START), like(COLUMN)),
        (START.astype(dtype), COLUMN.astype(dtype)),
    )
    np.testing.assert_array_equal(CALLS[name](like, like(start), like(column)), expected)


@pytest.mark.parametrize("like", [np.asarray, torch.from_numpy])
@pytest.mark.parametrize("dtype", UNSIGNED)
def test_indices_that_are_too_large_are_refused(dtype: str, like: Callable[..., Any]) -> None:
    for wrong in (3, int(np.iinfo(dtype).max)):
        column = COLUMN.astype(dtype)
        column[2] = wrong
        with pytest.raises(vk.ArgumentError, match="column holds"):
            library.csr_matmul(like(START.astype(dtype)), like(column), like(VALUE), like(DENSE))
        start = START.astype(dtype)
        start[-1] = max(wrong, 6)
        with pytest.raises(vk.ArgumentError, match=r"start (holds|falls)"):
            library.csr_matmul(like(start), like(COLUMN.astype(dtype)), like(VALUE), like(DENSE))


def test_classes_of_uint8_that_a_negative_number_wraps_to_are_not_ignored() -> None:
    """-100, the class of rows that do not count, is 156 in 8 bits."""
    scores, target = np.random.default_rng(fresh_seed()).normal(size=(4, 200)).astype(np.float32), [156, 3, 156, 199]
    found = library.cross_entropy(scores, np.array(target, np.uint8))
    expected = torch.nn.functional.cross_entropy(torch.from_numpy(scores), torch.tensor(target))
    np.testing.assert_allclose(float(found), float(expected), rtol=1e-5)


@pytest.mark.parametrize("like", [np.asarray, torch.from_numpy])
def test_a_class_of_uint64_that_wraps_to_the_ignored_one_is_refused(like: Callable[..., Any]) -> None:
    scores, target = np.ones((4, 5), np.float32), np.array([0, 2**64 - 1, 3, 4], np.uint64)
    with pytest.raises(vk.ArgumentError, match="target holds"):
        library.cross_entropy(like(scores), like(target), ignored=-1)


@pytest.mark.sample(2)
@pytest.mark.parametrize("like", [np.asarray, torch.from_numpy])
@pytest.mark.parametrize("dtype", UNSIGNED)
def test_reductions(dtype: str, like: Callable[..., Any]) -> None:
    numbers = at_the_edges(dtype, (37, 53), np.random.default_rng(fresh_seed()))
    x = like(numbers.astype(dtype))
    assert np.asarray(library.sum(x, 1)).tolist() == wrap(numbers.sum(1), "int64").tolist()
    for name in ("max", "min"):
        found = np.asarray(getattr(library, name)(x, 1))
        assert found.dtype == dtype
        assert found.tolist() == getattr(numbers, name)(1).tolist()
        places = np.asarray(getattr(library, f"arg{name}")(x, 1))
        assert places.tolist() == getattr(np, f"arg{name}")(numbers, 1).tolist()
