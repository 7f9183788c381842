"""The default search on spaces measured on six GPUs, each as if it were new: what docs/searches.md tells of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vkernels.autotune.drive import Stop, drive
from vkernels.autotune.history import best_of_neighbours
from vkernels.autotune.recordings import RecordedSpace, read_recording
from vkernels.autotune.searches import DEFAULT_SEARCH, SEARCHES

DATA = Path(__file__).parents[3] / "shared" / "data" / "tuning_spaces"
REPEATS = 9
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="needs ../shared/data/tuning_spaces")


def means(recordings: list[RecordedSpace], seeded: bool, mark: int) -> float:
    """The mean over devices of the median of the optimum's time over that of the best point found."""
    scores = []
    for recording in recordings:
        others = [other.outcomes for other in recordings if seeded and other is not recording]
        seeds = best_of_neighbours(recording.space, others)
        found = []
        for seed in range(REPEATS):
            search = SEARCHES[DEFAULT_SEARCH](recording.space, seed=seed, seeds=seeds, elsewhere=others)
            drive(search, recording.measure, Stop(evaluations=mark))
            found.append(recording.optimum / search.best.seconds if search.best else 0.0)
        scores.append(np.median(found))
    return float(np.mean(scores))


@needs_data
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("seeded", "mark", "bar"),
    [(True, 25, 0.94), (True, 50, 0.94), (True, 200, 0.98), (False, 50, 0.77), (False, 200, 0.95)],
)
def test_the_default_search_reaches_its_bars_on_six_gpus(seeded: bool, mark: int, bar: float) -> None:
    recordings = [read_recording(path) for path in sorted(DATA.glob("convolution-*.json.gz"))]
    assert means(recordings, seeded, mark) >= bar
