"""Pauses are logged by the threads that pause, while somebody asks, and stand in traces on the tracks of these."""

import sys
import threading
import time

import pytest

from tests.runtime.coordinator.test_pools_of_priorities import Pools, of_python
from vkernels.runtime.coordinator import pause_log
from vkernels.runtime.coordinator.pause_log import Pause, PauseLog, logging_pauses
from vkernels.runtime.pool import is_native, this_thread
from vkernels.runtime.pool_board_ir import BELLS, HIGH, LOW, PAUSED
from vkernels.runtime.tracing import Trace, tracing

pytestmark = pytest.mark.skipif(not is_native(), reason="no native pool here")
priorities = sys.modules["vkernels.runtime.coordinator.priority"]  # the package has a function of this name


@pytest.fixture
def pools():
    """Pools of one core."""
    pools = Pools(cores=1)
    yield pools
    pools.pool.stop()


def pause_once(pools):
    """Let a short call of low priority in this thread pause for one of high priority; returns begin and end of both."""
    is_begun = threading.Event()

    def wait_for_pause(_):
        is_begun.set()
        while not pools.board._words[BELLS + 8 * LOW + PAUSED]:
            time.sleep(0.001)

    high, _kept = of_python(wait_for_pause, 1, 1)
    low, _kept_too = of_python(lambda p: None, 4, 1)
    low.set_seconds(1e-4)  # it stays with its caller
    thread = threading.Thread(target=pools.run, args=(high, HIGH))
    thread.start()
    assert is_begun.wait(30)
    start = time.perf_counter()
    pools.run(low, LOW)
    thread.join(60)
    return start, time.perf_counter()


def test_a_pause_is_logged_with_its_thread_and_times(pools):
    log = PauseLog()
    pools.board.log_pauses(log.address)
    start, end = pause_once(pools)
    first, *_ = log.pauses()
    assert (first.thread, first.priority) == (this_thread(), "low")
    assert start <= first.start < first.end <= end
    assert len(log.pauses()) == pools.board.stats(LOW).pauses
    assert log.left_out == 0
    log.clear()
    assert log.pauses() == []


def test_nothing_is_logged_when_nobody_asks(pools):
    log = PauseLog()
    pools.board.log_pauses(log.address)
    pools.board.log_pauses(0)
    pause_once(pools)
    assert log.pauses() == []
    assert pools.board.stats(LOW).pauses >= 1


def test_a_full_log_counts_what_it_leaves_out(pools):
    log = PauseLog(most=2)
    pools.board.log_pauses(log.address)
    for _ in range(4):
        pause_once(pools)
    assert len(log.pauses()) == 2
    assert log.left_out == pools.board.stats(LOW).pauses - 2 >= 2


def test_the_innermost_block_logs_also_what_begins_later(pools, monkeypatch):
    monkeypatch.setattr(priorities, "_board", pools.board)
    with logging_pauses() as outer:
        with logging_pauses() as inner:
            pause_once(pools)
            assert inner.pauses()
            assert outer.pauses() == []
        pause_once(pools)
        assert outer.pauses()
    pause_once(pools)
    assert pools.board._words[7] == 0
    with logging_pauses() as again:
        assert again in (outer, inner)  # memory is used again
        assert again.pauses() == []
    assert len(pause_log._spare) >= 2


def test_a_board_made_while_pauses_are_logged_logs_them(monkeypatch):
    monkeypatch.setattr(priorities, "_board", None)
    monkeypatch.setattr(priorities, "on_new_pool", lambda join: None)
    with logging_pauses() as log:
        assert priorities._the_board()._words[7] == log.address
        assert log.address != 0


def test_pauses_stand_on_the_tracks_of_their_threads(pools, monkeypatch):
    monkeypatch.setattr(priorities, "_board", pools.board)
    with tracing() as trace:
        trace._thread()  # as a call of this thread would
        pause_once(pools)
    spans = [span for span in trace.spans if span.kind == "pause"]
    assert spans
    assert {trace.threads[span.thread] for span in spans} == {threading.current_thread().name}
    assert spans[0].about == {"priority": "low"}
    event = next(each for each in trace.as_json()["traceEvents"] if each["name"] == "pause")
    assert event["cat"] == "vkernels,pause"
    assert event["dur"] > 0


def test_helpers_have_tracks_of_their_own_and_addresses_may_be_used_again():
    trace = Trace()
    trace._native = {5: [(1.0, 7), (3.0, 8)]}
    trace.threads = {7: "first", 8: "second"}
    trace.paused([Pause(5, "low", 1.0, 2.0), Pause(5, "low", 3.5, 4.0), Pause(6, "low", 1.0, 2.0)], left_out=3)
    trace.paused([Pause(6, "low", 5.0, 6.0), Pause(5, "normal", 0.1, 0.2)])
    names = [trace.threads[span.thread] for span in trace.spans]
    assert names == ["first", "second", "helper of low priority", "helper of low priority", "helper of normal priority"]
    assert trace.spans[2].thread == trace.spans[3].thread
    assert trace.spans[0].about == {"priority": "low", "left_out": 3}
