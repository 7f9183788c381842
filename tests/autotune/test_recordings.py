"""Recorded spaces: the three formats, replay, and files that are broken or hostile."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from vkernels.autotune import recordings
from vkernels.autotune.drive import Stop, drive
from vkernels.autotune.recordings import read_recording
from vkernels.autotune.searches import SEARCHES, FailedPoint
from vkernels.ir.errors import FileError

DATA = Path(__file__).parents[3] / "shared" / "data" / "tuning_spaces"

KERNEL_TUNER = {
    "tune_params": {"x": [1, 2, 4], "home": ["a", "b"]},
    "cache": {
        "4,a": {"x": 4, "home": "a", "time": 2.5},
        "1,a": {"x": 1, "home": "a", "time": 1},
        "2,b": {"x": 2, "home": "b", "time": "CompilationFailedConfig"},
    },
}
KTT = {
    "Metadata": {"TimeUnit": "Microseconds"},
    "Results": [
        {"Configuration": [{"Name": "x", "Value": 4}], "Status": "Ok", "TotalDuration": 2500.0},
        {"Configuration": [{"Name": "x", "Value": 1}], "Status": "ComputationFailed", "TotalDuration": 0.0},
    ],
}
T4 = {
    "results": [
        {
            "configuration": {"x": 4},
            "invalidity": "correct",
            "measurements": [{"name": "time", "value": 2.5, "unit": "ms"}],
        },
        {"configuration": {"x": 1}, "invalidity": "compile", "measurements": []},
    ]
}


def write(path: Path, data: Any) -> Path:
    path.write_bytes(gzip.compress(json.dumps(data).encode()) if path.suffix == ".gz" else json.dumps(data).encode())
    return path


@pytest.mark.parametrize("name", ["space.json", "space.json.gz"])
def test_kernel_tuners_cache_is_read_in_seconds_with_values_in_order(tmp_path: Path, name: str) -> None:
    recording = read_recording(write(tmp_path / name, KERNEL_TUNER))
    assert recording.name == "space"
    assert recording.space.values == ((1, 2, 4), ("a", "b"))
    assert recording.outcomes == {(4, "a"): 0.0025, (1, "a"): 0.001, (2, "b"): FailedPoint("CompilationFailedConfig")}
    assert recording.optimum == 0.001


@pytest.mark.parametrize(("data", "why"), [(KTT, "ComputationFailed"), (T4, "compile")])
def test_the_results_of_ktt_and_t4_are_read(tmp_path: Path, data: Any, why: str) -> None:
    recording = read_recording(write(tmp_path / "space.json", data))
    assert recording.outcomes == {(4,): pytest.approx(0.0025), (1,): FailedPoint(why)}


@pytest.mark.parametrize("name", list(SEARCHES))
def test_any_search_can_be_replayed(tmp_path: Path, name: str) -> None:
    recording = read_recording(write(tmp_path / "space.json", KERNEL_TUNER))
    search = SEARCHES[name](recording.space)
    assert drive(search, recording.measure, Stop()) == "space"
    assert {told.point: told.outcome for told in search.told} == recording.outcomes
    assert search.best is not None
    assert search.best.seconds == recording.optimum


def changed(data: Any, *path: Any, to: Any) -> Any:
    copy = json.loads(json.dumps(data))
    at = copy
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = to
    return copy


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ([], "no recorded space"),
        ({}, "no recorded space"),
        (changed(KERNEL_TUNER, "cache", to=[]), "Expected `object`.*cache"),
        (changed(KERNEL_TUNER, "cache", to={}), "has no points"),
        (changed(KERNEL_TUNER, "tune_params", to=None), "Expected `object`.*tune_params"),
        (changed(KERNEL_TUNER, "cache", "4,a", to=3), "Expected `object`.*cache"),
        (changed(KERNEL_TUNER, "cache", "4,a", "time", to=-1), "Expected `float` > 0"),
        (changed(KERNEL_TUNER, "cache", "4,a", "time", to=float("nan")), "malformed"),
        (changed(KERNEL_TUNER, "cache", "4,a", "time", to=True), "Expected `float | str`"),
        (changed(KERNEL_TUNER, "cache", "4,a", "x", to=[1]), "got `array`"),
        (changed(KERNEL_TUNER, "cache", "4,a", "x", to=float("inf")), "malformed"),
        (changed(KERNEL_TUNER, "cache", "4,a", to={"time": 1.0}), "4,a.: has no"),
        (changed(KTT, "Metadata", "TimeUnit", to="Fortnights"), "Fortnights.*TimeUnit"),
        (changed(KTT, "Results", 0, to=1), "Expected `object`"),
        (changed(KTT, "Results", 0, "Configuration", to=[1]), "Expected `object`.*Configuration"),
        (changed(KTT, "Results", 0, "Configuration", 0, "Name", to="y"), "other parameters than the first"),
        (changed(T4, "results", 0, "measurements", to=[]), "no measurement of time"),
        (changed(T4, "results", 0, "measurements", 0, "unit", to="weeks"), "no measurement of time in"),
        (changed(T4, "results", 0, "configuration", to="x"), "Expected `object`.*configuration"),
    ],
)
def test_a_file_with_something_odd_is_refused_with_its_place(tmp_path: Path, data: Any, says: str) -> None:
    path = write(tmp_path / "space.json", data)
    with pytest.raises(FileError, match=says) as caught:
        read_recording(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b"\x1f\x8b",
        gzip.compress(b"{}")[:-6],
        b"\x1f\x8b\x08\x00" + b"\xff" * 40,
    ],
    ids=["empty", "cut", "no text", "deep", "gzip's head", "cut gzip", "no gzip"],
)
def test_what_is_no_file_of_the_kind_is_refused(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "space.json.gz"
    path.write_bytes(text)
    with pytest.raises(FileError):
        read_recording(path)


def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "MAX_RECORDING_BYTES", 1 << 20)
    path = tmp_path / "space.json.gz"
    path.write_bytes(gzip.compress(b" " * (3 << 20)))
    with pytest.raises(FileError, match="holds more than 1 MiB"):
        read_recording(path)


def test_no_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing.json", tmp_path):
        with pytest.raises(FileError, match="cannot be read"):
            read_recording(path)


@pytest.mark.skipif(not DATA.is_dir(), reason="needs ../shared/data/tuning_spaces")
@pytest.mark.parametrize(
    ("name", "points", "failures", "best"),
    [("convolution-A100", 4362, 161, 0.5536), ("ktt-convolution-2080Ti", 6768, None, None)],
)
def test_spaces_that_were_measured_on_gpus_are_read(
    name: str, points: int, failures: int | None, best: float | None
) -> None:
    recording = read_recording(DATA / f"{name}.json.gz")
    assert recording.name == name
    assert len(recording.outcomes) == points == len(recording.space.listed or ())
    failed = sum(isinstance(outcome, FailedPoint) for outcome in recording.outcomes.values())
    assert failures in (None, failed)
    assert best is None or recording.optimum * 1e3 == pytest.approx(best, rel=1e-3)
