"""Whether others use the machine is read from the system, and counts as busy where it does not say."""

from __future__ import annotations

import os

import pytest

from vkernels.compiler import machine_load
from vkernels.compiler.machine_load import Load, free_memory, load_now

STAT = """cpu  10 0 10 1000 5 0 0 5 0 0
cpu{core} 1{more} 0 10 500 0 0 0 0 0 0
intr 5
"""


@pytest.mark.parametrize(("idle", "expected"), [(10.0, 0.0), (5.0, 0.5), (0.0, 1.0)])
def test_what_others_use_is_what_is_not_idle(idle, expected):
    before, after = Load({3: (100.0, 200.0), 4: (0.0, 1.0)}), Load({3: (100.0 + idle, 210.0), 4: (1.0, 2.0)})
    assert before.others_until(after) == {3: pytest.approx(expected), 4: 0.0}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [({}, {}, {}), ({0: (0.0, 0.0)}, {1: (1.0, 1.0)}, {}), ({0: (1.0, 2.0)}, {0: (1.0, 2.0)}, {0: 1.0})],
)
def test_what_is_not_known_counts_as_busy(before, after, expected):
    assert Load(before).others_until(Load(after)) == expected


@pytest.fixture
def cores(monkeypatch, tmp_path):
    """Sets how busy others keep cores, of which 0 and 4, 1 and 5, … are hardware threads of one."""

    def keep(*busy):
        readings = iter(
            [Load(dict.fromkeys(range(8), (0.0, 0.0))), Load({n: (1 - part, 1.0) for n, part in enumerate(busy)})]
        )
        monkeypatch.setattr(machine_load, "load_now", lambda: next(readings))

    monkeypatch.setattr(machine_load, "CORES", tmp_path)
    monkeypatch.setattr(machine_load.time, "sleep", lambda seconds: None)
    for core in range(8):
        (tmp_path / f"cpu{core}/topology").mkdir(parents=True)
        (tmp_path / f"cpu{core}/topology/thread_siblings_list").write_text(f"{core % 4},{core % 4 + 4}\n")
    return keep


def test_quiet_cores_are_those_whose_siblings_are_quiet_too(cores):
    cores(0.0, 0.9, 0.05, 0.0, 0.0, 0.0, 0.0, 0.5)
    assert machine_load.quiet_cores(8) == (0, 2, 4, 6)
    cores(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    assert machine_load.quiet_cores(5) == (0, 1, 2, 3, 4)


def test_a_machine_is_quiet_if_half_of_the_cores_that_are_wanted_are(cores):
    half = (0.0, 0.9, 0.0, 0.9, 0.0, 0.9, 0.0, 0.9)
    cores(*half)
    assert machine_load.is_quiet(8)
    cores(*half[:7], 0.0)
    assert machine_load.is_quiet(8)
    cores(0.9, *half[1:])
    assert not machine_load.is_quiet(8)
    cores(0.9, *half[1:])
    assert machine_load.is_quiet(2), "a container that may use two of them"


def test_where_nothing_is_known_no_core_is_quiet(monkeypatch):
    monkeypatch.setattr(machine_load, "load_now", lambda: Load({}))
    monkeypatch.setattr(machine_load.time, "sleep", lambda seconds: None)
    assert machine_load.quiet_cores(4) == ()
    assert not machine_load.is_quiet(1)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="needs numbers of cores")
def test_cores_are_read(tmp_path):
    core = min(os.sched_getaffinity(0))
    (tmp_path / "stat").write_text(STAT.format(core=core, more=0))
    before = load_now(tmp_path / "stat")
    (tmp_path / "stat").write_text(STAT.format(core=core, more=1))
    after = load_now(tmp_path / "stat")
    assert before.cores.keys() == {core}
    assert after.cores[core][0] == before.cores[core][0]
    assert after.cores[core][1] - before.cores[core][1] == pytest.approx(1 / os.sysconf("SC_CLK_TCK"))


@pytest.mark.parametrize("text", [None, "", "cpu", "cpu0 a b", "cpu0 " + "9" * 5000])
def test_other_texts_say_nothing(tmp_path, text):
    if text is not None:
        (tmp_path / "stat").write_text(text)
    found = load_now(tmp_path / "stat")
    assert set(found.others_until(found).values()) <= {1.0}


def test_free_memory_is_the_systems_or_what_is_left_of_the_groups(tmp_path):
    assert free_memory(tmp_path) == 0
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 100 kB\nMemAvailable:    80 kB\n")
    assert free_memory(tmp_path) == 80 << 10
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("max\n")
    (group / "memory.current").write_text("5\n")
    assert free_memory(tmp_path) == 80 << 10
    (group / "memory.max").write_text("25\n")
    assert free_memory(tmp_path) == 20
    (group / "memory.current").write_text("50\n")
    assert free_memory(tmp_path) == 0
