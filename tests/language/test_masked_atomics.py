"""Atomics with a mask, and what values are before they combine: interpreted, on the CPU, and as on a GPU."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Bool, Int, Shaped

import vkernels as vk
from tests.library.reference import fresh_seed

from .test_combining import everywhere

DTYPES = ["float32", "float64", "int32", "int64"]


@vk.kernel
def counted(index: Int[vk.Tensor, "N"], count: Shaped[vk.Tensor, "B"]):
    """An index is not used where the mask is false."""
    i = vk.tile("N")
    vk.atomic_add(count[index[i]], 1, where=index[i] >= 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_indices_need_be_right_only_where_the_mask_is_true(dtype):
    random = np.random.default_rng(fresh_seed())
    index = random.integers(0, 5, 77)
    index[random.random(77) < 0.4] = -(1 << 40)
    for _, count in everywhere(counted, index, np.zeros(5, dtype)):
        np.testing.assert_array_equal(count, np.bincount(index[index >= 0], minlength=5))


@vk.kernel
def summed(x: Shaped[vk.Tensor, "G N C"], keep: Bool[vk.Tensor, "G N C"], out: Shaped[vk.Tensor, "C"]):
    g, n, c = vk.tile("G"), vk.whole("N"), vk.tile("C")
    vk.atomic_add(out[c], x[g, n, c], where=keep[g, n, c])


@vk.kernel
def highest(x: Shaped[vk.Tensor, "G N C"], keep: Bool[vk.Tensor, "G N C"], out: Shaped[vk.Tensor, "C"]):
    g, n, c = vk.tile("G"), vk.whole("N"), vk.tile("C")
    vk.atomic_max(out[c], x[g, n, c], where=keep[g, n, c])


@vk.kernel
def lowest(x: Shaped[vk.Tensor, "G N C"], keep: Bool[vk.Tensor, "G N C"], out: Shaped[vk.Tensor, "C"]):
    g, n, c = vk.tile("G"), vk.whole("N"), vk.tile("C")
    vk.atomic_min(out[c], x[g, n, c], where=keep[g, n, c])


@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", [summed, highest, lowest], ids=lambda kernel: kernel.name)
def test_only_positions_with_a_true_mask_combine(kernel, dtype):
    random = np.random.default_rng(fresh_seed())
    x, keep = random.integers(-50, 50, (4, 9, 5)).astype(dtype), random.random((4, 9, 5)) < 0.3
    keep[:, :, 2] = False
    out = random.integers(-9, 9, 5).astype(dtype)
    ufunc = {summed: np.add, highest: np.maximum, lowest: np.minimum}[kernel]
    expected = out.copy()
    for g, n, c in np.argwhere(keep):
        expected[c] = ufunc(expected[c], x[g, n, c])
    for *_, found in everywhere(kernel, x, keep, out):
        np.testing.assert_array_equal(found, expected)


@vk.kernel
def positives(x: Shaped[vk.Tensor, "M N"], row: Shaped[vk.Tensor, "M"], all: Shaped[vk.Tensor, "1"]):
    """The mask has axes that the value lacks: each position with a true mask is an update."""
    i, j = vk.tile("M"), vk.whole("N")
    vk.atomic_add(row[i], 1, where=x[i, j] > 0)
    vk.atomic_add(all[0], 2, where=x[i, j] > 0)


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_mask_brings_its_axes(dtype):
    x = np.random.default_rng(fresh_seed()).integers(-3, 4, (6, 33)).astype(dtype)
    for _, row, total in everywhere(positives, x, np.zeros(6, dtype), np.zeros(1, dtype)):
        np.testing.assert_array_equal(row, (x > 0).sum(1))
        np.testing.assert_array_equal(total, 2 * (x > 0).sum())


@vk.kernel
def taken(
    index: Int[vk.Tensor, "N"], x: Shaped[vk.Tensor, "N"], held: Shaped[vk.Tensor, "B"], old: Shaped[vk.Tensor, "N"]
):
    i = vk.tile("N")
    old[i] = vk.atomic_exchange(held[index[i]], x[i], where=index[i] >= 0)


@vk.kernel
def claimed(
    index: Int[vk.Tensor, "N"], x: Shaped[vk.Tensor, "N"], held: Shaped[vk.Tensor, "B"], old: Shaped[vk.Tensor, "N"]
):
    i = vk.tile("N")
    old[i] = vk.atomic_cas(held[index[i]], 3, x[i], where=index[i] >= 0)


@vk.kernel
def raised(
    index: Int[vk.Tensor, "N"], x: Shaped[vk.Tensor, "N"], held: Shaped[vk.Tensor, "B"], old: Shaped[vk.Tensor, "N"]
):
    i = vk.tile("N")
    old[i] = vk.atomic_max(held[index[i]], x[i], where=index[i] >= 0)


@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", [taken, claimed, raised], ids=lambda kernel: kernel.name)
def test_an_update_with_a_false_mask_finds_0(kernel, dtype):
    random = np.random.default_rng(fresh_seed())
    index = random.permutation(40)
    index[random.random(40) < 0.4] = -7
    active = index >= 0
    x, held = (random.integers(1, 6, 40).astype(dtype) for _ in range(2))
    before = np.where(active, held[index], 0)
    changes = {taken: active, claimed: active & (before == 3), raised: active & (x > before)}[kernel]
    expected = held.copy()
    expected[index[changes]] = x[changes]
    for _, _, after, old in everywhere(kernel, index, x, held, np.full(40, 77, dtype)):
        np.testing.assert_array_equal(old, before)
        np.testing.assert_array_equal(after, expected)


@vk.kernel
def numbered(keep: Bool[vk.Tensor, "M N"], count: Int[vk.Tensor, "1"], old: Int[vk.Tensor, "M N"]):
    i, j = vk.tile("M"), vk.whole("N")
    old[i, j] = vk.atomic_add(count[0], 1, where=keep[i, j])


def test_chosen_positions_are_numbered():
    keep = np.random.default_rng(fresh_seed()).random((7, 13)) < 0.5
    for _, count, old in everywhere(numbered, keep, np.zeros(1, np.int64), np.full(keep.shape, -7)):
        assert count[0] == keep.sum()
        np.testing.assert_array_equal(np.sort(old[keep]), np.arange(keep.sum()))
        np.testing.assert_array_equal(old[~keep], 0)


@pytest.mark.parametrize("kernel", [taken, claimed], ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_nothing_is_touched_in_an_empty_tensor(kernel, dtype):
    given = np.full(9, -1), np.ones(9, dtype), np.zeros(0, dtype), np.full(9, 77, dtype)
    for *_, old in everywhere(kernel, *given):
        np.testing.assert_array_equal(old, 0)


@vk.kernel
def added(x: Shaped[vk.Tensor, "G N C"], out: Shaped[vk.Tensor, "C"]):
    g, n, c = vk.tile("G"), vk.whole("N"), vk.tile("C")
    vk.atomic_add(out[c], x[g, n, c])


@vk.kernel
def counted_up(x: Shaped[vk.Tensor, "G N C"], out: Shaped[vk.Tensor, "C"]):
    g, n, c = vk.tile("G"), vk.whole("N"), vk.tile("C")
    vk.atomic_add(out[c], x[g, n, c] != 0)


@pytest.mark.parametrize(("given", "dtype"), [("int8", "int32"), ("uint8", "int64"), ("int16", "float32")])
@pytest.mark.parametrize("kernel", [added, counted_up], ids=lambda kernel: kernel.name)
def test_values_of_fewer_bits_are_added_up_as_memory_has_them(kernel, given, dtype):
    x = np.random.default_rng(fresh_seed()).integers(0, 120, (3, 60, 5)).astype(given)
    expected = x.astype(np.int64).sum((0, 1)) if kernel is added else (x != 0).sum((0, 1))
    for _, out in everywhere(kernel, x, np.zeros(5, dtype)):
        np.testing.assert_array_equal(out, expected)


@vk.kernel
def of_a_number(x: Shaped[vk.Tensor, "N"], out: Shaped[vk.Tensor, "1"]):
    i = vk.tile("N")
    vk.atomic_add(out[0], 1, where=x[i])


def test_a_mask_is_of_bool():
    with pytest.raises(vk.TypeMismatchError, match="mask of bool"):
        of_a_number(np.ones(3, np.float32), np.zeros(1, np.float32))


@pytest.mark.sample(3)
@pytest.mark.parametrize("kernel", [taken, claimed, raised], ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_gpus_compile_them(kernel, dtype):
    (made,) = kernel.compile(shapes={"N": 5000, "B": 64}, targets=["h100-sxm5-80"], dtype=dtype)
    assert made.binaries
