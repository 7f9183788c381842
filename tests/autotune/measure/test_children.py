"""A worker that has done one task does the next."""

from __future__ import annotations

import pytest

from tests.autotune.measure.test_bench import EFFORT, GOOD, HERE, SCALED, bad, own_cache
from vkernels.autotune.measure import Bench, BenchOptions, Children, Failed, Measurement
from vkernels.inspect.task import Task

assert own_cache
ADDED = Task(f"{HERE}:added", {"N": 5000}, {"x": "float32", "total": "float32"})


@pytest.mark.slow
def test_the_next_task_has_the_same_worker_unless_the_last_one_took_it_along():
    with Children() as children:
        with Bench(SCALED, "cpu:cores=1", BenchOptions(EFFORT), children) as bench:
            assert isinstance(bench.measure(GOOD), Measurement)
            first = bench._child
        with Bench(ADDED, "cpu:cores=1", BenchOptions(EFFORT), children) as bench:
            assert isinstance(bench.measure(GOOD), Measurement)
            assert bench._child is first
        with Bench(SCALED, "cpu:cores=1", BenchOptions(EFFORT), children) as bench:
            assert isinstance(bench.measure(bad("crash")), Failed)
        assert children.take(bench.place.cores) is None
        with Bench(SCALED, "cpu:cores=1", BenchOptions(EFFORT), children) as bench:
            assert isinstance(bench.measure(GOOD), Measurement)
            last = bench._child
            assert last is not first
    assert last is not None
    assert not last.alive
