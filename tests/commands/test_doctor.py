"""`vk doctor`: what it finds, and what it says of what is in the way."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.autotune.database.making import elsewhere, entry
from vkernels.autotune.database import Database
from vkernels.bundles.bundle import write_bundle
from vkernels.bundles.manifest import Assumptions, Code, CpuCode, Kernel, Manifest, Provenance, Variant
from vkernels.commands.doctor import gpus, plans, processor, software, storage
from vkernels.commands.doctor.finding import Finding, Status
from vkernels.ir.optional_packages import COMPILERS
from vkernels.targets import known_targets
from vkernels.targets.present import UNSAID, cpu_name


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
    assert {each["area"] for each in written["findings"]} == {"software", "processor", "storage", "tuned plans", "GPUs"}
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


def test_an_environment_that_only_runs_bundles_is_no_problem(monkeypatch):
    monkeypatch.setattr(software, "find_spec", lambda name: None)
    for name in COMPILERS:
        assert of(software.software(), name) == Finding(
            "software", name, "is not installed: kernels run from bundles only"
        )


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


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Files for the tuned plans of the user and of the site, which are not there yet."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "user"))
    monkeypatch.setenv("XDG_DATA_DIRS", f"{tmp_path / 'nothing'}:{tmp_path / 'site'}")
    files = tuple(tmp_path / name / "vkernels" / "tuning.sqlite" for name in ("user", "site"))
    for file in files:
        file.parent.mkdir(parents=True)
    return files


def test_a_damaged_database_is_a_problem_and_stays_as_it_is(folders):
    file, _ = folders
    assert of(plans.plans(), "user").status == Status.OK
    file.write_bytes(b"no database" * 1000)
    found = of(plans.plans(), "user")
    assert found.status == Status.PROBLEM
    assert file.read_bytes() == b"no database" * 1000


def test_layers_of_tuned_plans_are_told_and_which_wins(folders):
    user, site = folders
    made = [entry(number, 1.0 / number) for number in (1, 2, 3)]
    here = elsewhere(entry(4, 5.0), device=cpu_name())
    for file, entries in ((user, [made[0], here]), (site, made[1:])):
        with Database.open(str(file)) as database:
            database.add(*entries)
    found = list(plans.plans())
    assert of(found, "user").found == f"2 in {user}, 1 of them measured here"
    assert of(found, "site").found == f"2 in {site}"
    (winner,) = [each for each in found if each.what.startswith("kernel_a")]
    assert winner.found == (
        f"measured here {here.short} before user {made[0].short}, site {made[2].short}: its layer comes first"
    )


def test_a_bundle_is_the_lowest_layer(folders, tmp_path):
    user, _ = folders
    tuned = entry(1, 1.0)
    with Database.open(str(user)) as database:
        database.add(tuned)
    sizes = {name: getattr(tuned.limits, name) for name in ("registers", "shared", "multiprocessors")}

    def code(shape):
        native = CpuCode("cpu/a.o", "prepare", ("launch",), (), 0, 0, 0)
        return Code(
            "cpu", platform.machine(), (), "shape", shape, sizes, "plans/a.json", "shared", Assumptions(), native
        )

    tensors = tuple(tuple(pair.split("=")) for pair in tuned.key.dtypes.split())
    variant = Variant("0" * 64, tensors, (), (), (), (), (code(tuned.shape), code({"M": 12345})))
    kernel = Kernel(tuned.kernel, "", "0" * 64, False, (), (variant,))
    file = tmp_path / "net.vkb"
    write_bundle(file, Manifest(Provenance("0", "now"), (kernel,), (), ()), {"cpu/a.o": b"", "plans/a.json": b"{}"})
    found = list(plans.plans([file]))
    assert of(found, "bundle net.vkb").found == "2 for this machine's CPU, none for GPUs"
    (beaten,) = [each for each in found if "before bundle" in each.found]
    assert beaten.found.startswith(f"user {tuned.short} before bundle net.vkb: its layer comes first")
    assert of(list(plans.plans([tmp_path / "none.vkb"])), "bundle none.vkb").status == "problem"


def test_a_site_whose_plans_others_may_change_is_noted(folders, monkeypatch):
    _, site = folders
    with Database.open(str(site)) as database:
        database.add(entry())
    other = os.getuid() + 1
    monkeypatch.setattr(plans.os, "getuid", lambda: other)
    site.chmod(0o644)
    assert of(plans.plans(), "site").status == Status.OK
    site.chmod(0o666)
    assert f"chmod go-w {site}" in of(plans.plans(), "site").advice


def test_less_memory_than_the_machine_has_is_told(monkeypatch):
    monkeypatch.setattr(processor, "memory_bytes", lambda: 1 << 30)
    found = of(processor.processor(), "memory")
    assert (found.status, found.found[:6]) == (Status.NOTE, "1.0 of")


@pytest.mark.parametrize(("runs", "status"), [((11, 8), Status.PROBLEM), ((12, 4), Status.OK), ((13, 0), Status.OK)])
def test_a_driver_older_than_the_compiler_is_a_problem(monkeypatch, runs, status):
    monkeypatch.setattr(gpus, "present_targets", lambda: (replace(known_targets()["h200-sxm-141"], key="nvidia:0"),))
    monkeypatch.setattr(gpus, "_cuda_of_driver", lambda: runs)
    monkeypatch.setattr(gpus, "_cuda_of_ptxas", lambda: (12, 8))
    found = of(gpus.gpus(), "nvidia's driver")
    assert found.status == status
    assert f"for CUDA {runs[0]}.{runs[1]}" in found.found


def test_the_compilers_own_cuda_is_read():
    assert gpus._cuda_of_ptxas() >= (12, 0)


def test_instances_of_mig_are_named():
    assert gpus._chosen("MIG-a,MIG-b") == "MIG-a,MIG-b: 2 instances of MIG"
    assert gpus._chosen("0") == "0"


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
