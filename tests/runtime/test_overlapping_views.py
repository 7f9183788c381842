"""Views of one piece of memory: refused, or the same as with memory of their own, however they overlap."""

from __future__ import annotations

import numpy as np
import pytest

import vkernels as vk

from ..library.on_a_gpu import NVIDIA, on_a_gpu
from ..library.reference import fresh_seed
from .test_aliasing import centred, moved_up, shifted, turned_halves, turned_pairs

KERNELS = (centred, moved_up, shifted, turned_halves, turned_pairs)


def drawn(rng: np.random.Generator, memory: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """A view of a matrix, at a random place, with random steps."""
    cuts = []
    for long, count in zip(memory.shape, shape, strict=True):
        step = int(rng.integers(1, 3)) if (count - 1) * 2 < long else 1
        start = int(rng.integers(0, long - (count - 1) * step))
        cuts.append(slice(start, start + (count - 1) * step + 1, step))
    return memory[tuple(cuts)]


def pair(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two views of one shape: alike, side by side, one between the other's elements, or overlapping."""
    shape = (int(rng.integers(1, 6)), int(rng.choice([1, 2, 3, 8, 40])))
    memory = rng.integers(-9, 10, (shape[0] * 2 + 1, shape[1] * 2 + 1)).astype(np.float32)  # exact in any order
    one = drawn(rng, memory, shape)
    match rng.integers(0, 3):
        case 0:
            return one, one
        case 1:
            rows, columns = shape
            return memory[:rows, 1 : 2 * columns : 2], memory[:rows, : 2 * columns : 2]
    return one, drawn(rng, memory, shape)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["called", "as a GPU would"])
def test_overlapping_views(way):
    rng, ran = np.random.default_rng(fresh_seed()), 0
    for _ in range(30):
        kernel = KERNELS[rng.integers(len(KERNELS))]
        x, out = pair(rng)
        before, want = out.copy(), out.copy()
        kernel.interpret(x.copy(), want)
        try:
            if way == "called":
                kernel(x, out)
            else:
                with on_a_gpu(NVIDIA, int(rng.integers(1 << 30))):
                    kernel(x, out)
        except vk.ArgumentError:
            assert np.shares_memory(x, out)
            np.testing.assert_array_equal(out, before)
        else:
            ran += 1
            np.testing.assert_array_equal(out, want)
    assert ran > 3
