"""Atomics whose result is used: interpreted, on the CPU, and as on a GPU."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Int, Shaped

import vkernels as vk
from tests.library.reference import fresh_seed

from .test_combining import everywhere

DTYPES = ["int32", "int64", "float32", "float64"]


@vk.kernel
def tickets(place: Int[vk.Tensor, "N"], count: Shaped[vk.Tensor, "B"], old: Shaped[vk.Tensor, "N"]):
    i = vk.tile("N")
    old[i] = vk.atomic_add(count[place[i]], 1)


@vk.kernel
def handed_on(
    place: Int[vk.Tensor, "N"], x: Shaped[vk.Tensor, "N"], held: Shaped[vk.Tensor, "B"], old: Shaped[vk.Tensor, "N"]
):
    i = vk.tile("N")
    old[i] = vk.atomic_exchange(held[place[i]], x[i])


@vk.kernel
def raised(
    place: Int[vk.Tensor, "N"], x: Shaped[vk.Tensor, "N"], most: Shaped[vk.Tensor, "B"], old: Shaped[vk.Tensor, "N"]
):
    i = vk.tile("N")
    old[i] = vk.atomic_max(most[place[i]], x[i])


@vk.kernel
def claimed(
    place: Int[vk.Tensor, "N"], x: Shaped[vk.Tensor, "N"], owner: Shaped[vk.Tensor, "B"], old: Shaped[vk.Tensor, "N"]
):
    i = vk.tile("N")
    old[i] = vk.atomic_cas(owner[place[i]], 0, x[i])


@vk.kernel
def ranked(
    x: Int[vk.Tensor, "M N"], count: Int[vk.Tensor, "1"], old: Int[vk.Tensor, "M N"], after: Int[vk.Tensor, "M N"]
):
    """The result is used twice, after a reduction: the updates are done once."""
    i, j = vk.tile("M"), vk.whole("N")
    found = vk.atomic_add(count[0], x[i, j])
    total = vk.sum(found, axis=j)
    old[i, j] = found
    after[i, j] = found - total


def drawn(dtype: str, count: int, buckets: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(fresh_seed())
    return random.integers(0, buckets, count), random.permutation(np.arange(1, count + 1)).astype(dtype)


@pytest.mark.sample(4)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [1, 37, 300])
def test_every_update_finds_what_the_one_before_left(count, dtype):
    place, _ = drawn(dtype, count, 5)
    for _, total, old in everywhere(tickets, place, np.zeros(5, dtype), np.full(count, 77, dtype)):
        for bucket in range(5):
            np.testing.assert_array_equal(np.sort(old[place == bucket]), np.arange((place == bucket).sum()))
        np.testing.assert_array_equal(total, np.bincount(place, minlength=5))


@vk.kernel
def at_the_next(held: Shaped[vk.Tensor, "N"], old: Shaped[vk.Tensor, "N"]):
    i = vk.tile("N")
    old[i] = vk.atomic_exchange(held[i + 1], 5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_updates_beyond_a_tensor_find_0(dtype):
    held = np.random.default_rng(fresh_seed()).integers(1, 9, 37).astype(dtype)
    for after, old in everywhere(at_the_next, held, np.full(37, 77, dtype)):
        np.testing.assert_array_equal(old, np.append(held[1:], 0))
        np.testing.assert_array_equal(after, np.append(held[:1], np.full(36, 5, dtype)))


@pytest.mark.sample(4)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [1, 37, 300])
def test_exchanges_lose_nothing(count, dtype):
    place, x = drawn(dtype, count, 5)
    for _, _, held, old in everywhere(handed_on, place, x, np.zeros(5, dtype), np.full(count, 77, dtype)):
        for bucket in range(5):
            here = place == bucket
            found = np.sort(np.append(old[here], held[bucket]))
            np.testing.assert_array_equal(found, np.sort(np.append(x[here], 0)))


@pytest.mark.sample(4)
@pytest.mark.parametrize("dtype", DTYPES)
def test_maxima_that_are_found_rise(dtype):
    place, x = drawn(dtype, 100, 3)
    x -= 50
    for _, _, most, old in everywhere(raised, place, x, np.full(3, -60, dtype), np.full(100, 77, dtype)):
        for bucket in range(3):
            here = place == bucket
            assert most[bucket] == x[here].max(initial=-60)
            assert set(old[here]) <= {-60, *x[here]}
            assert here.sum() == 0 or (old[here] == -60).any()


@pytest.mark.sample(4)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [1, 37, 300])
def test_one_claims_each_place(count, dtype):
    place, x = drawn(dtype, count, 7)
    for _, _, owner, old in everywhere(claimed, place, x, np.zeros(7, dtype), np.full(count, 77, dtype)):
        for bucket in range(7):
            here = place == bucket
            winners = x[here][old[here] == 0]
            assert len(winners) == min(1, here.sum())
            np.testing.assert_array_equal(owner[bucket], winners[0] if len(winners) else 0)
            assert (old[here][old[here] != 0] == owner[bucket]).all()


def test_updates_are_done_once():
    x = np.random.default_rng(fresh_seed()).integers(1, 9, (3, 11))
    given = x, np.zeros(1, np.int64), np.full(x.shape, -7), np.full(x.shape, -7)
    for _, count, old, after in everywhere(ranked, *given):
        assert count[0] == x.sum()
        np.testing.assert_array_equal(np.sort(old.ravel())[0], 0)
        np.testing.assert_array_equal(np.unique(old).size, x.size)
        np.testing.assert_array_equal(after, old - old.sum(1, keepdims=True))


@vk.kernel
def inserted(key: Int[vk.Tensor, "N"], table: Int[vk.Tensor, "B"], slot: Int[vk.Tensor, "N"]):
    """Keys put into a hash table, at the first free place from their own on."""
    i = vk.tile("N")
    found = vk.full((i,), -1, vk.int64)
    for step in vk.range("B"):
        at = (key[i] + step) % vk.size("B")
        expected = vk.where(found < 0, 0, -1)
        old = vk.atomic_cas(table[at], expected, key[i])
        found = vk.where((found < 0) & ((old == 0) | (old == key[i])), at, found)
    slot[i] = found


def test_a_hash_table():
    random = np.random.default_rng(fresh_seed())
    key = random.integers(1, 40, 25)
    for _, table, slot in everywhere(inserted, key, np.zeros(37, np.int64), np.full(25, -7)):
        np.testing.assert_array_equal(table[slot], key)
        np.testing.assert_array_equal(np.sort(table[table != 0]), np.unique(key))


@vk.kernel
def two_of_them(first: Int[vk.Tensor, "N"], second: Int[vk.Tensor, "N"], old: Int[vk.Tensor, "N"]):
    i = vk.tile("N")
    old[i] = vk.atomic_add(first[i], 1)
    vk.atomic_add(second[i], 2)


def test_tensors_whose_updates_are_seen_are_apart():
    first, old = np.zeros(9, np.int64), np.full(9, -7)
    with pytest.raises(vk.ArgumentError):
        two_of_them(first, first, old)
    second = np.zeros(9, np.int64)
    two_of_them(first, second, old)
    np.testing.assert_array_equal(first, 1)
    np.testing.assert_array_equal(second, 2)
    np.testing.assert_array_equal(old, 0)


def test_deterministic_calls_refuse_them():
    kernel = vk.kernel(deterministic=True)(tickets_of_any)
    with pytest.raises(vk.UnsupportedError, match="what each update finds"):
        kernel(np.zeros(9, np.int64), np.zeros(3, np.int64), np.zeros(9, np.int64))


def tickets_of_any(place: Int[vk.Tensor, "N"], count: Int[vk.Tensor, "B"], old: Int[vk.Tensor, "N"]):
    i = vk.tile("N")
    old[i] = vk.atomic_add(count[place[i]], 1)


@pytest.mark.sample(4)
@pytest.mark.parametrize("kernel", [tickets, handed_on, raised, claimed], ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_gpus_compile_them(kernel, dtype):
    (made,) = kernel.compile(shapes={"N": 5000, "B": 64}, targets=["h100-sxm5-80"], dtype=dtype)
    assert made.binaries
