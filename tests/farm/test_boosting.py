"""Trees correct averages where these miss something, and leave them alone where they do not."""

from __future__ import annotations

import numpy as np
import pytest

from vkernels.farm.boosting import FIRST_FIT, Boosted
from vkernels.farm.history import History
from vkernels.farm.jobs import Job

KERNELS, SHAPES, SLICES = 8, 30, 3


@pytest.fixture
def random(request):
    seed = int(np.random.default_rng().integers(1 << 31))
    print(f"seed {seed}")
    return np.random.default_rng(seed)


def jobs(random, count: int, slice_matters: bool) -> list[Job]:
    """Of kernels and slices, whose effects multiply; most kinds are new, so averages of groups know no slice."""
    of_kernel = random.uniform(1, 3, KERNELS)
    found = []
    for _ in range(count):
        kernel, shape, slice = (int(random.integers(most)) for most in (KERNELS, SHAPES, SLICES))
        seconds = np.exp(of_kernel[kernel] + 1.5 * slice * slice_matters + random.normal(0, 0.1))
        kind = (f"kernel{kernel}", f"shape{shape}", f"slice{slice}")
        found.append(Job(0.0, float(seconds), "ann", kind))
    return found


def errors(forecast, some: list[Job], judged: int) -> np.ndarray:
    """Of the last jobs, each predicted before it is learnt from."""
    found = []
    for number, job in enumerate(some):
        if number >= len(some) - judged:
            found.append(abs(np.log(forecast.predict(job) / job.seconds)))
        forecast.add(job)
    return np.array(found)


def test_trees_know_a_slice_that_averages_of_a_new_shape_do_not(random):
    some = jobs(random, 350, slice_matters=True)
    plain, boosted = (errors(forecast, some, 100) for forecast in (History(), Boosted()))
    assert boosted.mean() < 0.7 * plain.mean()


def test_where_trees_are_no_better_averages_predict(random):
    some = [Job(0.0, float(np.exp(random.normal())), "ann", ("a kernel",)) for _ in range(300)]
    plain, boosted = (errors(forecast, some, 230) for forecast in (History(), Boosted()))
    assert boosted.mean() < 1.08 * plain.mean()


def test_until_enough_jobs_have_ended_averages_predict(random):
    some = jobs(random, FIRST_FIT, slice_matters=True)
    assert errors(Boosted(), some, FIRST_FIT).tolist() == errors(History(), some, FIRST_FIT).tolist()
    assert not Boosted().is_filled


def test_names_beyond_the_kept_and_never_seen_are_predicted(random):
    forecast = Boosted()
    some = jobs(random, 200, slice_matters=True)
    for number, job in enumerate(some):
        forecast.add(Job(0.0, job.seconds, f"user{number}", job.kind))
    assert forecast.uses_trees
    assert 0 < forecast.predict(Job(0.0, 1.0, "somebody", ("new", "new", "new"))) < np.inf
