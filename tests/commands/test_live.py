"""The page of `vk tune --live`: progress while tuning runs, in one file that loads nothing."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from vkernels.autotune.progress import Progress
from vkernels.commands.tune.live import HEIGHT, PAUSE, WIDTH, Course, LivePage
from vkernels.inspect.task import Task
from vkernels.ir.errors import ResourceError

TASK = Task("some.py:kernel", {"N": 8}, {"x": "float32"})
HOSTILE = Task("<script>alert(1)</script>.py:kernel", {"N": 8}, {"x": "float32"})
BEGUN = Progress(TASK, "cpu:cores=1", "searching", 3, 1, 40, 0.5e-3, 1e-3, 2.0, 8.0)


@pytest.fixture
def now() -> list[float]:
    return [0.0]


@pytest.fixture
def page(tmp_path: Path, now: list[float]) -> LivePage:
    return LivePage(tmp_path / "live.html", Console(quiet=True), 4, lambda: now[0])


def test_the_page_shows_progress_and_is_loaded_again_until_tuning_ends(page: LivePage):
    page.report(BEGUN)
    text = page.path.read_text()
    assert re.search(r'http-equiv="refresh" content="\d+"', text)
    for shown in ("kernel N=8 float32", "cpu:cores=1", "searching", "500 µs ×2.00", "3 tried, 1 failed, 40 left"):
        assert shown in text
    page.close()
    assert 'http-equiv="refresh"' not in page.path.read_text()


def test_the_page_loads_nothing_and_runs_nothing(page: LivePage):
    page.report(replace(BEGUN, task=HOSTILE, slice="<img src=x>"))
    text = page.path.read_text()
    assert "<script" not in text
    assert "<img" not in text
    assert not re.search(r"(src|href)=|url\(|https?://", text.replace("&lt;img src=x&gt;", ""))


def test_the_page_is_not_written_for_each_trial(page: LivePage, now: list[float]):
    page.report(BEGUN)
    page.report(replace(BEGUN, tried=7))
    assert "3 tried" in page.path.read_text()
    now[0] += PAUSE
    page.report(replace(BEGUN, tried=9))
    assert "9 tried" in page.path.read_text()


def test_a_disk_that_is_full_does_not_end_tuning(page: LivePage, now: list[float], monkeypatch: pytest.MonkeyPatch):
    def full(path: Path, data: str) -> None:
        said.append(path)
        raise ResourceError("the disk is full")

    said: list[Path] = []
    monkeypatch.setattr("vkernels.commands.tune.live.write_file", full)
    for _ in range(3):
        page.report(BEGUN)
        now[0] += 2 * PAUSE
    page.close()
    assert len(said) == 1


def test_the_line_stays_in_its_plot_and_only_falls():
    random.seed(seed := random.randrange(1 << 32))
    print(f"seed {seed}")
    course, best, seconds = Course(BEGUN), 1e-3, 0.0
    for _ in range(50):
        best, seconds = best * random.uniform(0.8, 1.0), seconds + random.uniform(0.0, 0.5)
        course.note(replace(BEGUN, best=best, seconds=seconds, seconds_left=random.choice([None, 3.0])))
    points = [tuple(map(float, point.split(","))) for point in course.line.split()]
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)
    assert [y for _, y in points] == sorted(y for _, y in points)  # down in an SVG's coordinates is a smaller time
