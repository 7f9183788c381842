"""A program for `test_growth`: compiles one kernel again and again, and prints by how many MB the process grew.

Its arguments: `constants`, `shapes` or `both` in turn, which are new each time; how many compiles come first, how many
are counted, and how many variants a kernel remembers, 0 for as many as usual.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from jaxtyping import Float

import vkernels as vk
from vkernels.compiler import kernel_variants
from vkernels.compiler.default_session import set_default_session
from vkernels.compiler.session import CompilerSession
from vkernels.runtime import dispatch


@vk.kernel
def scaled(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"], factor: vk.Constant):
    i = vk.tile("M")
    j = vk.whole("N")
    row = x[i, j]
    out[i, j] = factor * row / vk.max(row, axis=j)


def with_constant(number: int) -> None:
    x = np.ones((4, 8), np.float32)
    out = np.full_like(x, np.nan)
    scaled(x, out, number + 1)
    assert (out == number + 1).all()


def with_shape(number: int) -> None:
    x = np.ones((4, 9 + number), np.float32)
    out = np.full_like(x, np.nan)
    scaled(x, out, 3)
    assert (out == 3).all()


def with_either(number: int) -> None:
    (with_constant, with_shape)[number % 2](number)


def resident() -> float:
    """MB, without what only waits to be given out again."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / (1 << 20)


def main(what: str, begin: int, count: int, known: int) -> None:
    set_default_session(CompilerSession())
    if known:
        dispatch.MAX_CACHED_CALLS = kernel_variants.MAX_CODE = kernel_variants.MAX_IR = known
    one: Callable[[int], None] = {"constants": with_constant, "shapes": with_shape, "both": with_either}[what]
    for number in range(begin):
        one(number)
    before = resident()
    for number in range(begin, begin + count):
        one(number)
    print(resident() - before)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
