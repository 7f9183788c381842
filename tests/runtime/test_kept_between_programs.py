"""Programs that keep what the next ones would compute again give what programs that compute it do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from jaxtyping import Float

import vkernels as vk
from vkernels.ir.plan import Home
from vkernels.language.kernel import Kernel
from vkernels.runtime import bound_executable
from vkernels.runtime.bound_executable import UNITS_PER_THREAD, grain_of


@vk.kernel
def of_normed(x: Float[vk.Tensor, "M K"], w: Float[vk.Tensor, "K N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    k = vk.whole("K")
    scale = vk.rsqrt(vk.mean(x[i, k] * x[i, k], axis=k) + 1e-6)
    out[i, j] = vk.dot(x[i, k] * scale, w[k, j])


@vk.kernel
def two_layers(x: Float[vk.Tensor, "M K"], w: Float[vk.Tensor, "K H"], v: Float[vk.Tensor, "H N"],
               out: Float[vk.Tensor, "M N"]):  # fmt: skip
    i = vk.tile("M")
    j = vk.tile("N")
    k = vk.whole("K")
    h = vk.whole("H")
    hidden = vk.maximum(vk.dot(x[i, k], w[k, h]), 0.0)
    out[i, j] = vk.dot(hidden, v[h, j])


@vk.kernel
def of_means(x: Float[vk.Tensor, "M K"], y: Float[vk.Tensor, "N K"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    k = vk.whole("K")
    out[i, j] = vk.mean(x[i, k], axis=k) * vk.max(y[j, k], axis=k)


@pytest.fixture
def random():
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    return np.random.default_rng(seed)


def pinned(kernel: Kernel, **pin) -> Kernel:
    return Kernel(kernel.function, replace(kernel.options, plan=vk.Pin(**pin)))


def results(kernel, random, inputs, shape, threads, **pin):
    """Of programs in both orders, of which one lets tiles of the same rows follow one another."""
    chosen = {name: int(random.integers(1, 9)) for name in "ij"}
    chunk = int(random.integers(2, 5))
    found = []
    before = vk.get_threads()
    vk.set_threads(threads)
    try:
        for order in (("i", "j"), ("j", "i")):
            out = np.full(shape, np.nan, np.float32)
            pinned(kernel, tiles=chosen, chunks={"k": chunk}, order=order, **pin)(*inputs, out)
            found.append(out)
    finally:
        vk.set_threads(before)
    return found


THREADS = (1, 2)
SIZES = ((24, 40, 32), (1, 50, 5), (13, 17, 11))


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize(("m", "n", "k"), SIZES)
@pytest.mark.parametrize("lanes", ["i", "j"])
def test_norms_are_kept(random, m, n, k, threads, lanes):
    x, w = (random.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n)))
    wide = x.astype(np.float64)
    expected = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-6) @ w
    for out in results(of_normed, random, (x, w), (m, n), threads, lanes=lanes):
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize(("m", "n", "k"), SIZES)
@pytest.mark.parametrize("home", [Home.SHARED, Home.MEMORY])
def test_first_products_of_two_are_kept(random, m, n, k, threads, home):
    hidden = int(random.integers(3, 40))
    x, w, v = (random.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, hidden), (hidden, n)))
    expected = np.maximum(x.astype(np.float64) @ w, 0) @ v
    for out in results(two_layers, random, (x, w, v), (m, n), threads, homes={"value": home}):
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_what_depends_on_either_coordinate_is_told_apart(random, m, n, k):
    x, y = (random.standard_normal(shape).astype(np.float32) for shape in ((m, k), (n, k)))
    expected = x.astype(np.float64).mean(1)[:, None] * y.max(1)
    for out in results(of_means, random, (x, y), (m, n), 1):
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("order", [("i", "j"), ("j", "i")])
def test_the_runtime_knows_how_many_programs_share(random, monkeypatch, order):
    m, n, k = 9, 14, 6
    given = []
    monkeypatch.setattr(bound_executable, "grain_of", lambda *numbers: given.append(numbers) or grain_of(*numbers))
    x, w = (random.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n)))
    out = np.full((m, n), np.nan, np.float32)
    before = vk.get_threads()
    vk.set_threads(2)
    try:
        pinned(of_normed, tiles={"i": 2, "j": 4}, chunks={"k": 3}, order=order)(x, w, out)
    finally:
        vk.set_threads(before)
    rows, columns = 5, 4
    assert given
    assert set(given) == {(rows * columns, columns if order == ("i", "j") else 1, 2)}


def test_threads_take_whole_rows_of_tiles_where_they_have_as_much_to_do(random):
    for _ in range(200):
        columns, rows, threads = (int(number) for number in random.integers(1, (40, 200, 9)))
        grain = grain_of(rows * columns, columns, threads)
        if threads > 1 and (rows % threads == 0 or rows >= UNITS_PER_THREAD * threads):
            assert grain % columns == 0
        elif threads > 1 and columns % threads == 0:
            assert columns % grain == 0
        units = -(-rows * columns // grain)
        assert units >= min(threads, rows * columns)


@pytest.mark.parametrize(("rows", "columns", "threads", "grain"), [
    (16, 4, 2, 4), (3, 4, 2, 2), (1, 8, 2, 4), (1, 7, 2, 1), (15, 6, 4, 6), (9, 6, 4, 3), (5, 1, 2, 1),
])  # fmt: skip
def test_few_rows_of_tiles_are_shared_in_equal_parts(rows, columns, threads, grain):
    assert grain_of(rows * columns, columns, threads) == grain
