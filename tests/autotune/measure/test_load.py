"""Others on the same cores are noticed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vkernels.autotune.measure.clocks import LoadWatch, busy_seconds

STATISTICS = """cpu  100 0 100 900 0 0 0 0 0 0
cpu0 10 1 20 400 7 3 4 500 6 0
cpu1 90 0 80 500 0 0 0 0 0 0
intr 1 2 3
"""


def test_used_time_is_all_but_idle_waiting_and_guests(tmp_path: Path):
    file = tmp_path / "stat"
    file.write_text(STATISTICS)
    tick = os.sysconf("SC_CLK_TCK")
    assert busy_seconds([0], file) == (10 + 1 + 20 + 3 + 4 + 500) / tick
    assert busy_seconds([0, 1], file) == (538 + 170) / tick


@pytest.mark.parametrize("text", ["", "cpu0 a b c", "cpu1 1 2 3", None])
def test_where_the_system_does_not_tell_nobody_is_there(tmp_path: Path, text: str | None):
    file = tmp_path / "stat"
    if text is not None:
        file.write_text(text)
    assert busy_seconds([0], file) is None
    assert LoadWatch([0], busy=lambda cores: None).others() == 0.0


@pytest.mark.parametrize(
    ("used", "own", "others"),
    [(1.0, 1.0, 0.0), (2.0, 1.0, 0.24), (2.0, 0.0, 0.49), (4.0, 0.0, 0.99), (9.0, 0.0, 1.0), (0.04, 0.0, 0.0)],
)
def test_the_part_of_the_time_that_others_used(used: float, own: float, others: float):
    moments = iter([(10.0, 5.0, 3.0), (12.0, 5.0 + used, 3.0 + own)])
    now = [next(moments)]
    watch = LoadWatch([0, 1], lambda cores: now[0][1], lambda: now[0][2], lambda: now[0][0])
    now[0] = next(moments)
    assert watch.others() == pytest.approx(others, abs=0.02)


SPINNING = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nprint('on', flush=True)\nwhile True: pass"
WATCHING = """
import os, sys, time
from vkernels.autotune.measure.clocks import CpuClock
from vkernels.autotune.measure.clocks import LoadWatch
core = int(sys.argv[1])
os.sched_setaffinity(0, {core})
watch, clock, disturbed = LoadWatch([core]), CpuClock(1), 0
def work():
    end = time.perf_counter() + 0.02
    while time.perf_counter() < end: pass
for _ in range(40):
    disturbed += clock.sample([work]).disturbed
print(watch.others(), disturbed)
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/stat"), reason="this system counts no core's time")
def test_a_load_generator_on_the_same_core_is_seen_by_both_the_watch_and_the_clock():
    core = str(max(os.sched_getaffinity(0)))
    spinning = subprocess.Popen([sys.executable, "-c", SPINNING, core], stdout=subprocess.PIPE, text=True)
    try:
        assert spinning.stdout is not None
        assert spinning.stdout.readline() == "on\n"
        told = subprocess.run([sys.executable, "-c", WATCHING, core], capture_output=True, text=True, timeout=60)
    finally:
        spinning.kill()
        spinning.wait()
        spinning.stdout.close()
    others, disturbed = told.stdout.split()
    assert float(others) > 0.2, told.stderr
    assert int(disturbed) > 10
