"""Ceilings are measured by loops that do what they say."""

from __future__ import annotations

import numpy as np
import pytest

from vkernels.compiler.calibration_loops import LOADED_VECTORS, loops
from vkernels.sparse_network.bench.machine_peaks import measure_peaks
from vkernels.targets.host_cpu import cpu_limits

from ..library.reference import fresh_seed


def test_the_gathering_loop_adds_up_the_vectors_that_it_is_pointed_to():
    random = np.random.default_rng(fresh_seed())
    lanes = cpu_limits().register_bytes // 4
    memory = random.integers(0, 4, (20, lanes)).astype(np.float32)
    places = random.integers(0, 20, 3 * LOADED_VECTORS).astype(np.int32)
    expected = 2 * (memory[0] * memory[places[LOADED_VECTORS - 1 :: LOADED_VECTORS]]).sum(axis=0)
    with loops(4 * lanes) as code:
        code.gather(memory.ctypes.data, places.ctypes.data, 3, 2)
    np.testing.assert_array_equal(memory[0], expected)


@pytest.mark.parametrize("row", [2, 4])
def test_loops_of_longer_rows_add_up_all_their_vectors(row):
    random = np.random.default_rng(fresh_seed())
    lanes, count = cpu_limits().register_bytes // 4, LOADED_VECTORS // row
    memory = random.integers(0, 4, (20 + row, lanes)).astype(np.float32)
    places = random.integers(0, 20, 3 * count).astype(np.int32)
    last = places[count - 1 :: count] + row - 1  # of each block the last accumulator is kept
    expected = 2 * (memory[0] * memory[last]).sum(axis=0)
    with loops(4 * lanes) as code:
        getattr(code, f"gather_{row}")(memory.ctypes.data, places.ctypes.data, 3, 2)
    np.testing.assert_array_equal(memory[0], expected)


@pytest.mark.slow
def test_no_gather_is_faster_than_its_multiply_add():
    found = measure_peaks(1)
    assert found.copy > 0
    assert 0 < found.gathers <= found.multiply_adds
