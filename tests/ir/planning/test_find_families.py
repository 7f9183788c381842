"""The search among structural decisions: where it climbs from."""

from __future__ import annotations

import pytest

from tests.ir.planning.kernels import KERNELS, build, kernel_of
from vkernels.ir.limits import Limits
from vkernels.ir.planning import find_families as search
from vkernels.ir.planning.space import read_space

SERVER = Limits(registers=32, register_bytes=64, shared=2 << 20, multiprocessors=2, cache=256 << 20)


@pytest.mark.slow
def test_starts_that_are_about_as_good_are_climbed_from_however_much_the_first_one_won(monkeypatch):
    climb, several = search._Search.climb, 0
    monkeypatch.setattr(search, "WORTH_CLIMBING", 0.0)
    for name in KERNELS:
        kernel, module = build(name)
        space = read_space(kernel_of(module), {**dict.fromkeys(kernel.sizes, 300), "D": 64, "E": 64}, SERVER)
        climbed = []
        monkeypatch.setattr(search._Search, "climb", lambda self, *of, to=climbed: to.append(of[0]) or climb(self, *of))
        search.find_families(space)
        first, *others = search._Search(space, None).starts()
        alike = [first, *(other for other in others if other.least <= search.ALIKE * first.least)]
        assert [start.choices for start in climbed] == [start.choices for start in alike]
        several += len(alike) > 1
    assert several > 1


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", KERNELS)
def test_one_of_the_starts_has_other_lanes_if_any_fitting_family_has(name: str) -> None:
    kernel, module = build(name)
    space = read_space(kernel_of(module), {**dict.fromkeys(kernel.sizes, 300), "D": 64, "E": 64}, SERVER)
    every = search._Search(space, None)
    lanes = {family.choices.lanes for family in every.starts()}
    found = {choices.lanes for choices, family in every.found.items() if family is not None and not choices.online}
    assert len(lanes) > 1 or found <= lanes
