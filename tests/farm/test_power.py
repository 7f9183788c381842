"""Idle machines are released while demand falls, and woken where they are short."""

from __future__ import annotations

import pytest

from vkernels.farm.power import Power, PowerSettings, run_command


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def ran():
    return []


@pytest.fixture
def clock():
    return Clock()


def power(clock, ran, **more) -> Power:
    settings = PowerSettings(**{"wake": "wake", "release": "release", "slot": 600.0, **more})
    return Power(settings, clock, lambda command, variables: ran.append((command, dict(variables))))


def machines(count):
    return {f"node{number}": f"host{number}" for number in range(count)}


def slots(power, clock, demand, on):
    """Machines that are on after each of some slots with a demand."""
    found = []
    for busy in demand:
        clock.now += 601
        released = power.decide(machines(max(0, on - busy)), min(on, busy), max(0, busy - on))
        on -= len(released)
        found.append(on)
    return found


def test_idle_machines_leave_while_demand_falls(clock, ran):
    falling = [busy for busy in range(9, -1, -1) for _ in range(3)]
    found = slots(power(clock, ran), clock, [10, 10, 10, *falling, *[0] * 50], 10)
    assert found[3] == 10
    assert 1 < found[32] < 10
    assert found[-1] == 1
    assert found == sorted(found, reverse=True)
    assert ran == []


def test_no_machine_leaves_that_is_at_work(clock, ran):
    deciding = power(clock, ran, buffer=0)
    slots(deciding, clock, [10, 8, 6, 4, 2, 0, 0, 0, 0], 10)
    assert deciding.decide({}, 10, 0) == []


def test_machines_are_woken_once_where_they_are_short(clock, ran):
    deciding = power(clock, ran, buffer=2)
    for _ in range(5):
        clock.now += 1
        deciding.decide({}, 1, 3)
    assert ran == [("wake", {"VKERNELS_FARM_COUNT": "5"})]


def test_a_farm_without_machines_is_woken(clock, ran):
    power(clock, ran, most=3).decide({}, 0, 7)
    assert ran == [("wake", {"VKERNELS_FARM_COUNT": "3"})]


def test_without_a_command_nothing_leaves(clock, ran):
    assert slots(power(clock, ran, release=""), clock, [10, 8, 6, 4, 2, 0, 0], 10)[-1] == 10


def test_commands_run_with_their_variables(tmp_path):
    import time

    run_command(f'echo "$VKERNELS_FARM_HOST" > {tmp_path}/host', {"VKERNELS_FARM_HOST": "a machine"})
    end = time.monotonic() + 60
    while not (tmp_path / "host").exists() or not (tmp_path / "host").read_text():
        assert time.monotonic() < end
        time.sleep(0.01)
    assert (tmp_path / "host").read_text() == "a machine\n"
