"""Jobs as Hypothesis draws them."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from vkernels.farm.jobs import Job
from vkernels.farm.order import Bounded, Fifo, Policy, Qssf, Sjf, Srtf

MOST_CORES = 4
times = st.floats(0, 300, allow_nan=False)
durations = st.floats(0.01, 60, allow_nan=False)


@st.composite
def traces(draw: st.DrawFn) -> list[Job]:
    jobs = st.builds(
        Job,
        times,
        durations,
        st.sampled_from("abc"),
        st.tuples(st.sampled_from("xy"), st.sampled_from("12")),
        st.integers(1, MOST_CORES),
        st.floats(0.1, 10),
    )
    return sorted(draw(st.lists(jobs, min_size=1, max_size=30)), key=lambda job: job.arrival)


def policies() -> st.SearchStrategy[Policy]:
    turns = st.sampled_from([2.0, 7.0, 30.0, math.inf])
    return st.one_of(
        st.builds(Fifo),
        st.builds(Sjf),
        st.builds(Qssf),
        st.builds(Srtf, turns),
        st.builds(Bounded, turns, st.floats(1, 2000), st.sampled_from([0.0, 1.0, 2.0]), st.booleans()),
    )
