"""A farm for real, with Ray, on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest

from vkernels.autotune.database.database import Database
from vkernels.farm import service
from vkernels.farm.client import Farm
from vkernels.farm.service import Settings, is_running, ray_address, start
from vkernels.inspect.specialisation import SpecialisationRequest
from vkernels.ir.errors import FileError, SetupError
from vkernels.library.tasks import library_tasks

pytestmark = pytest.mark.thorough
pytest.importorskip("ray", reason="ray is not installed: pip install 'vkernels[farm]'")

ONE = "cpu:cores=1"
LIMIT = 300.0
JOIN = """
import sys
from pathlib import Path
from vkernels.farm.offers import offers_here
from vkernels.farm.ray_processes import join
join(sys.argv[1], Path(sys.argv[2]), offers_here(["cpu:cores=1"]), Path(sys.argv[3]), 60.0)
"""


def tasks(*sizes: int):
    return [library_tasks(["softmax_rows"], SpecialisationRequest(shape={"M": 64, "N": size}))[0] for size in sizes]


@contextmanager
def joined(folder):
    """A machine that has joined, on one core; it may be killed meanwhile."""
    core = max(os.sched_getaffinity(0))
    process = subprocess.Popen(
        [sys.executable, "-c", JOIN, ray_address(folder), str(folder / service.TOKEN), str(folder / "node.log")],
        start_new_session=True, preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )  # fmt: skip
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def running(folder, **more):
    farm = start(folder, Settings(str(folder / "tuning.sqlite"), turn=5.0, **more))
    try:
        yield farm
    finally:
        with suppress(SetupError):  # what went wrong before says more
            Farm.from_login(folder / service.LOGIN).stop()  # it has another token once it was started again
        until(lambda: not is_running(folder))


def until(holds, seconds=LIMIT):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.2)


def test_a_farm_from_start_to_stop(tmp_path):
    with running(tmp_path) as farm:
        with pytest.raises(FileError, match="runs there already"):
            start(tmp_path, Settings(str(tmp_path / "tuning.sqlite")))
        with pytest.raises(SetupError, match="does not know"):
            replace(farm, token="wrong").status()
        with joined(tmp_path):
            until(lambda: farm.status()["slots"])
            job = farm.wait(farm.submit(tasks(1000), [ONE], seconds=12), LIMIT)
            assert job["state"] == "done", job
            assert job["parts"][0]["best"] <= job["parts"][0]["default"]
            number = farm.submit(tasks(1024), [ONE], seconds=1000)
            until(lambda: farm.job(number)["state"] == "running")
            farm.cancel(number)
            until(lambda: not any(slot["job"] for slot in farm.status()["slots"]))
    with Database.open(str(tmp_path / "tuning.sqlite"), read_only=True) as database:
        found = database.entries()
    assert any(entry.final for entry in found)
    assert {entry.provenance.by for entry in found} <= {f"vk farm: {farm.user}, job {n}" for n in (1, 2)}


def test_a_killed_head_and_a_killed_machine_lose_nothing(tmp_path):
    path = str(tmp_path / "tuning.sqlite")
    with running(tmp_path) as farm, joined(tmp_path):
        number = farm.submit(tasks(1000), [ONE], seconds=40)
        until(lambda: farm.job(number)["parts"][0]["turns"] > 0)
        os.kill(json.loads((tmp_path / service.READY).read_text())["process"], signal.SIGKILL)
        until(lambda: not is_running(tmp_path))
        before = origins(path)
        assert before
        farm = start(tmp_path, Settings(path, turn=5.0))
        assert farm.job(number)["state"] == "running"
        with joined(tmp_path) as another:
            until(lambda: len(farm.status()["slots"]) == 2)
            another.kill()
            assert farm.wait(number, LIMIT)["state"] == "done"
        after = origins(path)
        assert {identity: after.get(identity) for identity in before} == before


def origins(path):
    """The turn that measured each plan, and the number of its trial."""
    with Database.open(path, read_only=True) as database:
        found = {entry.identity: entry.provenance for entry in database.entries()}
    return {identity: (made.run, made.trial) for identity, made in found.items()}
