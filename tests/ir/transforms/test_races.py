"""Updates that get lost and programs that meet in memory are found; what is safe is let through, and is right."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Float, Int

import vkernels as vk
from tests.library.on_a_gpu import NVIDIA, on_a_gpu
from tests.library.reference import fresh_seed

Matrix, Vector = Float[vk.Tensor, "M N"], Float[vk.Tensor, "N"]


@vk.kernel(plan=vk.Pin(tiles={"i": 8}))
def interleaved(x: Vector, out: Float[vk.Tensor, "K"]):
    i = vk.tile("N")
    out[2 * i] = x[i]
    out[2 * i + 1] = -x[i]


@vk.kernel(plan=vk.Pin(tiles={"i": 8}))
def two_rows(x: Vector, out: Float[vk.Tensor, "2 N"]):
    i = vk.tile("N")
    out[0, i] = x[i]
    out[1, i] = out[0, i] * 2


@vk.kernel(plan=vk.Pin(tiles={"i": 8}))
def unrolled(out: Float[vk.Tensor, "K"], x: Vector):
    i = vk.tile("N")
    for k in vk.range(4):
        out[4 * i + k + 1] += x[i] * (k + 1)


@vk.kernel(plan=vk.Pin(tiles={"i": 8}))
def by_scalar(index: Int[vk.Tensor, "L"], x: Float[vk.Tensor, "L N"], out: Float[vk.Tensor, "K N"]):
    i = vk.tile("N")
    for k in vk.range("L"):
        out[index[k], i] += x[k, i]


@vk.kernel
def one_program(index: Int[vk.Tensor, "N"], x: Vector, out: Float[vk.Tensor, "K"]):
    for k in vk.range("N"):
        out[index[k]] += x[k]


@vk.kernel(plan=vk.Pin(tiles={"i": 8}))
def skewed(x: Matrix, out: Float[vk.Tensor, "M K"]):
    i, j = vk.tile("M"), vk.whole("N")
    out[i, i + j] += x[i, j]


@vk.kernel(plan=vk.Pin(tiles={"i": 8}))
def from_starts(start: Int[vk.Tensor, "M"], x: Matrix, out: Float[vk.Tensor, "M K"]):
    i, j = vk.tile("M"), vk.whole("N")
    out[i, start[i] + j] += x[i, j]


@vk.kernel(plan=vk.Pin(tiles={"i": 8}))
def twice_by_the_first(x: Vector, out: Float[vk.Tensor, "1"]):
    i = vk.tile("N")
    x[i] = x[i] * 2
    out[0] = 1
    out[0] = 2


@vk.kernel(plan=vk.Pin(tiles={"i": 8}))
def summed_at_once(index: Int[vk.Tensor, "N"], x: Vector, out: Float[vk.Tensor, "K"]):
    i = vk.tile("N")
    vk.atomic_add(out[index[i]], x[i])


@vk.kernel(plan=vk.Pin(tiles={"i": 2}))
def summed_in_scratch(index: Int[vk.Tensor, "M N"], x: Matrix, out: Float[vk.Tensor, "M K"]):
    i, j, k = vk.tile("M"), vk.whole("N"), vk.whole("K")
    sums = vk.scratch((i, k), vk.float32)
    sums[i, k] = vk.zeros((i, k), vk.float32)
    vk.atomic_add(sums[i, index[i, j]], x[i, j])
    out[i, k] = sums[i, k]


@vk.kernel(plan=vk.Pin(tiles={"i": 8}))
def one_position(x: Vector, out: Float[vk.Tensor, "1"]):
    i, j = vk.tile(1), vk.whole("N")
    out[i] += vk.sum(x[j])
    out[0] += 1.0
    x[j] = 0.0 * vk.sum(x[j])


def numbers(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-4, 5, shape).astype(np.float32)  # exact in any order


def skew(x: np.ndarray, start: np.ndarray, columns: int) -> np.ndarray:
    out = np.zeros((len(x), columns), np.float32)
    for i, row in enumerate(x):
        out[i, start[i] : start[i] + len(row)] += row
    return out


def cases(rng: np.random.Generator) -> dict[str, tuple[vk.Kernel, list[np.ndarray], dict[int, np.ndarray]]]:
    """Kernels, arguments, and what those that are written must become, by number."""
    x, rows, index = numbers(rng, 37), numbers(rng, 37, 5), rng.integers(0, 3, 37)
    start, columns, spread = rng.integers(0, 6, 37), rng.integers(0, 3, (37, 5)), np.zeros(4 * 37 + 1, np.float32)
    spread[1:] = (x[:, None] * np.arange(1, 5, dtype=np.float32)).reshape(-1)
    sums = np.bincount(index, x, 3).astype(np.float32)
    by_row = np.stack([np.bincount(c, r, 3) for c, r in zip(columns, rows, strict=True)]).astype(np.float32)

    def zeros(*shape: int) -> np.ndarray:
        return np.zeros(shape, np.float32)

    long = numbers(rng, 5, 37)
    return {
        "interleaved": (interleaved, [x, zeros(74)], {1: np.stack([x, -x], 1).reshape(-1)}),
        "two rows": (two_rows, [x, zeros(2, 37)], {1: np.stack([x, 2 * x])}),
        "unrolled": (unrolled, [zeros(4 * 37 + 1), x], {0: spread}),
        "by scalar": (by_scalar, [columns[0], long, zeros(3, 37)], {2: np.array(
            [long[columns[0] == k].sum(0) for k in range(3)], np.float32)}),
        "one program": (one_program, [index, x, zeros(3)], {2: sums}),
        "skewed": (skewed, [rows, zeros(37, 41)], {1: skew(rows, np.arange(37), 41)}),
        "from starts": (from_starts, [start, rows, zeros(37, 10)], {2: skew(rows, start, 10)}),
        "twice": (twice_by_the_first, [x, zeros(1)], {0: 2 * x, 1: np.array([2.0], np.float32)}),
        "at once": (summed_at_once, [index, x, zeros(3)], {2: sums}),
        "in scratchpad": (summed_in_scratch, [columns, rows, zeros(37, 3)], {2: by_row}),
        "one position": (one_position, [x, zeros(1)], {0: 0 * x, 1: x.sum(keepdims=True) + 1}),
    }  # fmt: skip


@pytest.mark.parametrize("way", ["interpreted", "compiled", "as a GPU would"])
@pytest.mark.parametrize("name", cases(np.random.default_rng(0)))
def test_what_is_safe_is_let_through_and_right(name, way):
    seed = fresh_seed()
    kernel, arguments, expected = cases(np.random.default_rng(seed))[name]
    arguments = [argument.copy() for argument in arguments]
    if way == "as a GPU would":
        if name == "in scratchpad":
            pytest.skip("atomics on scratchpad have no form on a GPU")
        with on_a_gpu(NVIDIA, seed % 1000):
            kernel(*arguments)
    else:
        (kernel if way == "compiled" else kernel.interpret)(*arguments)
    for number, value in expected.items():
        np.testing.assert_array_equal(arguments[number], value)


@vk.kernel
def by_index(index: Int[vk.Tensor, "N"], x: Vector, out: Float[vk.Tensor, "K"]):
    i = vk.tile("N")
    out[index[i]] += x[i]


@vk.kernel(checked=True)
def checked_by_index(index: Int[vk.Tensor, "N"], x: Vector, out: Float[vk.Tensor, "K"]):
    i = vk.tile("N")
    out[index[i]] += x[i]


@vk.kernel
def both_ways(index: Int[vk.Tensor, "N"], x: Vector, out: Float[vk.Tensor, "K"]):
    i = vk.tile("N")
    vk.atomic_add(out[index[i]], x[i])
    vk.atomic_max(out[index[i]], x[i])


@vk.kernel
def shifting(index: Int[vk.Tensor, "N"], x: Vector, out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    for k in vk.range("N"):
        out[i + k] += x[i] + index[k]


@pytest.mark.parametrize("kernel", [by_index, checked_by_index, both_ways, shifting], ids=lambda kernel: kernel.name)
def test_a_race_is_refused_at_the_same_line_however_the_kernel_is_run(kernel):
    arguments = [np.array([0, 0, 0, 1, 1, 2]), np.ones(6, np.float32), np.zeros(6, np.float32)]
    named = dict(zip(("index", "x", "out"), arguments, strict=True))

    def ahead() -> None:
        kernel.compile(shapes={"N": 6, "K": 6} if kernel is not shifting else {"N": 6}, targets=["cpu"])

    def on_gpu() -> None:
        with on_a_gpu(NVIDIA, 1):
            kernel(*arguments)

    said = set()
    for run in (kernel, kernel.interpret, kernel.compile):
        with pytest.raises(vk.RaceError) as caught:
            run(**named)
        said.add(str(caught.value))
    for run in (ahead, on_gpu):
        with pytest.raises(vk.RaceError) as caught:
            run()
        said.add(str(caught.value))
    assert len(said) == 1
    assert "^" in said.pop()
    assert caught.value.place is not None
    assert caught.value.place.file == __file__
    assert not arguments[2].any()
