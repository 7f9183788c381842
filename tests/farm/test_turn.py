"""A turn goes on where the database says that the last one stopped, wherever that ran."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from tests.autotune.fake_bench import FakeBench
from tests.autotune.tuned_softmax import TASK, landscape
from vkernels.autotune.database.database import Database
from vkernels.autotune.measure import BenchOptions
from vkernels.autotune.plan_space import read
from vkernels.autotune.slice_names import slice_limits
from vkernels.farm import turn as turns
from vkernels.farm.claims import ClaimedError, claimed
from vkernels.farm.records import TurnRequest
from vkernels.farm.turn import Turns, with_files
from vkernels.ir.errors import FileError, SetupError

SLICE = "cpu:cores=1"


@pytest.fixture(scope="module")
def space():
    return read(TASK, slice_limits(SLICE), most=500)


@pytest.fixture
def bench(space, monkeypatch):
    found = FakeBench(landscape(space, 1))
    found.options = BenchOptions()
    monkeypatch.setattr(turns, "Bench", lambda *_: nullcontext(found))
    return found


def request(database, number: int, plans: int) -> TurnRequest:
    return TurnRequest(
        f"turn{number}",
        "ann, job 1",
        TASK.to_request(),
        SLICE,
        [0],
        600.0,
        str(database),
        plans,
        "random",
        caches="cold",
    )


def entries(path):
    with Database.open(str(path)) as database:
        return {each.identity: each for each in database.entries()}


def test_turns_in_different_processes_measure_nothing_twice(bench, space, tmp_path):
    path = tmp_path / "tuning.sqlite"
    for number, plans in enumerate((10, 20, 30)):
        answer = Turns(lambda note: None, spaces={(TASK, SLICE): space}).answer(request(path, number, plans))
        assert answer.error == ""
        assert answer.tried >= plans
        assert answer.best <= answer.default
    keys = [candidate.key for candidate in bench.measured]
    assert len(keys) == len(set(keys))
    found = entries(path)
    assert len(found) == len(keys)
    assert {each.provenance.run for each in found.values()} == {"turn0", "turn1", "turn2"}
    assert {each.provenance.by for each in found.values()} == {"vk farm: ann, job 1"}


def test_what_a_killed_turn_measured_stays_and_is_not_measured_again(bench, space, tmp_path):
    path = tmp_path / "tuning.sqlite"
    bench.interrupted = 7
    killed = Turns(lambda note: None, spaces={(TASK, SLICE): space})
    bench.measure = _dying(bench, after=7)
    with pytest.raises(SystemExit):
        killed.answer(request(path, 0, 30))
    before = entries(path)
    assert len(before) == 7
    del bench.measure
    bench.interrupted = None
    Turns(lambda note: None, spaces={(TASK, SLICE): space}).answer(request(path, 1, 30))
    after = entries(path)
    assert {identity: after[identity].provenance.run for identity in before} == dict.fromkeys(before, "turn0")
    keys = [candidate.key for candidate in bench.measured]
    assert len(keys) == len(set(keys))


def _dying(bench, after):
    measure = bench.measure

    def dying(*arguments, **more):
        if len(bench.measured) >= after:
            raise SystemExit(9)
        return measure(*arguments, **more)

    return dying


@pytest.mark.parametrize("reading", [False, True], ids=["writing", "writing and reading"])
def test_entries_that_cannot_be_written_are_in_the_answer(reading, bench, space, tmp_path, monkeypatch):
    def away(*_):
        raise SetupError("the database is away")

    def measured(*arguments, **more):
        if len(bench.measured) == 3:
            monkeypatch.setattr(Database, "add", away)
            if reading:
                monkeypatch.setattr(Database, "check_writable", away)
                away()
        return measure(*arguments, **more)

    measure, bench.measure = bench.measure, measured
    answer = Turns(lambda note: None, spaces={(TASK, SLICE): space}).answer(request(tmp_path / "tuning.sqlite", 0, 10))
    assert answer.kind == ("database" if reading else "")
    assert len(answer.unwritten) >= (0 if reading else 7)


def test_without_the_database_nothing_is_measured(bench, tmp_path):
    answer = Turns(lambda note: None).answer(request(tmp_path / "none" / "tuning.sqlite", 0, 10))
    assert answer.kind == "database"
    assert bench.measured == []


def test_a_task_is_measured_by_one_farm_at_a_time(url):
    with Database.open(url) as database, Database.open(url) as another:
        with claimed(database, "a task"):
            with claimed(another, "another task"):
                pass
            with pytest.raises(ClaimedError), claimed(another, "a task"):
                pass
        with claimed(another, "a task"):
            pass


def test_what_another_farm_measures_waits(bench, space, tmp_path, monkeypatch):
    path = tmp_path / "tuning.sqlite"
    other = Turns(lambda note: None, spaces={(TASK, SLICE): space})

    def during(*_):
        assert other.answer(request(path, 1, 10)).kind == "claimed"
        return nullcontext(bench)

    monkeypatch.setattr(turns, "Bench", during)
    answer = Turns(lambda note: None, spaces={(TASK, SLICE): space}).answer(request(path, 0, 10))
    assert answer.error == ""


def test_files_come_from_the_submission_alone(tmp_path):
    own = tmp_path / "own.py"
    own.write_text("")
    with pytest.raises(FileError, match="was not submitted"):
        with_files(replace(TASK, kernel=f"{own}:kernel"), {})
    assert with_files(TASK, {}) == TASK
    found = with_files(replace(TASK, kernel="own.py:kernel"), {"own.py": "one = 1\n"})
    assert found.kernel.endswith("/own.py:kernel")
    assert str(own) not in found.kernel


def test_files_that_others_import_are_not_written_again(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    task = replace(TASK, kernel="own.py:kernel")
    path = Path(with_files(task, {"own.py": "one = 1\n"}).kernel.rpartition(":")[0])
    before = path.stat()
    with_files(task, {"own.py": "one = 1\n"})
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    path.write_text("changed")
    opened = path.open()
    with_files(task, {"own.py": "one = 1\n"})
    assert opened.read() == "changed"  # what was open stays whole
    assert path.read_text() == "one = 1\n"
    opened.close()
