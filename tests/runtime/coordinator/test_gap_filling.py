"""Calls of low priority go into predicted gaps, on a device with its own clock that runs one launch after another."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from tests.library.reference import fresh_seed
from vkernels.runtime.coordinator.filling_calls import Waiting, best_fit
from vkernels.runtime.coordinator.gap_filling import (
    CHUNK,
    LONGEST_PATIENCE,
    LONGEST_WAIT,
    MOST_OUT,
    PATIENCE,
    SHORT,
    GapFilling,
)
from vkernels.runtime.coordinator.launch_profile import SAMPLES, LaunchProfile


def profile(seconds: float, gap: float | None = None) -> LaunchProfile:
    found = LaunchProfile([seconds] * SAMPLES)
    if gap is not None:
        found.gaps = [gap] * SAMPLES
    return found


class Device:
    """Runs launches in order. `now`: the host's clock; `free`: when the last launch ends."""

    def __init__(self) -> None:
        self.now = self.free = 0.0

    def mark(self) -> Passed:
        return Passed(self, max(self.now, self.free))

    def launch(self, seconds: float) -> tuple[Passed, Passed]:
        begin = self.mark()
        self.free = max(self.now, self.free) + seconds
        return begin, self.mark()


@dataclass
class Passed:
    device: Device
    at: float

    def query(self) -> bool:
        return self.device.now >= self.at

    def elapsed_time(self, end_event: Passed) -> float:
        return 1e3 * (end_event.at - self.at)


class Host:
    """One thread at a time on a clock that stands still, but for waits: `filling` asks who may start at each look."""

    def __init__(self) -> None:
        self.device = Device()
        self.filling = GapFilling(lambda: self.device.now)
        self.high = self.filling.enter()

    def call(self, found: LaunchProfile, seconds: float) -> None:
        self.filling.begin_upper(self.high)
        self.filling.end_upper(self.high, found, *self.device.launch(seconds))

    def queue(self, *calls: Waiting) -> None:
        for call in calls:
            call.since = self.device.now
            self.filling._queue.append(call)

    def may_start(self, call: Waiting, at: float | None = None) -> int:
        self.device.now = self.device.now if at is None else at
        return self.filling._units_for(call, self.device.now)

    def start(self, call: Waiting, units: int, seconds: float) -> None:
        self.filling._queue.remove(call)
        self.filling.started(call, units, *self.device.launch(seconds))


def test_a_call_waits_for_the_gap_and_for_one_that_it_fits_into():
    host = Host()
    fits, too_long = Waiting(profile(4e-4), 1, False), Waiting(profile(9e-4), 1, False)
    host.queue(too_long, fits)
    host.call(profile(1e-3, gap=1e-3), 1e-3)
    for at in (0.0, 5e-4, 0.99e-3):
        assert not host.may_start(fits, at)
    assert not host.may_start(too_long, 1.01e-3)
    assert host.may_start(fits) == 1
    assert not host.may_start(fits, 1.7e-3), "it would end after the gap"


def test_of_those_that_fit_the_longest_goes():
    short, long, longer = (Waiting(profile(seconds), 1, False) for seconds in (1e-4, 3e-4, 2e-3))
    assert best_fit([short, longer, long], 1e-3) is long
    assert best_fit([short, longer], 1e-3) is short
    assert best_fit([longer], 1e-3) is None
    unknown = Waiting(LaunchProfile(), 1, False)
    assert best_fit([unknown], 1e-3) is None


def test_a_call_that_fits_starts_at_once_but_not_before_those_that_wait():
    host = Host()
    first, second = (Waiting(profile(1e-4), 1, False) for _ in range(2))
    host.call(profile(1e-3, gap=1e-3), 1e-3)
    assert not host.filling.start_at_once(first), "no gap yet"
    host.device.now = 1.01e-3
    host.queue(first)
    assert not host.filling.start_at_once(second)
    host.start(first, 1, 1e-4)
    assert host.filling.start_at_once(second) == 1
    assert not host.filling.start_at_once(Waiting(profile(1e-4), 1, False)), "another one is being started"
    assert host.filling._queue == []


def test_what_is_predicted_follows_the_samples():
    found = LaunchProfile()
    assert found.seconds is None
    for number in range(1, 5):
        found.note_duration(number * 1e-3)
    assert found.seconds == 3e-3
    found.recall([5e-3] * SAMPLES, [])
    assert found.seconds == 5e-3


def test_a_long_call_is_started_in_as_many_units_as_fit():
    host = Host()
    call = Waiting(profile(1e-4), 100, True)
    host.queue(call)
    host.call(profile(1e-3, gap=1e-3), 1e-3)
    assert host.may_start(call, 1.0e-3) == 7  # 0.99 ms over 1.25 × 0.1 ms
    assert host.may_start(call, 1.5e-3) == 3
    whole = Waiting(profile(1e-4), 100, False)
    assert whole.fitting(1e-3) == 0


def test_a_call_of_higher_priority_stops_filling_at_once_and_waits_for_what_is_out():
    host = Host()
    low, high = profile(1.2e-4), profile(1e-3, gap=1e-3)
    host.call(high, 1e-3)
    host.device.now = 1e-3
    for _ in range(MOST_OUT):
        call = Waiting(low, 10, True)
        host.queue(call)
        assert host.may_start(call)
        host.start(call, 1, 1.2e-4)
    blocked = Waiting(low, 10, True)
    host.queue(blocked)
    assert not host.may_start(blocked), "enough is out"
    host.device.now = 1.05e-3
    host.filling.begin_upper(host.high)
    assert not host.may_start(blocked, 1.5e-3), "nothing is out, but a call has come"
    host.filling.end_upper(host.high, high, *host.device.launch(1e-3))
    assert not host.may_start(blocked, 1.6e-3)
    assert host.may_start(blocked, 2.6e-3)


def test_more_short_calls_are_out_than_long_ones():
    host = Host()
    short, high = profile(3e-5), profile(1e-3, gap=1e-3)
    host.call(high, 1e-3)
    host.device.now = 1e-3
    started = 0
    while True:
        call = Waiting(short, 1, False)
        host.queue(call)
        if not host.may_start(call):
            break
        host.start(call, 1, 3e-5)
        started += 1
    assert started == int(SHORT / 3e-5) + 1 > MOST_OUT


def test_who_waits_looks_again_when_something_may_have_changed():
    host = Host()
    host.call(profile(4e-4, gap=1e-3), 4e-4)
    assert host.filling._quiet_for(1e-4) == pytest.approx(3e-4)  # until the call is predicted to end
    assert host.filling._quiet_for(5e-4) == PATIENCE
    host.call(profile(1.0, gap=1e-3), 1.0)
    assert host.filling._quiet_for(1e-4) == LONGEST_PATIENCE


def test_what_a_gap_will_be_is_seen_from_how_long_it_is_already():
    found = LaunchProfile([1e-4] * SAMPLES, sorted([1e-4] * 10 + [1e-2] * 10))
    assert found.gap_after(0.0) == 1e-4
    assert found.gap_after(2e-4) == 1e-2
    assert found.gap_after(5e-3) == 1e-2
    assert found.gap_after(2e-2) is None
    even = LaunchProfile([1e-4] * SAMPLES, [1e-3 + 1e-4 * number for number in range(SAMPLES)])
    assert even.gap_after(0.0) == even.gaps[1]
    assert even.gap_after(1.55e-3) == 1.55e-3, "the next call is due"


def test_who_is_away_keeps_nobody_waiting_and_calls_are_cut_for_when_he_comes_back():
    host = Host()
    call, whole = Waiting(profile(1e-4), 100, True), Waiting(profile(0.1), 1, False)
    host.queue(call, whole)
    host.call(profile(1e-3, gap=1e-3), 1e-3)
    assert host.may_start(call, 2.5e-3) == int(CHUNK / 1e-4)
    assert host.may_start(whole) == 1
    assert host.may_start(call, 5.0) == 100, "after a second nobody is there"


def test_everybody_progresses():
    """Beside calls without gaps, the one that waits for longest starts a unit after the longest wait."""
    host = Host()
    first, second = (Waiting(profile(1e-3), 5, True) for _ in range(2))
    host.queue(first, second)
    host.call(profile(10.0, gap=0.0), 10.0)
    assert not host.may_start(first, 0.99 * LONGEST_WAIT)
    assert (host.may_start(second, LONGEST_WAIT), host.may_start(first)) == (0, 1)
    assert host.filling.stats().overdue == 1


def test_profiles_are_measured_without_company_and_then_stay():
    host, high, low = Host(), LaunchProfile(), profile(1e-4)
    for number in range(SAMPLES + 5):
        host.call(high, 1e-3)
        host.device.now = host.device.free + 2e-3
        if number % 2:
            call = Waiting(low, 1, False)
            host.queue(call)
            host.start(call, 1, 5e-3)
            host.device.now = host.device.free
        host.filling._look(host.device.now)
    assert not high.is_frozen, "every other call had company"
    assert {round(seconds, 6) for seconds in high.durations} == {1e-3}
    assert {round(seconds, 6) for seconds in high.gaps} == {2e-3}
    for _ in range(2 * SAMPLES):
        host.call(high, 1e-3)
        host.device.now = host.device.free + 2e-3
        host.filling._look(host.device.now)
    assert high.is_frozen
    before = high.durations[:]
    high.note_duration(1.0)
    assert high.durations == before


def test_a_failed_call_leaves_no_trace():
    host = Host()
    host.filling.begin_upper(host.high)
    host.filling.end_upper(host.high, LaunchProfile(), None, None)
    call = Waiting(profile(1e-4), 1, False)
    host.queue(call)
    assert not host.may_start(call, 1e-3)
    assert host.may_start(call, 0.5), "whose gaps are not known is away after a while"
    host.filling._starting = True
    host.filling.started(call, 1, None, None)
    assert not host.filling._out
    assert host.may_start(call)


def test_a_call_that_is_interrupted_while_it_waits_does_not_keep_its_place(monkeypatch: pytest.MonkeyPatch):
    host = Host()
    host.call(profile(10.0, gap=0.0), 10.0)
    monkeypatch.setattr(host.filling._changed, "wait", lambda seconds: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        host.filling.wait_for_gap(Waiting(profile(1e-3), 1, False))
    assert host.filling._queue == []


def test_nothing_more_starts_while_something_takes_longer_than_predicted():
    host = Host()
    host.call(profile(1e-3, gap=0.1), 1e-3)
    host.device.now = 1e-3
    first, second = (Waiting(profile(1e-3), 1, False) for _ in range(2))
    host.queue(first, second)
    assert host.may_start(first)
    host.start(first, 1, 50e-3)
    assert not host.may_start(second, 2.5e-3), "half as long again as it should take"
    assert not host.may_start(second, 50e-3)
    assert host.may_start(second, 51.1e-3)


@pytest.mark.parametrize("took", [1e-4, 5e-3])
def test_durations_are_measured_again_where_they_are_not_as_predicted(took: float):
    found = profile(1e-3)
    for seconds in (took, 1.1e-3, 0.9e-3, 1.8e-3, took, took):
        found.note_duration(seconds)
    assert found.seconds == 1e-3
    found.note_duration(took)
    assert found.seconds == took
    assert len(found.durations) == 3


@pytest.mark.parametrize("wrong", [1.0, 3.0, 50.0])
def test_a_call_waits_for_no_more_than_what_may_be_out_even_where_profiles_are_wrong(wrong: float):
    """Random calls, gaps and units: what a call of high priority waits for is at most what was out when it came."""
    chance = random.Random(fresh_seed())
    host, unit = Host(), 1e-4
    low, gaps = profile(unit), [chance.uniform(5e-4, 3e-3) for _ in range(200)]
    high = profile(1e-3)
    high.gaps = sorted(gaps)[:: len(gaps) // SAMPLES]
    filled = late = 0
    for gap in gaps:
        came = host.device.now
        waited = max(0.0, host.device.free - came)
        assert waited <= (SHORT / unit + 30) * unit * wrong, "what may be out at once, each as long as it takes"
        late += waited > 0
        host.call(high, 1e-3)
        ends = host.device.free + gap
        while host.device.now < ends:
            call = Waiting(low, 30, True)
            host.queue(call)
            if units := host.may_start(call):
                filled += units
                host.start(call, units, units * unit * wrong)
            else:
                host.filling._queue.remove(call)
            host.device.now += PATIENCE
    assert late <= 0.2 * len(gaps), "gaps are predicted to be the 10th percentile, and wrong durations measured again"
    assert low.seconds == pytest.approx(wrong * unit)
    assert filled > (200 if wrong * unit < max(gaps) else 0)
