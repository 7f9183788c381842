"""Profiles of calls in the database: they come back as they were, and databases of earlier versions get their table."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from jaxtyping import Float

import vkernels as vk
from vkernels.autotune.database import Database
from vkernels.autotune.database import launches as asking
from vkernels.autotune.database.profile_rows import profile_from_text, profile_to_text
from vkernels.autotune.database.profile_store import store_profiles, stored_profiles
from vkernels.compiler.call_profiles import CallKey, CallProfile
from vkernels.compiler.default_session import use_session
from vkernels.compiler.session import CompilerSession
from vkernels.ir.errors import FileError

from .making import SHAPE, entry

KEY = CallKey("rows", "a" * 64, SHAPE, "x=float32", "", "cpu:cores=2", "a processor", "b" * 64)
PROFILE = CallProfile(KEY, entry(1).plan, 200, 1e-6, 2e-6, 3e-6, 4e-6, 5e-6, 6e-6, 1e-3, 5e-4, (), 1e9)


class Store:
    profiles, keep = staticmethod(stored_profiles), staticmethod(store_profiles)


def test_they_come_back_as_they_were(url):
    other = replace(PROFILE, plan=entry(2).plan, gap=None, short_gap=None)
    beside = replace(PROFILE, beside=("matmul M=1", "softmax"))
    in_parts = replace(PROFILE, gaps=(1e-4, 2e-4), parts=7)
    elsewhere = replace(PROFILE, key=replace(KEY, device="another"))
    with Database.open(url) as database:
        database.add_profiles([PROFILE, other, beside, in_parts, elsewhere])
    with Database.open(url, read_only=True) as database:
        found = database.profiles(KEY)
        assert sorted(found, key=str) == sorted([PROFILE, other, beside, in_parts], key=str)
        assert database.profiles(elsewhere.key) == [elsewhere]
        assert database.entries() == ()


def test_earlier_versions_can_read_those_of_calls_on_a_cpu():
    assert {"gaps", "parts"}.isdisjoint(json.loads(profile_to_text(PROFILE)))


def test_a_later_one_replaces_it(url):
    later = replace(PROFILE, calls=300, p50=3.5e-6, when=2e9)
    with Database.open(url) as database:
        database.add_profiles([PROFILE])
        database.add_profiles([later])
        assert database.profiles(KEY) == [later]


def test_databases_of_earlier_versions_get_the_table(url):
    from vkernels.autotune.database.storage import profiles

    with Database.open(url) as database:
        database.add(entry(1))
        database._store.write(profiles.drop)
    with Database.open(url, read_only=True) as database:
        assert database.profiles(KEY) == []
    with Database.open(url) as database:
        database.add_profiles([PROFILE])
        assert database.profiles(KEY) == [PROFILE]
        assert database.entries() == (entry(1),)


@pytest.mark.parametrize(
    "change",
    [("p50", -1.0), ("p50", 1.0), ("calls", 0), ("plan", {"warps": "x"}), ("beside", 3), ("unknown", 1),
     ("gap", "long"), ("key", {}), ("gaps", [2e-4, 1e-4]), ("gaps", [1e-4] * 1001), ("parts", 0)],
)  # fmt: skip
def test_unreadable_ones_are_left_out(tmp_path, change):
    path = tmp_path / "tuning.sqlite"
    with Database.open(str(path)) as database:
        database.add_profiles([PROFILE])
    document = json.dumps({**json.loads(profile_to_text(PROFILE)), change[0]: change[1]})
    with pytest.raises(FileError):
        profile_from_text(document)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE vkernels_profiles SET document = ?", (document,))
        connection.commit()
    with Database.open(str(path)) as database:
        assert database.profiles(KEY) == []


@pytest.fixture
def in_use(tmp_path, monkeypatch):
    path = tmp_path / "tuning.sqlite"
    monkeypatch.setattr(asking, "_source", asking._Source(str(path)))
    return path


def new_session():
    session = CompilerSession(patience=600.0)
    session.profile_store = Store()
    return session


@vk.kernel
def negated(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = -x[i]


def measured(calls, **options):
    x = np.ones(500, np.float32)
    with use_session(new_session()), vk.profile(calls, **options) as profiling:
        for _ in range(calls + 30):
            negated(x, np.empty_like(x))
    (found,) = profiling.profiles
    with use_session(new_session()) as later:  # of another process
        return found, later.call_profiles.find(found.key, found.plan)


def test_a_frozen_one_stays_unless_it_is_renewed(in_use: Path):
    first, stored = measured(40)
    assert stored == first
    second, stored = measured(40)
    assert stored == first != second
    third, stored = measured(50)
    assert stored == third
    fourth, stored = measured(30, renew=True)
    assert stored == fourth


def test_trouble_with_the_database_is_said_and_ends_nothing(in_use: Path, caplog):
    in_use.write_text("no database")
    _, stored = measured(30)
    assert stored is None
    assert "profiles of calls are not stored" in caplog.text


def test_nothing_is_stored_without_a_database(monkeypatch):
    monkeypatch.setattr(asking, "_source", asking._Source(off=True))
    _, stored = measured(30)
    assert stored is None
