"""The search among structural decisions: where it climbs from."""

from __future__ import annotations

import math

import pytest

from tests.ir.planning.kernels import KERNELS, build, kernel_of
from vkernels.ir.limits import Limits
from vkernels.ir.planning import find_families as search
from vkernels.ir.planning.space import read_space

SERVER = Limits(registers=32, register_bytes=64, shared=2 << 20, multiprocessors=2, cache=256 << 20)


def test_a_start_that_is_little_worse_is_climbed_from_however_much_the_first_one_won():
    kernel, module = build("attention_rows")
    space = read_space(kernel_of(module), {**dict.fromkeys(kernel.sizes, 300), "D": 64, "E": 64}, SERVER)
    every = search._Search(space, None)
    first, second, *_ = every.starts()
    climbed = every.climb(first)
    assert second.least <= search.ALIKE * first.least
    assert second.least > search.WORTH_CLIMBING * climbed.least
    found = min(family.least for family in search.find_families(space))
    assert found <= every.climb(second, climbed.least).least < math.inf
    assert found < climbed.least


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", KERNELS)
def test_one_of_the_starts_has_other_lanes_if_any_fitting_family_has(name: str) -> None:
    kernel, module = build(name)
    space = read_space(kernel_of(module), {**dict.fromkeys(kernel.sizes, 300), "D": 64, "E": 64}, SERVER)
    every = search._Search(space, None)
    lanes = {family.choices.lanes for family in every.starts()}
    found = {choices.lanes for choices, family in every.found.items() if family is not None and not choices.online}
    assert len(lanes) > 1 or found <= lanes
