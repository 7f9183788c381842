"""Processes that call on one GPU: those of low priority fill the gaps of the others', within the bounds of one process.

Time is a number that they share, which only moves where a test says so.
"""

from __future__ import annotations

import os
import random
import threading
import time

import pytest

from tests.library.reference import fresh_seed
from tests.runtime.coordinator.device_processes import Other, Process, SharedDevice
from tests.runtime.coordinator.test_gap_filling import profile
from tests.runtime.coordinator.test_processes import Peer
from vkernels.runtime.coordinator import device_board, shared_board
from vkernels.runtime.coordinator.device_board import FIRST, PLACES, SIZE, UPPERS, WORDS, board_of
from vkernels.runtime.coordinator.filling_calls import UNKNOWN_GAP, Waiting
from vkernels.runtime.coordinator.gap_filling import (
    FRESH,
    LONGEST_WAIT,
    MOST_OUT,
    RECENT,
    STALE,
    THREADS_SHOWN,
    GapFilling,
)
from vkernels.runtime.coordinator.launch_profile import SAMPLES, LaunchProfile


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(shared_board, "FOLDERS", (str(tmp_path),))
    yield tmp_path
    for board in device_board._boards.values():
        board.close()
    device_board._boards.clear()


@pytest.fixture
def device():
    return SharedDevice()


@pytest.fixture
def other(device):
    """Forked before this process joins the board."""
    other = Other(device)
    yield other
    if other.process:
        other.kill()


def test_low_calls_wait_for_gaps_of_another_process(device, other):
    other.tell("begin")
    own, begin = Process(device), device.now
    own.wait()
    assert not own.take(), "a call is being started"
    other.tell("end")
    for after in (0.0, 5e-4, 1.2e-3):
        device.now = begin + after
        assert not own.take(), "it may still run"
    device.now = begin + 1.3e-3
    assert own.take() == 1
    own.start()
    own.wait("long", 9e-4)
    assert not own.take("long"), "it would end after the gap"
    device.now = begin + 3e-3
    assert own.take("long") == 1, "the other is away"
    own.start("long")
    other.tell("call")
    own.wait()
    assert not own.take()
    device.now += RECENT + 1e-2
    assert own.take() == 1, "nobody is there"


def test_a_process_that_sees_its_call_end_says_so(device, other):
    other.tell("call", seconds=1e-3, gap=5e-3)
    own, begin = Process(device), device.now
    own.wait()
    device.now = begin + 1.1e-3
    assert not own.take(), "it may take a quarter longer than predicted"
    other.tell("look")
    assert own.take() == 1


def test_a_killed_process_gives_back_the_device(device, other):
    other.tell("begin")
    own = Process(device)
    own.wait()
    assert not own.take()
    other.kill()
    assert own.take() == 1
    own.start()
    other.process = 0


@pytest.mark.parametrize("ending", ["seen", "predicted", "killed"])
def test_no_more_low_launches_are_out_than_of_one_process(device, other, ending):
    """Those of another process count until they should have ended, or it ended itself."""
    own = Process(device)
    own.call(1e-3, gap=50e-3)
    device.now += 2e-3
    for _ in range(MOST_OUT):
        other.tell("wait", seconds=1e-3)
        assert other.tell("take") == 1
        other.tell("start", seconds=1e-3)
    own.wait(seconds=1e-3)
    assert not own.take(), "enough is out"
    assert own.filling._others_out == MOST_OUT
    if ending == "killed":
        other.kill()
        other.process = 0
    else:
        device.now += MOST_OUT * 1e-3
        if ending == "seen":
            other.tell("look")
        own.look()
        assert own.filling._others_out == (0 if ending == "seen" else MOST_OUT)
    assert own.take() == 1
    own.start()
    device.now += STALE
    own.look()
    assert own.filling._others_out == 0


def test_only_one_process_at_once_decides_to_start(device, other):
    own = Process(device)
    own.wait()
    assert other.tell("lock")
    assert not own.take()
    other.kill()
    other.process = 0
    assert own.take() == 1, "the lock goes with its process"


def test_what_is_decided_counts_before_it_is_in_the_stream(device, other):
    other.tell("call", gap=50e-3)
    device.now += 2e-3
    own = Process(device)
    for number in range(MOST_OUT):
        own.wait(seconds=1e-3)
        assert own.take() == 1
        other.tell("wait", name=f"{number}", seconds=1e-3)
        if number == MOST_OUT - 1:
            assert not other.tell("take", name=f"{number}"), "the last one is being started"
        own.start(seconds=1e-3)


def test_everybody_progresses_and_who_waited_for_longest_goes_first(device, other):
    own = Process(device)
    own.begin()
    other.tell("wait", seconds=1e-3, units=5)
    device.now += 1e-3
    own.wait(seconds=1e-3, units=5)
    device.now += LONGEST_WAIT
    assert other.tell("take") == 1
    other.tell("start", seconds=1e-3)
    device.now += 1e-3
    other.tell("look")
    assert own.take() == 1
    assert own.filling.stats().overdue == 1


def test_a_call_that_waits_goes_after_one_that_waits_for_longer_in_another_process(device, other):
    own = Process(device)
    own.begin()
    other.tell("wait")
    device.now += 1e-3
    own.wait()
    device.now += LONGEST_WAIT - 2e-3
    assert not other.tell("take")
    device.now += 2.5e-3
    assert not own.take(), "the other one goes first"
    device.now += FRESH
    assert own.take() == 1, "the other one does not look any more"


def test_threads_mark_their_calls_while_any_process_has_low_priority(device, other):
    own = Process(device)
    assert not own.has_low()
    other.tell("wait")
    other.tell("take")
    assert own.has_low()
    device.now += RECENT
    assert not own.has_low()


def test_profiles_are_measured_without_launches_of_other_processes(device, other):
    own, high = Process(device), LaunchProfile()

    def call():
        own.begin()
        own.filling.end_upper(own.high, high, *device.launch(1e-3))
        device.now += 3e-3
        own.look()

    for _ in range(SAMPLES):
        call()
        device.now += UNKNOWN_GAP
        other.tell("wait", seconds=1e-4)
        assert other.tell("take") == 1
        other.tell("start", seconds=5e-3)
        device.now += 10e-3
        other.tell("look")
    assert len(high.durations) <= 1
    for _ in range(SAMPLES + 2):
        call()
    assert high.is_frozen
    assert {round(seconds, 6) for seconds in high.durations} == {1e-3}
    assert {round(gap, 6) for gap in high.gaps} == {2e-3}


def test_more_threads_than_places_share_the_last(device, other):
    own, begin = Process(device), device.now
    own.wait()
    uppers = [own.filling.enter() for _ in range(2 * THREADS_SHOWN)]
    for upper in uppers:
        own.filling.begin_upper(upper)
    assert sorted({upper.slot for upper in uppers}) == list(range(UPPERS))
    other.tell("wait")
    assert not other.tell("take")
    for upper in uppers:
        own.filling.end_upper(upper, profile(1e-3, 1e-3), None, None)
    device.now = begin + RECENT
    own.look()
    assert {upper.slot for upper in uppers} == {None}
    assert other.tell("take") == 1


def test_words_that_make_no_sense_cost_launches_only(device, other):
    own, chance = Process(device), random.Random(fresh_seed())
    own.wait(units=3)
    for _ in range(50):
        for place in range(3):
            if place != own.board._own:
                at = FIRST + WORDS * place
                own.board._words[at : at + WORDS] = [
                    chance.choice([0, 1, 2, -1, chance.getrandbits(62), round(device.now * 1e9)]) for _ in range(WORDS)
                ]
        assert own.take() in range(4)
        own.filling._starting = False
        device.now += 1e-3
    device.now += 1e12
    assert own.take()


def test_a_child_has_a_place_of_its_own(device):
    own = Process(device)
    child = Other(device)
    child.tell("begin")
    own.wait()
    assert not own.take()
    child.tell("end", seconds=1e-3, gap=1e-3)
    device.now += 1.3e-3
    assert own.take() == 1
    own.start()
    child.end()


def test_a_device_without_a_name_or_board_is_shared_within_the_process_only(monkeypatch, tmp_path, caplog):
    monkeypatch.setattr(shared_board, "FOLDERS", (str(tmp_path / "absent"),))
    assert board_of("some device") is None
    assert "do not reach other processes" in caplog.text
    assert SIZE == 8 * (FIRST + PLACES * WORDS)


@pytest.mark.parametrize(
    "number", [pytest.param(20, marks=pytest.mark.slow), pytest.param(1000, marks=pytest.mark.thorough)]
)
def test_no_process_waits_forever_beside_others_that_are_killed(device, number):
    """Threads of all priorities in three processes, on a clock that goes on; a fourth is killed again and again."""
    seed = fresh_seed()
    clock = time.perf_counter

    class Real(SharedDevice):
        now = property(lambda self: clock(), lambda self, value: None)

    device = Real()

    def work(name, calls):
        filling, failures = GapFilling(clock, board_of("some device")), []
        known = profile(2e-4), profile(1e-3, 2e-3)

        def call(thread):
            chance, upper = random.Random(f"{seed} {name} {thread}"), filling.enter()
            for _ in range(calls):
                if chance.random() < 0.5:
                    filling.begin_upper(upper)
                    filling.end_upper(upper, known[1], *device.launch(chance.uniform(0, 2e-3)))
                    time.sleep(chance.uniform(0, 3e-3))
                    continue
                waiting = Waiting(known[0], chance.randrange(1, 9), True)
                while waiting.units:
                    units = filling.start_at_once(waiting) or filling.wait_for_gap(waiting)
                    if not 0 < units <= waiting.units:
                        failures.append((thread, units))
                    filling.started(waiting, units, *device.launch(units * chance.uniform(0, 6e-4)))
                    waiting.units -= units

        threads = [threading.Thread(target=call, args=(number,), daemon=True) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(300)
            assert not thread.is_alive()
        assert failures == []

    steady = [Peer(lambda pipe, name=name: (work(name, number), pipe.send("done"))) for name in "abc"]
    turn, waiting = 0, list(steady)
    while waiting:
        turn += 1
        victim = Peer(lambda pipe, turn=turn: work(f"victim {turn}", 10**6))
        time.sleep(random.Random(f"{seed} {turn}").uniform(0.05, 0.5))
        victim.kill()
        waiting = [peer for peer in waiting if not peer.pipe.poll(0)]
        assert turn < 2000
    for peer in steady:
        peer.end()
    assert os.listdir(shared_board.FOLDERS[0])
