"""Results are judged alike in NumPy and in torch, where a GPU's results stay where they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.library.reference import fresh_seed
from vkernels.autotune.arguments import checksum_there, numbers
from vkernels.autotune.measure.expected import Expected

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


def made(dtype: torch.dtype, shape: tuple[int, ...] = (7, 33)) -> tuple[Expected, torch.Tensor]:
    random = torch.Generator().manual_seed(fresh_seed())
    exact = torch.randn(shape, generator=random, dtype=torch.float64)
    peer = exact.to(dtype)
    name = str(dtype).removeprefix("torch.")
    return Expected.of("out", name, numbers(peer), numbers(exact), 8), peer


@pytest.mark.parametrize("dtype", FLOATS)
def test_what_rounding_explains_is_surely_right_and_one_wrong_element_is_not(dtype: torch.dtype) -> None:
    expected, found = made(dtype)
    assert expected.is_surely_right(found)
    assert expected.is_surely_right(found.t().contiguous().t())
    for wrong in (float("nan"), float("inf"), float(found[3, 5]) + 1.0):
        other = found.clone()
        other[3, 5] = wrong
        assert not expected.is_surely_right(other)
        assert "[3, 5]" in expected.difference(numbers(other))
    assert not expected.is_surely_right(found[1:])


@pytest.mark.parametrize("dtype", FLOATS)
def test_whatever_is_surely_right_has_no_difference(dtype: torch.dtype) -> None:
    expected, found = made(dtype, (1000,))
    steps = torch.logspace(-20, 0, 60, dtype=torch.float64) * expected.slack * 4
    answers = []
    for step in steps:
        moved = (found.double() + step).to(dtype)
        answers.append(expected.is_surely_right(moved))
        if answers[-1]:
            assert expected.difference(numbers(moved)) == ""
        if dtype in (torch.float32, torch.float64):
            assert answers[-1] == expected.is_surely_right(moved.numpy())
    assert answers[0]
    assert not answers[-1]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool])
def test_integers_are_right_if_equal(dtype: torch.dtype) -> None:
    peer = torch.tensor([[0, 1, 1], [1, 0, 1]]).to(dtype)
    expected = Expected.of("out", str(dtype).removeprefix("torch."), numbers(peer), None, 1)
    wrong = peer.clone()
    wrong[1, 1] = 1
    for convert in (lambda each: each, torch.Tensor.numpy):
        found: Any = convert(peer)
        assert expected.is_surely_right(found)
        assert not expected.is_surely_right(convert(wrong))


def test_infinities_are_right_where_they_are_expected_and_nan_is_uncertain() -> None:
    peer = np.array([1.0, np.inf, -np.inf])
    expected = Expected.of("out", "float32", peer, peer, 1)
    assert expected.is_surely_right(torch.tensor([1.0, float("inf"), float("-inf")]))
    assert not expected.is_surely_right(torch.tensor([1.0, float("-inf"), float("-inf")]))
    unknown = Expected.of("out", "float32", np.array([np.nan]), np.array([np.nan]), 1)
    found = torch.tensor([float("nan")])
    assert not unknown.is_surely_right(found)
    assert unknown.difference(numbers(found)) == ""


@pytest.mark.parametrize("count", [0, 1, 4095, 4097, 9000])
def test_a_checksum_on_a_device_sees_writes_and_exchanges(count: int) -> None:
    random = torch.Generator().manual_seed(fresh_seed())
    x = torch.randn(count, generator=random).to(torch.bfloat16)
    kept = checksum_there(x)
    assert checksum_there(x.clone()) == kept
    assert checksum_there(torch.stack([x, x], 1)[:, 0]) == kept
    if count:
        other = x.clone()
        other[count // 2] += 1.0
        assert checksum_there(other) != kept
    if count > 4096:
        other = x.clone()
        other[[5, 4096]] = x[[4096, 5]]
        assert checksum_there(other) != kept or x[5] == x[4096]
