"""A day on a GPU loses nothing by a case that crashes, hangs or comes late; a simulated one runs every kind of case."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

CHILD = """
import json, os, sys, time
cases = {"one": 9, "dies": 9, "two": 9, "hangs": 0.6, "three": 9, "breaks": 9, "four": 9, "dies with others": 9}
print(json.dumps({"machine": {"device": "none"}, "cases": list(cases.items())}), flush=True)
ran = 0
for line in sys.stdin:
    name = json.loads(line)
    if name == "dies" or (name == "dies with others" and ran):
        print("the last words", file=sys.stderr, flush=True)
        os.abort()
    if name == "hangs":
        time.sleep(60)
    lost = {"lost": True} if name == "breaks" else {}
    print(json.dumps({"status": "error" if lost else "right", "process": os.getpid(), **lost}), flush=True)
    ran += 1
"""


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return lambda name: importlib.import_module(f"gpu_stages.{name}")


def day_of(stages: Callable[[str], ModuleType], path: Path, script: str = CHILD, **more: Any) -> Any:
    command = [sys.executable, "-S", "-c", script]
    start = lambda part: stages("children").Child(command, dict(os.environ))  # noqa: E731
    return stages("conduct").Day(stages("records").Records(path), start, **{"seconds": 60.0, **more})


def part_of(stages: Callable[[str], ModuleType], parallel: bool = False) -> Any:
    stages("case")
    return importlib.import_module("gpu_stages").Part("try", "none", parallel)


def statuses(path: Path) -> dict[str, str]:
    found = [json.loads(line) for line in path.read_text().splitlines()]
    names = [each["case"] for each in found]
    assert len(names) == len(set(names))
    return {each["case"]: each["status"] for each in found}


EXPECTED = {
    "one": "right", "two": "right", "three": "right", "four": "right", "dies": "crashed", "hangs": "hung",
    "breaks": "error", "dies with others": "right",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 3])
def test_no_case_is_lost_by_another(stages: Callable[[str], ModuleType], tmp_path: Path, processes: int) -> None:
    path, parallel = tmp_path / "day.jsonl", processes > 1
    assert day_of(stages, path, processes=processes).run([part_of(stages, parallel)])
    assert statuses(path) == EXPECTED
    found = {each["case"]: each for each in map(json.loads, path.read_text().splitlines())}
    assert "signal SIGABRT" in found["dies"]["why"]
    assert "the last words" in found["dies"]["why"]
    assert "nothing for 1 s" in found["hangs"]["why"]
    if not parallel:
        assert found["dies with others"]["before, not alone"].startswith("crashed")
        assert "before, not alone" in found["dies"]


@pytest.mark.slow
def test_a_day_goes_on_where_it_stopped(stages: Callable[[str], ModuleType], tmp_path: Path) -> None:
    path = tmp_path / "day.jsonl"
    some = {"try/one", "try/hangs"}
    assert day_of(stages, path, wants=some.__contains__).run([part_of(stages)])
    with path.open("a") as file:
        file.write('{"part": "try", "ca')  # cut off
    lines = path.read_text().splitlines()
    assert day_of(stages, path).run([part_of(stages)])
    assert path.read_text().splitlines()[: len(lines)] == lines
    kept = stages("records").Records(path)
    assert {name: each["status"] for name, each in kept.of("try").items()} == EXPECTED
    before = path.read_text()
    assert day_of(stages, path).run([part_of(stages)])
    assert path.read_text() == before
    assert day_of(stages, path, again=True, wants="try/dies".__eq__).run([part_of(stages)])
    assert len(path.read_text().splitlines()) == len(before.splitlines()) + 1


@pytest.mark.slow
def test_what_the_time_cuts_off_is_left_for_the_next_run(stages: Callable[[str], ModuleType], tmp_path: Path) -> None:
    path = tmp_path / "day.jsonl"
    script = CHILD.replace('"hangs": 0.6', '"hangs": 99')
    assert not day_of(stages, path, script, seconds=3.6).run([part_of(stages)])
    assert {"one", "two"} <= statuses(path).keys()
    assert "hangs" not in statuses(path)


def test_a_process_that_cannot_start_says_why(stages: Callable[[str], ModuleType], tmp_path: Path) -> None:
    with pytest.raises(stages("conduct").StartError, match="no such thing"):
        day_of(stages, tmp_path / "a.jsonl", "raise OSError('no such thing')").run([part_of(stages)])
    with pytest.raises(stages("conduct").NoGpuError, match="none here"):
        day_of(stages, tmp_path / "b.jsonl", 'print(\'{"no_gpu": "none here"}\')').run([part_of(stages)])


def test_only_missing_packages_are_unpacked(stages: Callable[[str], ModuleType], tmp_path: Path) -> None:
    for name in ("torch-9.0-py3-none-any", "no_such_one-1.0-py3-none-any", "old-1.0-cp27-cp27m-linux_x86_64"):
        with zipfile.ZipFile(tmp_path / f"{name}.whl", "w") as wheel:
            wheel.writestr(f"{name.partition('-')[0]}/__init__.py", "")
    folder = stages("wheels").unpack_missing(tmp_path, tmp_path / "to")
    assert sorted(each.name for each in folder.iterdir() if each.is_dir()) == ["no_such_one"]


def test_a_present_gpu_has_all_that_a_simulated_one_has(stages: Callable[[str], ModuleType]) -> None:
    assert not stages("present").PresentGpu.__abstractmethods__
    with pytest.raises(TypeError, match="abstract"):
        stages("gpu").Gpu(Path("none"))


def day(path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / "gpu_day.py"), "run", str(path), "--simulated", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=3000)


def shown(path: Path) -> str:
    command = [sys.executable, str(BENCHMARKS / "gpu_day.py"), "show", str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout


@pytest.mark.slow
def test_a_short_simulated_day(tmp_path: Path) -> None:
    path = tmp_path / "day.jsonl"
    done = day(path, "--only", "a first launch,split rows gives,a graph replays swap", "--stage", "smoke")
    assert done.returncode == 0, done.stdout + done.stderr
    text = shown(path)
    assert "| a first launch is right | right |" in text
    assert "Every case was right." in text


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_it_says_so(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARKS / "gpu_day.py"), "run", str(tmp_path / "day.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 3
    assert "no GPU: torch" in done.stdout


@pytest.mark.thorough
def test_a_whole_simulated_day(tmp_path: Path) -> None:
    path = tmp_path / "day.jsonl"
    done = day(path, "--seconds", "2900", "--processes", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Every case was right." in shown(path)
