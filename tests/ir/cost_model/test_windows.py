"""Elements that positions of several axes share count once; they are read again only where a cache has lost them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from vkernels.ir.cost_model.traffic import CacheTraffic
from vkernels.ir.cost_model.windows import elements_in, overlap
from vkernels.ir.plan import Plan
from vkernels.ir.planning.one_plan import batch_of
from vkernels.library.convolution import convolve

from .test_cpu import space_of

SEED = int(np.random.default_rng().integers(1 << 31))


@pytest.mark.parametrize("case", range(20))
def test_elements_of_a_window_are_those_that_its_positions_take(case):
    """As many, where steps of the one axis leave no gaps between those of the other; else no more than positions."""
    random = np.random.default_rng([SEED, case])
    sizes = {axis: int(random.integers(1, 9)) for axis in "yrc"}
    apart = int(random.integers(1, 4))
    window = (("r", apart), ("y", 1))
    taken = {(c, y + apart * r) for y, r, c in product(*(range(sizes[axis]) for axis in "yrc"))}
    counted = elements_in(("y", "r", "c"), (window,), sizes.__getitem__)
    if sizes["y"] >= apart or sizes["r"] == 1:
        assert counted == len(taken), SEED
    assert len(taken) <= counted <= sizes["y"] * sizes["r"] * sizes["c"], SEED
    assert overlap(window, sizes.__getitem__) == pytest.approx(sizes["y"] * sizes["r"] * sizes["c"] / counted)


def traffic(side):
    sizes = {"B": 2, "G": 1, "C": 32, "H": side, "W": side, "O": 64, "R": 3, "S": 3, "Y": side, "X": side}
    plan = Plan({"b": 1, "g": 1, "o": 16, "y": 1, "x": 16}, {"c": 4}, lanes="x", order=("b", "g", "o", "y", "x"))
    return CacheTraffic(batch_of(space_of(convolve, sizes, {"above": 1, "left": 1}), plan), on_chip_counts=True)


def test_images_of_a_convolution_are_touched_once():
    side = 30
    image, weight, bias, out = 2 * 32 * (side + 2) ** 2, 64 * 32 * 9, 64, 2 * 64 * side**2
    assert traffic(side).distinct() == 4 * (image + weight + bias + out)


def test_windows_are_read_again_where_the_cache_loses_them():
    image = 4 * 2 * 32 * 66**2
    most, some, least = (float(np.max(traffic(64).missed(capacity, 64)[0])) for capacity in (1 << 10, 1 << 16, 1 << 26))
    assert most > 9 * image * 0.9
    assert most > some > least
    assert least < 1.5 * image
