"""The head keeps what it is told, over restarts and while the database is away."""

from __future__ import annotations

import sqlite3

import pytest

from tests.autotune.database.making import entry
from vkernels.autotune.database.database import Database
from vkernels.autotune.database.entry_json import entry_to_text
from vkernels.farm.cluster import Lost
from vkernels.farm.head import Head
from vkernels.farm.queue import Queue
from vkernels.farm.store import Store, User
from vkernels.ir.errors import FileError, OptionError

from .fake_cluster import FakeCluster, good, submission

ANN, BEN, ADMIN = User("ann"), User("ben"), User("admin", True)


@pytest.fixture
def make(tmp_path):
    stores = []

    def head(cluster=None, database="tuning.sqlite"):
        stores.append(Store(tmp_path / "farm.sqlite"))
        return Head(stores[-1], Queue(str(tmp_path / database)), cluster or FakeCluster(), clock=lambda: 0.0)

    yield head
    for store in stores:
        store.close()


def test_turns_go_out_and_answers_come_in(make):
    cluster = FakeCluster()
    head = make(cluster)
    number = head.submit(ANN, submission(seconds=10.0))
    head.step()
    assert sum(slot["job"] == number for slot in head.status()["slots"]) == 1
    cluster.answer(good())
    head.step()
    found = head.job(number)
    assert found["state"] == "done"
    assert found["gain"] == 2
    assert "submitted by ann" in found["lines"][0]["text"]


def test_a_killed_head_goes_on_and_begins_again_what_ran(make):
    cluster = FakeCluster()
    first = make(cluster)
    first.submit(ANN, submission("a", "b", seconds=20.0))
    first.step()
    cluster.answer(good())
    first.step()
    again = make(fresh := FakeCluster())
    again.step()
    assert sorted(turn.part for turn in fresh.begun) == [0, 1]
    assert again.job(1)["parts"][cluster.begun[1].part]["turns"] == 1


def test_entries_that_the_database_could_not_take_come_first(make, tmp_path):
    (tmp_path / "away").mkdir()
    cluster = FakeCluster()
    head = make(cluster, "away/none/tuning.sqlite")
    head.submit(ANN, submission())
    head.step()
    cluster.answer(good(unwritten=[entry_to_text(entry(1)), entry_to_text(entry(2))]))
    head.step()
    assert head.status()["unwritten"] == 2
    assert len(cluster.begun) == 1  # what is not in the database would be measured again
    head = make(cluster, "away/none/tuning.sqlite")
    (tmp_path / "away" / "none").mkdir()
    head.step()
    assert head.status()["unwritten"] == 0
    assert len(cluster.begun) == 2
    with Database.open(str(tmp_path / "away/none/tuning.sqlite")) as database:
        assert len(database.entries()) == 2


def test_lost_turns_are_begun_again(make):
    cluster = FakeCluster()
    head = make(cluster)
    head.submit(ANN, submission())
    head.step()
    cluster.answer(Lost("its machine is gone"))
    head.step()
    assert len(cluster.begun) == 2
    assert "its machine is gone" in head.job(1)["lines"][-1]["text"]


def test_jobs_are_cancelled_by_their_users_and_who_started_the_farm(make):
    cluster = FakeCluster()
    head = make(cluster)
    for _ in range(2):
        head.submit(ANN, submission())
    head.step()
    with pytest.raises(OptionError, match="belongs to ann"):
        head.cancel(BEN, 1)
    head.cancel(ANN, 1)
    head.cancel(ADMIN, 2)
    assert cluster.cancelled == [cluster.begun[0].id]
    assert [job["state"] for job in head.status()["jobs"]] == ["cancelled", "cancelled"]


@pytest.mark.parametrize("kernel", ["os:system", "/etc/own.py:kernel", "own.py:kernel", "vkernels.farm.store:Store"])
def test_kernels_come_from_the_library_or_from_what_was_submitted(kernel, make):
    given = submission()
    given.tasks[0].task["kernel"] = kernel
    with pytest.raises(OptionError, match="is no kernel of the library"):
        make().submit(ANN, given)


def test_the_farm_stops(make):
    cluster = FakeCluster()
    head = make(cluster)
    head.stop()
    head.run()
    assert cluster.left is True


# The file


def test_users_are_known_by_their_tokens(tmp_path):
    store = Store(tmp_path / "farm.sqlite")
    token, other = store.add_user("ann"), store.add_user("root", is_admin=True)
    assert store.user("ann", token) == User("ann")
    assert store.user("root", other) == User("root", True)
    assert store.user("ann", other) is None
    assert store.user("nobody", token) is None
    assert store.user("nobody", "") is None
    renewed = store.add_user("ann")
    assert store.user("ann", token) is None
    assert store.user("ann", renewed) == User("ann")
    store.close()
    assert token.encode() not in (tmp_path / "farm.sqlite").read_bytes()
    assert (tmp_path / "farm.sqlite").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("pragma", ["user_version = 99", "application_id = 7"])
def test_files_of_other_versions_and_programs_are_refused(pragma, tmp_path):
    path = tmp_path / "farm.sqlite"
    Store(path).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA {pragma}")
    connection.close()
    with pytest.raises(FileError, match="nothing was changed"):
        Store(path)
