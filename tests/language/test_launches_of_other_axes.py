"""Between places where all programs wait, a kernel's programs lie along the tile axes that are named there."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Float, Int32, Shaped

import vkernels as vk
from tests.ir.planning.kernels import kernel_of
from tests.library.on_a_gpu import AMD, NVIDIA, on_a_gpu
from tests.library.reference import fresh_seed
from vkernels.compiler.protocols import Signature
from vkernels.ir.analyses import phases_of
from vkernels.ir.analysis.launch_axes import launch_axes

SIZES = [(1, 1), (3, 5), (70, 33), (1000, 40)]


def centred(x: Shaped[vk.Tensor, "M N"], mean: Shaped[vk.Tensor, "N"], out: Shaped[vk.Tensor, "M N"]):
    j, rows = vk.tile("N"), vk.whole("M")
    mean[j] = vk.sum(x[rows, j], axis=rows) / vk.size("M")
    mean[j] = mean[j] * 1
    vk.phase(grid=True)
    i, columns = vk.tile("M"), vk.whole("N")
    out[i, columns] = x[i, columns] - mean[columns]


def sorted_by_count(
    key: Int32[vk.Tensor, "N"],
    count: Int32[vk.Tensor, "B"],
    start: Int32[vk.Tensor, "B"],
    place: Int32[vk.Tensor, "N"],
    out: Int32[vk.Tensor, "N"],
):
    i, b = vk.tile("N"), vk.whole("B")
    place[i] = vk.atomic_add(count[key[i]], 1)
    vk.phase(grid=True)
    c = vk.tile("B")
    start[c] = vk.sum(vk.where(b < c, count[b], 0), axis=b)
    vk.phase(grid=True)
    out[start[key[i]] + place[i]] = key[i]


def crossing(
    x: Float[vk.Tensor, "M N"], best: Float[vk.Tensor, "M"], low: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "M N"]
):
    """A tile, a reduction, a value without tile axes and scratchpad cross a launch of other programs."""
    i, j, every = vk.tile("M"), vk.whole("N"), vk.whole("M")
    kept = vk.scratch((i, j), x.dtype)
    row = vk.exp(x[i, j])
    most = vk.max(row, axis=j)
    first = vk.sum(x[0, j], axis=j)
    kept[i, j] = row - most
    best[i] = most
    vk.phase(grid=True)
    c = vk.tile("N")
    low[c] = vk.min(best[every], axis=every) + x[0, c] * first
    vk.phase(grid=True)
    out[i, j] = row * most + kept[i, j] + low[j] + first


def everywhere(function, *given, **pin):
    """What a kernel leaves in its arguments: interpreted, on the CPU, and as on a GPU."""
    seed = fresh_seed()
    kernel = vk.kernel(plan=vk.Pin(**pin))(function)
    with on_a_gpu([NVIDIA, AMD][seed % 2], seed) as gpu:
        for run in (kernel.interpret, kernel._launcher, lambda *arrays: gpu.run(vk.kernel(function), arrays, {})):
            arrays = [array.copy() for array in given]
            run(*arrays)
            yield arrays


@pytest.mark.sample(3)
@pytest.mark.parametrize("pin", [{}, {"tiles": {"j": 4, "i": 3}}, {"lanes": "rows"}, {"order": ("i", "j")}])
@pytest.mark.parametrize("size", SIZES)
def test_parts_along_rows_and_columns(size, pin):
    x = np.random.default_rng(fresh_seed()).standard_normal(size)
    for _, mean, out in everywhere(centred, x, np.full(size[1], np.nan), np.full_like(x, np.nan), **pin):
        np.testing.assert_allclose(mean, x.mean(0), atol=1e-12)
        np.testing.assert_allclose(out, x - x.mean(0), atol=1e-12)


@pytest.mark.parametrize("size", [0, 1, 500])
def test_results_of_atomics_among_the_programs_of_their_part(size):
    key = np.random.default_rng(fresh_seed()).integers(0, 7, size).astype(np.int32)
    poisoned = [np.full(n, -9, np.int32) for n in (7, size, size)]
    for *_, out in everywhere(sorted_by_count, key, np.zeros(7, np.int32), *poisoned):
        np.testing.assert_array_equal(out, np.sort(key))


@pytest.mark.slow
@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "pin",
    [{}, {"tiles": {"c": 4, "i": 3}}, {"chunks": {"j": 8}, "homes": {"row": "memory"}}, {"order": ("c", "i")}],
)
@pytest.mark.parametrize("size", SIZES)
def test_values_cross_a_launch_of_other_programs(size, pin):
    x = np.random.default_rng(fresh_seed()).standard_normal(size).astype(np.float32)
    row, first = np.exp(x.astype(np.float64)), x[0].sum(dtype=np.float64)
    most = row.max(1, keepdims=True)
    low = most.min() + x[0] * first
    given = (x, np.full(size[0], np.nan, x.dtype), np.full(size[1], np.nan, x.dtype), np.full_like(x, np.nan))
    for *_, found, out in everywhere(crossing, *given, **pin):
        np.testing.assert_allclose(found, low, rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(out, row * most + row - most + low + first, rtol=1e-4, atol=1e-3)


def test_launches_have_the_tile_axes_that_they_name():
    """Launches with the same scratchpad have the same ones."""
    for function, expected in ((centred, ["j", "i"]), (sorted_by_count, ["i", "c", "i"]), (crossing, ["i", "c", "i"])):
        kernel = vk.kernel(function)
        dtypes = {each.name: "int32" if function is sorted_by_count else "float32" for each in kernel.parameters}
        axes = launch_axes(phases_of(kernel_of(kernel.build(Signature(tuple(dtypes.items()), (), ())))))
        assert ["".join(sorted(each)) for each in axes.of(axes.waits)] == expected


@vk.kernel(plan=vk.Pin(launches=("twice",)))
def turned(
    x: Float[vk.Tensor, "N"], rows: Float[vk.Tensor, "M"], twice: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]
):
    """Nothing has the tile axis."""
    i, j = vk.tile("M"), vk.whole("N")  # noqa: F841 (a program for each row, all of which make the same)
    kept = vk.scratch((j,), x.dtype)
    kept[j] = x[j]
    twice[j] = 2 * x[j]
    out[j] = kept[vk.size("N") - 1 - j]


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_a_launch_without_an_axis_has_no_programs_where_that_is_empty(rows: int):
    """Programs along the axis make what lacks it, in one launch or in two."""
    x, found = np.arange(7.0), np.full((2, 2, 7), -1.0)
    for run, (twice, out) in zip((turned, turned.interpret), found, strict=True):
        run(x, np.zeros(rows), twice, out)
    np.testing.assert_array_equal(found, np.tile([2 * x, x[::-1]] if rows else np.full((2, 7), -1.0), (2, 1, 1)))


def test_a_part_has_programs_though_an_axis_of_another_is_empty():
    kernel = vk.kernel(centred)
    for run in (kernel, kernel.interpret):
        mean, out = np.full(3, -1.0), np.empty((0, 3))
        run(np.empty((0, 3)), mean, out)
        np.testing.assert_array_equal(mean, np.full(3, np.nan))  # 0 / 0
