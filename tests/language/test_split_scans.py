"""Scans along an axis that several programs share: parts are combined first, then each continues from those before."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Float, Int, Shaped

import vkernels as vk
from tests.language.test_combining import filled, larger, then
from tests.library.on_a_gpu import AMD, NVIDIA, on_a_gpu
from tests.library.reference import fresh_seed

SPLITS = [{"splits": {"j": 3}, "chunks": {"j": 4}}, {"splits": {"j": 5}, "chunks": {"j": 16}, "lanes": "j"}]
LENGTHS = [0, 1, 7, 33, 100]


@vk.function
def after(one, other):
    """A product of 2 × 2 matrices."""
    a, b, c, d = one
    e, f, g, h = other
    return a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h


def products(x: Shaped[vk.Tensor, "M N 4"], out: Shaped[vk.Tensor, "M N 4"]):
    i, j = vk.tile("M"), vk.whole("N")
    made = vk.scan(after, (x[i, j, 0], x[i, j, 1], x[i, j, 2], x[i, j, 3]), axis=j)
    out[i, j, 0], out[i, j, 1], out[i, j, 2], out[i, j, 3] = made


def recurrence(a: Shaped[vk.Tensor, "M N"], b: Shaped[vk.Tensor, "M N"], out: Shaped[vk.Tensor, "M N"]):
    i, j = vk.tile("M"), vk.whole("N")
    _, state = vk.scan(then, (a[i, j], b[i, j]), axis=j, identity=(1, 0))
    out[i, j] = state


def several(
    x: Int[vk.Tensor, "M N"],
    total: Int[vk.Tensor, "M N"],
    twice: Int[vk.Tensor, "M N"],
    peaks: Int[vk.Tensor, "M N"],
    highest: Int[vk.Tensor, "M"],
):
    """Scans beside one another and of one another, a reduction of one, and its use in a later phase."""
    i, j = vk.tile("M"), vk.whole("N")
    sums = vk.cumulative_sum(x[i, j], axis=j)
    total[i, j] = sums
    twice[i, j] = vk.cumulative_sum(sums, axis=j) + vk.cumulative_min(x[i, j], axis=j)
    most = vk.max(sums, axis=j)
    peaks[i, j] = vk.cumulative_max(sums, axis=j) - most
    highest[i] = most + vk.sum(x[i, j], axis=j)


def in_place(x: Shaped[vk.Tensor, "M N"]):
    i, j = vk.tile("M"), vk.whole("N")
    x[i, j] = vk.cumulative_sum(x[i, j], axis=j)


def best(x: Float[vk.Tensor, "M N"], value: Float[vk.Tensor, "M"], place: Int[vk.Tensor, "M"]):
    i, j = vk.tile("M"), vk.whole("N")
    pairs = x[i, j], vk.broadcast(j, (i, j))
    value[i], place[i] = vk.reduce(larger, pairs, axis=j, identity=(float("-inf"), 0))


def everywhere(function, pin, *given):
    """What a kernel leaves in its arguments: interpreted, on the CPU, and as on a GPU."""
    kernel = vk.kernel(plan=vk.Pin(**pin))(function)
    seed = fresh_seed()
    sizes = {axis: 1 << (size - 1).bit_length() for axis, size in pin["chunks"].items()}
    on_gpus = vk.kernel(plan=vk.Pin(splits=pin["splits"], chunks=sizes))(function)
    with on_a_gpu([NVIDIA, AMD][seed % 2], seed) as gpu:
        for run in (kernel.interpret, kernel._launcher, lambda *arrays: gpu.run(on_gpus, arrays, {})):
            arrays = [array.copy() for array in given]
            run(*arrays)
            yield arrays


@pytest.mark.parametrize("pin", SPLITS)
def test_a_scan_kept_in_memory_is_found_once(pin):
    """The loop that stores what is scanned computes it, however it is used later."""
    x = integers(np.random.default_rng(fresh_seed()), 3, 53)
    sums = x.cumsum(1)
    kernel = vk.kernel(plan=vk.Pin(**pin, homes={"sums": "memory"}))(several)
    found = [np.full_like(x, 77) for _ in range(3)]
    kernel(x, *found, np.full(3, 77))
    np.testing.assert_array_equal(found[0], sums)
    np.testing.assert_array_equal(found[1], sums.cumsum(1) + np.minimum.accumulate(x, 1))
    np.testing.assert_array_equal(found[2], np.maximum.accumulate(sums, 1) - sums.max(1, keepdims=True))


def integers(random, *shape):
    return random.integers(-9, 9, shape)


@pytest.mark.sample(4)
@pytest.mark.parametrize("pin", SPLITS)
@pytest.mark.parametrize("length", LENGTHS)
def test_products_of_matrices(length, pin):
    x = np.random.default_rng(fresh_seed()).integers(-1, 2, (3, length, 4))
    expected, made = np.zeros_like(x), np.broadcast_to(np.eye(2, dtype=x.dtype), (3, 2, 2))
    for step in range(length):
        made = made @ x[:, step].reshape(3, 2, 2)
        expected[:, step] = made.reshape(3, 4)
    for _, out in everywhere(products, pin, x, np.full_like(x, 77)):
        np.testing.assert_array_equal(out, expected)


@pytest.mark.sample(4)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("pin", SPLITS)
@pytest.mark.parametrize("length", LENGTHS)
def test_a_linear_recurrence(length, pin, dtype):
    random = np.random.default_rng(fresh_seed())
    a, b = (random.uniform(-1, 1, (3, length)).astype(dtype) for _ in range(2))
    state, expected = np.zeros(3), np.zeros((3, length))
    for step in range(length):
        state = expected[:, step] = a[:, step].astype(np.float64) * state + b[:, step]
    for *_, out in everywhere(recurrence, pin, a, b, np.full_like(a, np.nan)):
        np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.sample(4)
@pytest.mark.parametrize("pin", SPLITS)
@pytest.mark.parametrize("length", [length for length in LENGTHS if length])
def test_several_scans_and_reductions(length, pin):
    x = integers(np.random.default_rng(fresh_seed()), 3, length)
    sums = x.cumsum(1)
    given = [x, *(np.full_like(x, 77) for _ in range(3)), np.full(3, 77)]
    for _, total, twice, peaks, highest in everywhere(several, pin, *given):
        np.testing.assert_array_equal(total, sums)
        np.testing.assert_array_equal(twice, sums.cumsum(1) + np.minimum.accumulate(x, 1))
        np.testing.assert_array_equal(peaks, np.maximum.accumulate(sums, 1) - sums.max(1, keepdims=True))
        np.testing.assert_array_equal(highest, sums.max(1) + x.sum(1))


@pytest.mark.sample(2)
@pytest.mark.parametrize("pin", SPLITS)
@pytest.mark.parametrize("length", LENGTHS)
def test_functions_without_an_identity(length, pin):
    x = integers(np.random.default_rng(fresh_seed()), 3, length) // 5
    expected, last = np.zeros_like(x), np.zeros(3, x.dtype)
    for step in range(length):
        last = expected[:, step] = np.where(x[:, step] != 0, x[:, step], last)
    for _, out, at_end in everywhere(filled.function, pin, x, np.full_like(x, 77), np.full(3, 77)):
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(at_end, last)


@pytest.mark.parametrize("pin", SPLITS)
def test_in_place(pin):
    x = integers(np.random.default_rng(fresh_seed()), 3, 53)
    for (found,) in everywhere(in_place, pin, x):
        np.testing.assert_array_equal(found, x.cumsum(1))


@pytest.mark.sample(2)
@pytest.mark.parametrize("pin", SPLITS)
@pytest.mark.parametrize("length", [1, 33])
def test_the_largest_with_its_place(length, pin):
    x = integers(np.random.default_rng(fresh_seed()), 6, length).astype(np.float32)
    for _, value, place in everywhere(best, pin, x, np.full(6, np.nan, np.float32), np.full(6, -7)):
        np.testing.assert_array_equal(value, x.max(1))
        np.testing.assert_array_equal(place, x.argmax(1))


@pytest.mark.parametrize("target", ["h100-sxm5-80", "mi300x"])
def test_gpus_share_a_long_row(target):
    """One launch finds what each part combines to, another scans the parts."""
    (made,) = vk.kernel(recurrence).compile(shapes={"M": 1, "N": 1 << 22}, targets=[target], dtype="float32")
    assert len(made.binaries) == 2


def doubled(x: Int[vk.Tensor, "M N"], out: Int[vk.Tensor, "M N"]):
    i, j = vk.tile("M"), vk.whole("N")
    x[i, j] = x[i, j] * 2
    out[i, j] = vk.cumulative_sum(x[i, j], axis=j)


def counted(x: Int[vk.Tensor, "M N"], out: Int[vk.Tensor, "M N"]):
    i, j = vk.tile("M"), vk.whole("N")
    before = vk.atomic_add(x[i, j], 1)
    out[i, j] = vk.cumulative_sum(before, axis=j)


def test_the_axis_is_not_split_where_the_loop_writes_what_it_scans():
    x = integers(np.random.default_rng(fresh_seed()), 3, 53)
    given = x.copy(), np.zeros_like(x)
    vk.kernel(doubled)(*given)
    np.testing.assert_array_equal(given, [2 * x, 2 * x.cumsum(1)])
    with pytest.raises(vk.PlanError, match="writes x before it reads it"):
        vk.kernel(plan=vk.Pin(**SPLITS[0]))(doubled)(*given)


@pytest.mark.parametrize("pin", SPLITS)
def test_what_atomics_found_is_found_once(pin):
    x = integers(np.random.default_rng(fresh_seed()), 3, 53)
    given = x.copy(), np.zeros_like(x)
    vk.kernel(plan=vk.Pin(**pin))(counted)(*given)
    np.testing.assert_array_equal(given, [x + 1, x.cumsum(1)])
