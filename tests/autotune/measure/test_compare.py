"""Rounding is allowed, mistakes are not."""

from __future__ import annotations

import random

import numpy as np
import pytest

from vkernels.autotune.measure.subject import Expected

STORED = {"float64": np.float64, "float32": np.float32, "float16": np.float16}


def _drawn(dtype: str, count: int = 2000):
    seed = random.SystemRandom().randrange(1 << 31)
    print(f"seed = {seed}")
    exact = np.random.default_rng(seed).standard_normal(count)
    return exact, exact.astype(STORED[dtype]).astype(np.float64), np.random.default_rng(seed + 1)


@pytest.mark.parametrize("dtype", STORED)
def test_one_more_rounding_of_each_element_is_right(dtype: str):
    exact, stored, draw = _drawn(dtype)
    epsilon = float(np.finfo(STORED[dtype]).eps)
    expected = Expected.of("out", dtype, stored, None if dtype == "float64" else exact, 1000)
    near = (stored * (1 + epsilon * draw.choice([-0.5, 0, 0.5], stored.size))).astype(STORED[dtype]).astype(np.float64)
    assert expected.difference(stored) == ""
    assert expected.difference(near) == ""


@pytest.mark.parametrize(("dtype", "relative"), [("float64", 1e-10), ("float32", 1e-3), ("float16", 0.05)])
def test_one_wrong_element_of_many_is_found_and_named(dtype: str, relative: float):
    exact, stored, draw = _drawn(dtype)
    place = int(draw.integers(stored.size))
    exact[place] = stored[place] = 1.0
    expected = Expected.of("out", dtype, stored, exact, 1000)
    wrong = stored.copy()
    wrong[place] += relative
    assert expected.difference(wrong).startswith(f"out: 1 of 2000 elements are wrong; the first, [{place}], is 1.")


def test_missing_numbers_are_wrong_and_so_are_numbers_where_there_are_none():
    peer = np.array([1.0, np.nan, np.inf, -np.inf, 2.0])
    expected = Expected.of("out", "float32", peer, peer.copy(), 5)
    assert expected.difference(peer) == ""
    for place, value in ((0, np.nan), (1, 0.0), (2, -np.inf), (3, 3e38), (4, np.inf)):
        wrong = peer.copy()
        wrong[place] = value
        assert "1 of 5" in expected.difference(wrong)


def test_what_overflows_as_stored_is_infinite_though_float64_has_a_number():
    expected = Expected.of("out", "float16", np.array([np.inf, 1.0]), np.array([7e4, 1.0]), 2)
    assert expected.difference(np.array([np.inf, 1.0])) == ""
    assert expected.difference(np.array([6e4, 1.0])) != ""


def test_integers_and_booleans_are_exact():
    peer = np.array([[1, 2], [3, 4]])
    expected = Expected.of("index", "int64", peer, None, 4)
    assert expected.difference(peer) == ""
    assert expected.difference(peer + np.eye(2, dtype=int)) == (
        "index: 2 of 4 elements are wrong; the first, [0, 0], is 2, expected 1"
    )
    assert Expected.of("mask", "bool", np.array([True]), None, 1).difference(np.array([False])) != ""


def test_where_another_plan_in_the_same_dtypes_errs_more_a_candidate_may_too():
    """A sum that cancels: all plans are off, and by no more than a few times as much."""
    exact, peer = np.array([1e-3, 1.0]), np.array([1e-3 + 1e-4, 1.0])
    expected = Expected.of("out", "float32", peer, exact, 1000)
    assert expected.difference(np.array([1e-3 - 3e-4, 1.0])) == ""
    assert expected.difference(np.array([1e-3 + 6e-4, 1.0])) != ""


def test_where_rounding_makes_numbers_jump_float64_is_no_reference():
    peer, jumped = np.array([1.0, -1.0, 1.0]), np.array([1.0, 1.0, 1.0])
    expected = Expected.of("out", "float32", peer, jumped, 3)
    assert expected.difference(peer) == ""
    assert expected.difference(jumped) != ""


def test_nothing_is_right_and_another_shape_is_wrong():
    empty = Expected.of("out", "float32", np.zeros((0, 3)), np.zeros((0, 3)), 1)
    assert empty.difference(np.zeros((0, 3))) == ""
    assert "shape" in empty.difference(np.zeros((1, 3)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("strange", [False, True])
def test_what_is_told_fast_is_so(dtype: str, strange: bool):
    """Near and wrong elements by a little more or less than is right, infinities and NaNs among them."""
    exact, stored, draw = _drawn(dtype, 70_000)
    if strange:
        exact[::7000] = stored[::7000] = np.inf
        stored[1::7000] = exact[1::7000] = -np.inf
    expected = Expected.of("out", dtype, stored, exact, 1000)
    held = stored.astype(STORED[dtype])
    assert expected.is_surely_right(held)
    with np.errstate(invalid="ignore"):
        for reach in 10.0 ** draw.uniform(-9, -1, 40) if dtype == "float32" else 10.0 ** draw.uniform(-16, -9, 40):
            found = (stored + reach * draw.uniform(-1, 1, stored.size)).astype(STORED[dtype])
            assert not expected.is_surely_right(found) or expected.difference(found.astype(np.float64)) == ""
    for place in (0, 1, 40_000, 69_999):
        for wrong in (np.nan, np.inf, -np.inf, held[place] + np.float32(1)):
            if wrong != held[place]:
                changed = held.copy()
                changed[place] = wrong
                assert not expected.is_surely_right(changed)


def test_nothing_is_told_fast_of_what_is_no_array_of_the_dtype():
    expected = Expected.of("out", "float32", np.ones((4, 2)), None, 10)
    good = np.ones((4, 2), np.float32)
    assert expected.is_surely_right(good)
    for other in (good.astype(np.float64), good.T, good[:3], np.ones((8, 2), np.float32)[::2], "ones", None):
        assert not expected.is_surely_right(other)
    integers = Expected.of("out", "int32", np.ones(3, np.int32), None, 10)
    assert integers.is_surely_right(np.ones(3, np.int32))
    assert not integers.is_surely_right(np.ones(3, np.int64))
    assert not integers.is_surely_right(np.array([1, 2, 1], np.int32))
    nothing = np.zeros((0, 3), np.float32)
    assert Expected.of("out", "float32", nothing.astype(np.float64), None, 10).is_surely_right(nothing)
    missing = Expected.of("out", "float32", np.full(3, np.nan), None, 10)
    assert not missing.is_surely_right(np.full(3, np.nan, np.float32))
    assert missing.difference(np.full(3, np.nan)) == ""
