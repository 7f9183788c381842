"""Rules that release and wake nodes never leave work without nodes, and read nothing of the future."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkernels.farm.nodes import SLOT_SECONDS, Ces, Demand, RecentPeak, Rule, demand_of, reactive, replay
from vkernels.farm.traces import NodeCount
from vkernels.ir.errors import OptionError

TOTAL = 100


def demand(active) -> Demand:
    return Demand(np.arange(len(active)), np.array(active), np.full(len(active), TOTAL))


def yesterday(of: Demand) -> Callable[[int], np.ndarray]:
    """A forecast that reads only what was: the last slots again."""
    return lambda now: np.resize(of.active[max(0, now - 10) : now + 1], 60).astype(float)


RULES: dict[str, Callable[[Demand, int], Rule]] = {
    "ces": lambda of, buffer: Ces(of, buffer, yesterday(of)),
    "ours": lambda of, buffer: RecentPeak(of, buffer),
    "reactive": reactive,
}
rules = st.sampled_from(sorted(RULES))
actives = st.lists(st.integers(0, TOTAL), min_size=12, max_size=60)


@given(actives, rules, st.integers(0, 20))
def test_all_work_has_nodes_and_no_more_are_on_than_there_are(active, name, buffer):
    of = demand(active)
    found = replay(of, RULES[name](of, buffer), 2, len(active) - 2)
    assert (found.on >= of.active[2:]).all()
    assert (found.on <= TOTAL).all()
    assert found.short <= found.wakes
    assert found.wakes == (np.diff(found.on)[5:] > 0).sum()


@given(actives, rules, st.integers(0, 20), st.integers(3, 11), st.data())
def test_nodes_on_do_not_depend_on_what_comes_later(active, name, buffer, cut, data):
    other = active[:cut] + data.draw(
        st.lists(st.integers(0, TOTAL), min_size=len(active) - cut, max_size=len(active) - cut)
    )
    on = [
        replay(of, RULES[name](of, buffer), 2, len(active) - 2).on[: cut - 2] for of in (demand(active), demand(other))
    ]
    assert on[0].tolist() == on[1].tolist()


@pytest.mark.parametrize("name", sorted(RULES))
def test_steady_work_needs_its_buffer_and_no_wake_ups(name):
    of = demand([50] * 40)
    found = replay(of, RULES[name](of, 10), 2, 38)
    assert found.on.tolist() == [60] * 38
    assert (found.short, found.wakes) == (0, 0)
    assert found.utilisation == pytest.approx(50 / 60)


def test_a_rise_beyond_the_buffer_is_short_once_and_wakes_several_buffers():
    of = demand([50] * 20 + [65, 70, 75] + [70, 60, 55, 50, 45, 40, 35, 30])
    found = replay(of, RecentPeak(of, 10, window=4, fall=0.0), 2, len(of.slot) - 2)
    assert (found.short, found.wakes) == (1, 1)
    assert found.on[18:22].tolist() == [65 + 2 * 10] * 4
    assert found.on[-3:].tolist() == [73, 68, 63]  # a third of what is beyond 60 and 55 goes at last


@given(actives, st.integers(0, 20), st.integers(2, 5))
def test_rules_do_not_depend_on_how_large_a_cluster_is(active, buffer, times):
    small, large = (
        Demand(np.arange(len(active)), np.array(active) * scale, np.full(len(active), TOTAL * scale))
        for scale in (1, 1000 * times)
    )
    one = replay(small, RecentPeak(small, buffer, falling=0), 2, len(active) - 2)
    other = replay(large, RecentPeak(large, 1000 * times * buffer, falling=0), 2, len(active) - 2)
    assert (np.abs(other.on / (1000 * times) - one.on) <= 3).all()  # whole nodes are rounded


def test_counts_are_gathered_by_their_peak_and_gaps_are_left_out():
    counts = [NodeCount(0.0, 3, 9), NodeCount(60.0, 5, 8), NodeCount(7.0 * SLOT_SECONDS, 1, 9)]
    found = demand_of(counts)
    assert (found.slot.tolist(), found.active.tolist(), found.total.tolist()) == ([0, 7], [5, 1], [9, 9])


@pytest.mark.parametrize(("start", "slots"), [(0, 5), (2, 0), (5, 10)])
def test_slots_must_exist(start, slots):
    of = demand([1] * 12)
    with pytest.raises(OptionError, match="expected slots"):
        replay(of, RecentPeak(of, 1), start, slots)
