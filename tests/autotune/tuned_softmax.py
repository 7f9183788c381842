"""Tuning of a softmax kernel, with a bench whose times are known."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache

import numpy as np

from vkernels.autotune.drive import Stop
from vkernels.autotune.measure import Candidate, FailureReason
from vkernels.autotune.plan_space import PlanSpace, read
from vkernels.autotune.result import TuningResult
from vkernels.autotune.tune import tune
from vkernels.ir.limits import Limits
from vkernels.library.tasks import library_tasks

from .fake_bench import FakeBench, Times

LIMITS = Limits(registers=16, register_bytes=32, shared=1 << 20, multiprocessors=1, cache=32 << 20)
(TASK,) = library_tasks(["softmax_rows"])
SLICE = "cpu:cores=1"


SIXTY = Stop(evaluations=60)


@cache
def one_space() -> PlanSpace:
    return read(TASK, LIMITS)


def landscape(space: PlanSpace, seed: int) -> Times:
    """Random seconds that each choice has a part in, with failures among them."""
    random = np.random.default_rng(seed)
    values = dict(zip(space.space.names, space.space.values, strict=True))
    parts = {name: random.uniform(0.5, 2.0, len(some)) for name, some in values.items()}
    broken = {point for point in space.space.listed if random.random() < 0.1} - {space.default}

    def times(candidate: Candidate) -> float | FailureReason:
        point = space.point(candidate.plan, candidate.constants or None)
        assert point is not None
        if point in broken:
            return FailureReason.COMPILE_ERROR
        named = space.space.named(point)
        return 1e-3 * float(np.prod([parts[name][values[name].index(named[name])] for name in values]))

    return times


def tuned(bench: FakeBench, stop: Stop = SIXTY, **more) -> TuningResult:
    """`caches`: one setting unless said, so that each comparison of finalists is one."""
    return tune(TASK, SLICE, stop, bench=bench, space=one_space(), **{"caches": "cold", **more})


def key(candidate: Candidate) -> Hashable:
    return candidate.key
