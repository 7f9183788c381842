"""Random small kernels give the same interpreted as written, split into phases, mapped, and compiled."""

from __future__ import annotations

import pytest

from ..library.reference import fresh_seed
from .random_kernels.compare import Counts, check, check_ttir
from .random_kernels.long_sums import check_long_sum

BATCHES, KERNELS = 2, 5


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_kernels_give_the_same_in_every_way(batch):
    """`python -m tests.generated --kind drawn --seed SEED --seeds 1` repeats a failure."""
    counts, seed = Counts(), fresh_seed()
    for number in range(KERNELS):
        check(seed + number, counts, native=number % 2 == 0)
    assert counts.mapped >= KERNELS // 2, "too few plans apply for this to test anything"


@pytest.mark.thorough
def test_many_random_kernels_give_the_same_in_every_way():
    counts, seed = Counts(), fresh_seed()
    for number in range(10_000):
        check(seed + number, counts)
    assert counts.aliased > 500, "too few kernels are called with one array twice for this to test anything"


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("batch", range(2))
def test_random_kernels_give_the_same_as_ttir(batch):
    """`python -m tests.generated --kind drawn --seed SEED --seeds 1` repeats a failure."""
    counts, seed = Counts(), fresh_seed()
    for number in range(2 * KERNELS):
        check_ttir(seed + number, counts)
    assert counts.lowered >= KERNELS // 2, "too few plans apply for this to test anything"


@pytest.mark.parametrize("way", ["written", "native", "ttir"])
def test_long_sums_are_as_near_as_promised(way):
    """Of 2¹⁶ to 2²⁰ terms that are not exact, under random plans."""
    seed = fresh_seed()
    for number in range(1 if way == "ttir" else 3):
        check_long_sum(seed + number, way)


@pytest.mark.thorough
def test_many_random_kernels_give_the_same_as_ttir():
    counts, seed = Counts(), fresh_seed()
    for number in range(1000):
        check_ttir(seed + number, counts)
