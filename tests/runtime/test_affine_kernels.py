"""Kernels that read and write one tensor at random sums of axes: refused, or as written, however they are cut up."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path

import numpy as np
import pytest

import vkernels as vk

from ..library.on_a_gpu import NVIDIA, on_a_gpu
from ..library.reference import fresh_seed

HEAD = """import vkernels as vk
from jaxtyping import Float


def kernel(x: Float[vk.Tensor, "L"], y: Float[vk.Tensor, "N 4"]):
    i = vk.tile("N")
    j = {kind}(4)
    n = vk.size("N")
"""


APART = ((1, 0), (2, 0), (3, 0), (4, 1), (8, 1), (8, 2))
"""Coefficients of i and j with which no two positions have the same index."""


def index(
    choose: random.Random, near: tuple[int, int] | None = None, strides: tuple[tuple[int, int], ...] = APART
) -> tuple[str, tuple[int, int]]:
    """An index, and its coefficients; `near`: those of another, more often than not."""
    i, j = near if near in strides and choose.random() < 0.8 else choose.choice(strides)
    number, sizes = choose.choice([0, 0, 1, 2, 3, 5]), choose.choice([0, 0, 0, 1, 2, 4])
    terms = [f"{i} * i", *([f"{j} * j"] if j else []), *([str(number)] if number else [])]
    return " + ".join([*terms, *([f"{sizes} * n"] if sizes else [])]), (i, j)


def source(choose: random.Random) -> str:
    """A kernel of a few loads and stores of x; what is stored has all axes that its index has."""
    lines, near = [], None
    for number in range(choose.randint(1, 2)):
        text, near = index(choose, near, (*APART, (4, 2), (1, 1)))
        lines.append(f"v{number} = x[{text}]")
    for number in range(choose.randint(1, 2)):
        text, near = index(choose, near)
        value = choose.choice(["v0", "v0 * 2", f"{lines[-1].split(' ')[0]} + 1" if not number else "v0 + 1"])
        lines.append(f"x[{text}] = {value}" if near[1] == 0 else f"x[{text}] = {value} + y[i, j]")
    return HEAD.format(kind=choose.choice(["vk.tile", "vk.whole"])) + "".join(f"    {line}\n" for line in lines)


def built(text: str, folder: Path, number: int, **plan: object) -> vk.Kernel:
    path = folder / f"affine_{number}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return vk.kernel(plan=vk.Pin(**plan))(module.kernel)


@pytest.mark.parametrize("way", ["called", "as a GPU would"])
def test_one_tensor_at_sums_of_axes(way, tmp_path):
    seed, ran, refused = fresh_seed(), 0, 0
    choose, rng = random.Random(seed), np.random.default_rng(seed)
    while ran < 4:
        text = source(choose)
        kernel = built(text, tmp_path, ran + refused, tiles={"i": choose.choice([1, 2, 4])})
        rows, columns = int(rng.integers(2, 12)), 4
        x = rng.integers(-9, 10, 12 * rows + 30).astype(np.float32)
        y = rng.integers(-9, 10, (rows, columns)).astype(np.float32)
        want = x.copy()
        try:
            kernel.interpret(want, y)
        except vk.SourceError:
            refused += 1
            continue
        ran += 1
        if way == "called":
            kernel(x, y)
        else:
            with on_a_gpu(NVIDIA, seed):
                kernel(x, y)
        np.testing.assert_array_equal(x, want, err_msg=text)
