"""Whether others use the machine is read from the system, and counts as busy where it does not say."""

from __future__ import annotations

import os

import pytest

from vkernels.compiler.machine_load import Load, free_memory, load_now

STAT = """cpu  10 0 10 1000 5 0 0 5 0 0
cpu{core} 1{more} 0 10 500 0 0 0 0 0 0
intr 5
"""


@pytest.mark.parametrize(
    ("idle", "own", "expected"), [(10.0, 0.0, 0.0), (5.0, 0.0, 0.5), (5.0, 5.0, 0.0), (0.0, 4.0, 0.6), (9.0, 9.0, 0.0)]
)
def test_what_others_use_is_what_is_neither_idle_nor_ones_own(idle, own, expected):
    before, after = Load({3: (100.0, 200.0)}, 1.0), Load({3: (100.0 + idle, 210.0)}, 1.0 + own)
    assert before.others_until(after) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("before", "after"), [({}, {}), ({0: (0.0, 0.0)}, {1: (1.0, 1.0)}), ({0: (1.0, 2.0)}, {0: (1.0, 2.0)})]
)
def test_what_is_not_known_counts_as_busy(before, after):
    assert Load(before, 0.0).others_until(Load(after, 0.0)) == 1.0


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
    assert found.others_until(found) == 1.0


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
