"""`vk doctor`: what it finds, and what it says of what is in the way."""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from vkernels.commands.doctor import gpus, processor, software, storage
from vkernels.commands.doctor.finding import Finding, Status
from vkernels.targets import known_targets
from vkernels.targets.present import UNSAID


def of(findings, what: str) -> Finding:
    (found,) = [each for each in findings if each.what == what]
    return found


def test_text_and_json_have_the_same_findings(run_vk, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    file = tmp_path / "found.json"
    code, output, errors = run_vk("doctor", "--json", file)
    written = json.loads(file.read_text())
    assert errors == ""
    assert written["command"] == "doctor"
    assert code == int(any(each["status"] == "problem" for each in written["findings"]))
    assert {each["area"] for each in written["findings"]} == {"software", "processor", "storage", "GPUs"}
    for each in written["findings"]:
        assert each["what"] in output
        assert each["found"].split(",")[0] in output


def test_a_missing_package_is_a_problem(monkeypatch):
    def version(name: str) -> str:
        if name == "llvmlite":
            raise importlib.metadata.PackageNotFoundError(name)
        return importlib.metadata.version(name)

    monkeypatch.setattr(software, "version", version)
    found = of(software.software(), "llvmlite")
    assert (found.status, found.advice) == (Status.PROBLEM, "for kernels on CPUs: pip install llvmlite")


def test_an_unknown_triton_and_a_missing_tool_are_found(monkeypatch, tmp_path):
    monkeypatch.setattr(software, "version", lambda name: "2.1.0")
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(tmp_path / "none"))
    monkeypatch.setattr(software.os, "access", lambda *given: False)
    found = list(software.software())
    assert of(found, "triton's version").status == Status.PROBLEM
    assert of(found, "ptxas").status == Status.NOTE


def test_governors_and_huge_pages_are_read(tmp_path):
    for number, governor in enumerate(("powersave", "powersave", "performance")):
        file = tmp_path / f"devices/system/cpu/cpu{number}/cpufreq/scaling_governor"
        file.parent.mkdir(parents=True)
        file.write_text(governor + "\n")
    pages = tmp_path / processor.HUGE_PAGES
    pages.parent.mkdir(parents=True)
    pages.write_text("always madvise [never]\n")
    found = list(processor.processor(tmp_path))
    assert of(found, "frequency governor").found == "powersave on 2, performance on 1"
    assert of(found, "frequency governor").status == Status.NOTE
    assert of(found, "huge pages").status == Status.NOTE
    pages.write_text("always [madvise] never\n")
    assert of(processor.processor(tmp_path), "huge pages") == Finding("processor", "huge pages", "madvise")


def test_fewer_cores_than_the_machine_has_are_told(monkeypatch):
    monkeypatch.setattr(processor.os, "cpu_count", lambda: 4096)
    assert of(processor.processor(), "cores").status == Status.NOTE


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "vkernels"


def test_a_cache_of_this_user_alone_is_well(cache: Path):
    assert "not made yet" in of(storage.storage(), "code cache").found
    cache.mkdir(mode=0o700)
    assert of(storage.storage(), "code cache") == Finding("storage", "code cache", str(cache))


@pytest.mark.skipif(sys.platform == "win32", reason="other permissions")
def test_a_cache_that_others_may_write_or_that_is_no_folder_is_a_problem(cache: Path, tmp_path: Path):
    cache.mkdir()
    cache.chmod(0o777)
    found = of(storage.storage(), "code cache")
    assert found.status == Status.PROBLEM
    assert f"chmod go-w {cache}" in found.advice
    cache.rmdir()
    (tmp_path / "elsewhere").mkdir()
    cache.symlink_to(tmp_path / "elsewhere")
    assert "is no folder" in of(storage.storage(), "code cache").found


def test_another_users_cache_is_a_problem(cache: Path, monkeypatch: pytest.MonkeyPatch):
    cache.mkdir(mode=0o700)
    other = os.getuid() + 1
    monkeypatch.setattr(storage.os, "getuid", lambda: other)
    assert "another user's" in of(storage.storage(), "code cache").found


def test_a_damaged_database_is_a_problem_and_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    file = storage.default_file()
    assert of(storage.storage(), "tuned plans").status == Status.OK
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"no database" * 1000)
    found = of(storage.storage(), "tuned plans")
    assert found.status == Status.PROBLEM
    assert file.read_bytes() == b"no database" * 1000


def test_gpus_are_shown_and_those_in_no_table_are_noted(monkeypatch: pytest.MonkeyPatch):
    card = known_targets()["h200-sxm-141"]
    other = replace(card, key="nvidia:1", like=card.key, unverified=UNSAID)
    monkeypatch.setattr(gpus, "present_targets", lambda: (replace(card, key="nvidia:0"), other))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    found = list(gpus.gpus())
    assert of(found, "nvidia:0").status == Status.OK
    assert "132 multiprocessors" in of(found, "nvidia:0").found
    assert of(found, "nvidia:1").status == Status.NOTE
    assert "hides all" in of(found, "CUDA_VISIBLE_DEVICES").found


def test_a_driver_that_shows_no_device_is_a_problem(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gpus, "present_targets", lambda: ())
    monkeypatch.setattr(gpus, "_loads", lambda name: name == "libcuda.so.1")
    found = list(gpus.gpus())
    assert of(found, "driver").status == Status.PROBLEM
    monkeypatch.setattr(gpus, "_loads", lambda name: False)
    assert [each.what for each in gpus.gpus() if each.status == Status.PROBLEM] == []
