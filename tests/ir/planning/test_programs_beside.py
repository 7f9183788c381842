"""Programs of several kernels find room on multiprocessors as the hardware places them, one by one."""

import random
from fractions import Fraction

import pytest

from tests.library.reference import fresh_seed
from vkernels.ir.planning.programs_beside import HeldPrograms, crowded_out


def held(programs, **taken):
    return HeldPrograms(programs, tuple((name, Fraction(part).limit_denominator(1000)) for name, part in taken.items()))


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        ([held(64, shared=0.9), held(64, shared=0.9)], 0.0),  # each on multiprocessors of its own
        ([held(132, shared=0.5), held(132, shared=0.5)], 0.0),
        ([held(132, shared=0.5), held(132, shared=0.6)], 1.0),  # 1.1 times what there is, but none of one fits
        ([held(100, shared=0.5), held(64, shared=0.6)], 0.5),  # 32 multiprocessors are left for 64 programs
        ([held(132, shared=0.8, registers=0.1), held(132, shared=0.1, registers=0.8)], 0.0),
        ([held(264, threads=0.5)], 0.0),
        ([held(264, threads=0.5), held(0, threads=0.5)], 0.0),
        ([held(264, threads=0.5), held(1, threads=0.1)], 1.0),
        ([held(132, blocks=0.25)] * 4, 0.0),
        ([held(132, blocks=0.25)] * 5, 1.0),
    ],
)
def test_the_part_of_programs_that_find_no_room(tasks, expected):
    assert crowded_out(132, tuple(tasks)) == pytest.approx(expected)


def one_by_one(multiprocessors, tasks):
    """The same with each program on each multiprocessor by itself."""
    worst = 0.0
    for last in range(len(tasks)):
        taken = [dict.fromkeys(("registers", "shared"), Fraction(0)) for _ in range(multiprocessors)]
        for number in [*(each for each in range(len(tasks)) if each != last), last]:
            placed = 0
            for _ in range(tasks[number].programs):
                free = [t for t in taken if all(t[name] + part <= 1 for name, part in tasks[number].taken)]
                if not free:
                    break
                chosen = min(free, key=lambda held: max(held.values()))
                for name, part in tasks[number].taken:
                    chosen[name] += part
                placed += 1
        worst = max(worst, 1 - placed / tasks[last].programs)
    return worst


def test_groups_of_multiprocessors_hold_what_each_does_by_itself():
    """Which of equally filled ones is next makes a difference of a few programs only."""
    chance = random.Random(fresh_seed())
    for _ in range(40):
        multiprocessors = chance.randrange(1, 9)
        tasks = tuple(
            held(chance.randrange(1, 20), registers=chance.uniform(0.01, 1), shared=chance.uniform(0.01, 1))
            for _ in range(2)
        )
        found, expected = crowded_out(multiprocessors, tasks), one_by_one(multiprocessors, tasks)
        assert abs(found - expected) <= 1 / min(task.programs for task in tasks), tasks


def test_parts_of_a_device_are_of_all_its_multiprocessors():
    assert held(66, shared=0.5, threads=0.25).parts(132) == pytest.approx({"shared": 0.25, "threads": 0.125})
