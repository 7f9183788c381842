"""Loops that calibration times do what they are timed for; what they give is what the model takes."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from vkernels.compiler.calibrate_accesses import AccessMeasurement
from vkernels.compiler.calibration_accesses import BESIDE, ROW
from vkernels.compiler.calibration_loops import LARGE, LINKS, LOADED_VECTORS, LargeMemory, buffer, loops
from vkernels.ir.core_costs import CoreCosts
from vkernels.ir.cost_model.cache_sets import part_lost
from vkernels.ir.cost_model.loops import LINE
from vkernels.targets.cpu_rates import OF_ACCESSES


@pytest.mark.parametrize("name", ["atomic", "update"])
def test_additions_to_memory_add_up(width, random, name):
    memory = buffer(1 << 10).view(np.float32)
    memory[:] = before = random.integers(-9, 9, memory.size).astype(np.float32)
    places = random.integers(1, memory.size, 40 * BESIDE).astype(np.int32)
    before = before.copy()
    with loops(width) as code:
        getattr(code, name)(memory.ctypes.data, places.ctypes.data, places.size // BESIDE, 3)
    expected = before + 3 * np.bincount(places, minlength=memory.size)
    np.testing.assert_array_equal(memory[BESIDE:], expected[BESIDE:])  # the first keep the loop's sums


def test_vectors_are_stored_where_places_say(width, random):
    memory = buffer(1 << 12).view(np.float32)[:1024].reshape(-1, width // 4)
    memory[:] = np.nan
    memory[0] = random.standard_normal(width // 4)
    places = random.permutation(len(memory)).astype(np.int32)[: 3 * BESIDE]
    with loops(width) as code:
        code.scatter(memory.ctypes.data, places.ctypes.data, 3, 1)
    np.testing.assert_array_equal(memory[places], np.broadcast_to(memory[0], (3 * BESIDE, width // 4)))
    assert np.isnan(memory[np.setdiff1d(np.arange(1, len(memory)), places)]).all()


def test_lanes_are_stored_to_rows(width, random):
    memory, lanes = buffer(1 << 14).view(np.float32), width // 4
    memory[:] = np.nan
    memory[:lanes] = values = random.standard_normal(lanes).astype(np.float32)
    values = values.copy()
    with loops(width) as code:
        code.store_apart(memory.ctypes.data, 2, 1)
    columns = np.arange(2 * BESIDE)
    for lane in range(1, lanes):
        np.testing.assert_array_equal(memory[ROW * lane + columns], np.full(2 * BESIDE, values[lane]))


def test_costs_are_those_of_the_model(width):
    """Each cost has a name of the model's, is a number of cycles, and farther memory never costs less than none."""
    near, middle, far = (buffer(size) for size in (8 << 10, 1 << 21, 1 << 22))
    with loops(width) as code:
        seen = []

        def cycles(loop, values):
            seen.append(loop)
            addresses = [value if isinstance(value, int) else value.ctypes.data for value in values]
            loop(*addresses, 1)
            return 1000.0 * len(seen)

        costs = AccessMeasurement(code, cycles, width, near, middle, far, 1 << 20).costs()
    assert set(costs) == set(OF_ACCESSES) <= {field.name for field in fields(CoreCosts)}
    assert all(np.isfinite(value) and value >= 0 for value in costs.values())
    assert all(loop in seen for loop in (code.apart, code.found, code.masked, code.across, code.atomic, code.gather))


@pytest.mark.parametrize(("followed", "each", "expected"), [(4, 0.2, 4), (8, 0.2, 8), (16, 0.2, 16), (16, 0.01, 8)])
def test_rows_that_prefetchers_follow_are_found_by_what_more_of_them_lose(followed, each, expected):
    """Where nothing is lost, as many are taken as usual."""

    class Core(AccessMeasurement):
        def _beside(self, memory, count):
            return 10 + each * max(0, count - followed)

    core = Core(None, None, 64, None, None, None, 0)
    assert core._streams(None, 10.0, core._beside(None, 32) - 10) == expected


@pytest.mark.parametrize(("own", "gradual"), [(0.6, 0.33), (1.0, 0.2), (1.1, 0.4), (0.8, 0.1)])
def test_the_part_of_level_2_that_is_kept_is_found_by_what_is_lost(own, gradual):
    """A core whose level 2 loses what was read before as the model says, by what else was read since."""
    shared, near, beyond = 1 << 20, 1.0, 2.5

    class Core(AccessMeasurement):
        def _read(self, memory, lines, loop=None, count=8):
            if lines.ndim == 1:
                return near if lines.size * LINE < shared // 2 else beyond
            again = int(np.sum(lines[0] == lines[1]))
            lost = part_lost(lines.shape[1] * LINE, own * shared, gradual)
            return (again * (near + lost * (beyond - near)) + (lines.shape[1] - again) * beyond) / lines.shape[1]

    found = Core(None, None, 64, None, None, None, shared)._of_streaming()
    assert found["own"] == pytest.approx(own, abs=0.05)
    assert found["gradual"] == pytest.approx(gradual, abs=0.15)


def test_the_part_of_level_2_is_as_usual_where_nothing_tells_what_is_lost():
    class Core(AccessMeasurement):
        def _read(self, memory, lines, loop=None, count=8):
            return 2.0

    found = Core(None, None, 64, None, None, None, 1 << 20)._of_streaming()
    assert found == {"own": CoreCosts.own, "gradual": CoreCosts.gradual}


@pytest.mark.parametrize("name", ["straight", "straight_past"])
def test_straight_code_stores_the_ends_of_chains(width, name):
    """Each multiplies by a half and adds it; where the address is not aligned, stores are ordinary ones."""
    lanes, blocks = width // 4, 3
    for offset in (0, 1):
        memory = buffer(1 << 12).view(np.float32)
        memory[:] = np.nan
        vectors = memory[offset : offset + (blocks * LOADED_VECTORS + 1) * lanes].reshape(-1, lanes)
        vectors[0] = 0.5
        with loops(width) as code:
            getattr(code, name)(vectors.ctypes.data, blocks, 1)
        links = [0.5]
        for _ in range(LINKS + blocks):
            links.append(links[-1] * 0.5 + 0.5)
        expected = np.repeat(links[LINKS : LINKS + blocks], LOADED_VECTORS).astype(np.float32)
        np.testing.assert_array_equal(vectors[1:-1, 0], expected[1:])  # the loop's own sums are in the first
        assert np.isnan(vectors[-1]).all()


def test_narrow_lanes_are_moved_by_themselves(width, random):
    memory, lanes = buffer(1 << 14).view(np.uint16), width // 4
    memory[:] = random.integers(0, 1 << 16, memory.size)
    before = memory.copy()
    with loops(width) as code:
        code.apart_narrow(memory.ctypes.data, 1, 1)
    rows = np.arange(lanes) * ROW + BESIDE - 1
    np.testing.assert_array_equal(memory[:lanes], before[rows])  # the last of its sums
    memory[:] = before
    with loops(width) as code:
        code.store_apart_narrow(memory.ctypes.data, 1, 1)
    for lane in range(lanes):
        np.testing.assert_array_equal(memory[ROW * lane :][:BESIDE], np.full(BESIDE, before[lane]))


def test_large_arrays_are_parts_of_one_that_is_written_once():
    memory = LargeMemory()
    (whole,) = memory.arrays(LARGE)
    parts = memory.arrays(LARGE // 2, 2)
    small = memory.arrays(LARGE // 4, 2)
    assert [part.nbytes for part in parts] == [LARGE // 2] * 2
    assert [part.ctypes.data - whole.ctypes.data for part in parts] == [0, LARGE // 2]
    assert whole.ctypes.data % 64 == 0
    assert not any(np.shares_memory(part, whole) for part in small)
    assert not np.shares_memory(*small)
