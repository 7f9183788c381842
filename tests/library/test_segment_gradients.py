"""Gradients of segment sums and bags equal torch's in float64, for every dtype, length and kind."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

import vkernels as vk
from vkernels.library import embedding_bag, segment_sum
from vkernels.library.segments import embedding_bag_backward, segment_sum_backward
from vkernels.library.transposes import csr_transpose

from .gradients import assert_gradients, exact_gradients
from .reference import assert_close, every_dtype, fresh_seed, normal, poisoned
from .test_segments import LENGTHS, starts_of
from .test_sparse_products import indices, starts


@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_gradients_of_segment_sums_are_those_of_their_segments(lengths, dtype):
    seed = fresh_seed()
    start = starts_of(lengths, torch.int64 if seed % 2 else torch.int32, first=seed % 3)
    elements = int(start[-1]) + seed % 4
    for columns in ((), (5,)):
        grad, out = normal((len(lengths), *columns), dtype, seed), poisoned((elements, *columns), dtype)
        assert segment_sum_backward(grad, start, elements, out) is out
        expected = torch.zeros(elements, *columns, dtype=dtype)
        expected[int(start[0]) : int(start[-1])] = grad.repeat_interleave(torch.tensor(lengths).long(), 0)
        assert torch.equal(out, expected)


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", ["sum", "mean", "max"])
@pytest.mark.parametrize(
    ("sizes", "dtype"), every_dtype([(21, 45, 33, 100), (1, 1, 1, 1), (40, 9, 30, 77), (3, 2, 4, 0), (0, 2, 3, 0)])
)
def test_gradients_of_bags_are_right(sizes, dtype, kind):
    seed, (bags, rows, columns, elements) = fresh_seed(), sizes
    table = normal((rows, columns), dtype, seed).round(decimals=1)  # some are equal: the first counts
    index = indices((elements,), rows, seed)
    start = starts(bags, elements, seed) if bags else torch.zeros(1, dtype=torch.int64)
    grad = normal((bags, columns), dtype, seed + 1)
    found = embedding_bag_backward(grad, table, index, start, kind, csr_transpose(start, index, rows))
    if bags == 0:
        assert torch.equal(found, torch.zeros_like(found))
        return
    (expected,) = exact_gradients(
        lambda table: functional.embedding_bag(index, table, start[:-1], mode=kind), grad, table
    )
    assert_close(found, expected, terms=max(1, elements), added=4.0 * max(1, elements) ** 0.5)


def test_gradients_are_those_of_differences():
    seed = fresh_seed()
    start, index = torch.tensor([0, 2, 2, 5]), torch.tensor([3, 1, 0, 2, 3])
    assert_gradients(
        lambda value: segment_sum(value, start),
        lambda grad, value: [segment_sum_backward(grad, start, 6)],
        normal((6, 2), torch.float64, seed),
    )
    for kind in ("sum", "mean", "max"):
        assert_gradients(
            lambda table, kind=kind: embedding_bag(table, index, start, kind),
            lambda grad, table, kind=kind: [embedding_bag_backward(grad, table, index, start, kind)],
            normal((4, 3), torch.float64, seed + 1),
        )


def test_the_first_nan_of_a_bag_gets_its_gradient():
    table = torch.tensor([[1.0], [float("nan")], [float("inf")], [float("nan")]])
    index, start = torch.tensor([0, 2, 3, 1, 1]), torch.tensor([0, 4, 5])
    found = embedding_bag_backward(torch.tensor([[2.0], [3.0]]), table, index, start, "max")
    assert found.flatten().tolist() == [0.0, 3.0, 0.0, 2.0]


def test_numpy_in_numpy_out():
    found = segment_sum_backward(np.array([1.0, 2.0]), np.array([1, 3, 4]), 5)
    np.testing.assert_array_equal(found, [0.0, 1.0, 1.0, 2.0, 0.0])
    of_table = embedding_bag_backward(np.ones((2, 3)), np.eye(3), np.array([0, 2, 2]), np.array([0, 1, 3]), "mean")
    np.testing.assert_array_equal(of_table, np.array([1.0, 0.0, 1.0])[:, None] * np.ones(3))


def test_wrong_arguments_are_named():
    start, table = torch.tensor([0, 1]), torch.zeros(4, 3)
    with pytest.raises(vk.ArgumentError, match="start holds 0 to 3, expected 0 to 2"):
        segment_sum_backward(torch.zeros(1), torch.tensor([0, 3]), 2)
    with pytest.raises(vk.ArgumentError, match="grad has shape"):
        segment_sum_backward(torch.zeros(2), start, 2)
    with pytest.raises(vk.ArgumentError, match="kind is 'avg'"):
        embedding_bag_backward(torch.zeros(1, 3), table, start, start, "avg")
    with pytest.raises(vk.ArgumentError, match="grad has shape"):
        embedding_bag_backward(torch.zeros(1, 4), table, start, start)
