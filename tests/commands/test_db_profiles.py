"""`vk db profiles` lists profiles of calls, and deletes those that are asked for."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from functools import partial

import pytest

from tests.autotune.database.making import SHAPE, entry
from vkernels.autotune.database import Database
from vkernels.compiler.call_profiles import CallKey, CallProfile, code_digest

KEY = CallKey("rows", "a" * 64, SHAPE, "x=float32", "", "cpu:cores=2", "a processor", code_digest())
FRESH = CallProfile(KEY, entry(1).plan, 200, 1e-6, 2e-6, 3e-6, 4e-6, 5e-6, 6e-6, 1e-3, 5e-4, (), time.time())
BESIDE = replace(FRESH, beside=("low other N=3 x=float32",), gap=None, short_gap=None)
STALE = replace(FRESH, key=replace(KEY, code="b" * 64))
OTHER = replace(FRESH, key=replace(KEY, kernel="columns"), when=time.time() - 40 * 86400)


@pytest.fixture
def vk(run_vk, tmp_path, monkeypatch):
    """Runs `vk db profiles` on a database of four profiles and one entry; gives exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    with Database.open("a.sqlite") as database:
        database.add(entry(1))
        database.add_profiles([FRESH, BESIDE, STALE, OTHER])
    return partial(run_vk, "db", "profiles", "--db", "a.sqlite")


def left():
    with Database.open("a.sqlite", read_only=True) as database:
        assert len(database.entries()) == 1
        return {each.identity for each in database.all_profiles().profiles}


def identities(*given):
    return {each.identity for each in given}


def test_all_are_listed(vk):
    code, output, _ = vk()
    assert code == 0
    assert output.count("rows") == 3
    assert output.count("other version") == 1
    for text in ("columns", "x=float32", "cpu:cores=2", "low other N=3", "200", "3 µs", "5 µs", "1 ms"):
        assert text in output


def test_programs_are_told_the_same(vk):
    code, output, _ = vk("--kernel", "rows", "--json", "-")
    found = json.loads(output)
    assert (code, found["schema_version"], found["command"], found["damaged"]) == (0, 1, "db profiles", 0)
    assert {each["identity"] for each in found["profiles"]} == identities(FRESH, BESIDE, STALE)
    by_identity = {each["identity"]: each for each in found["profiles"]}
    assert not by_identity[STALE.identity]["usable"]
    beside = by_identity[BESIDE.identity]
    assert (beside["usable"], beside["beside"], beside["gap"]) == (True, list(BESIDE.beside), None)
    assert beside["key"]["shape"] == dict(SHAPE)


@pytest.mark.parametrize(
    ("options", "doomed"),
    [
        (["--stale"], [STALE]),
        (["--kernel", "columns"], [OTHER]),
        (["--older-than", "30"], [OTHER]),
        (["--kernel", "rows", "--stale"], [STALE]),
        (["--kernel", "rows", "--older-than", "30"], []),
    ],
)
def test_those_asked_for_are_deleted(vk, options, doomed):
    code, output, _ = vk(*options, "--delete", "--dry-run")
    assert (code, f"{len(doomed)} profile" in output, "would be deleted" in output) == (0, True, True)
    assert left() == identities(FRESH, BESIDE, STALE, OTHER)
    code, output, _ = vk(*options, "--delete")
    assert (code, f"{len(doomed)} profile" in output) == (0, True)
    assert left() == identities(FRESH, BESIDE, STALE, OTHER) - identities(*doomed)


def test_what_to_delete_must_be_said(vk):
    code, _, errors = vk("--delete")
    assert code == 2
    assert "say which to delete" in errors
    code, _, errors = vk("--dry-run")
    assert code == 2
    assert "--dry-run is of --delete" in errors
    assert left() == identities(FRESH, BESIDE, STALE, OTHER)


def test_unreadable_ones_are_counted_and_deleted_as_stale(vk):
    with closing(sqlite3.connect("a.sqlite")) as connection, connection:
        connection.execute("UPDATE vkernels_profiles SET document = '{' WHERE identity = ?", (FRESH.identity,))
    code, output, _ = vk()
    assert (code, "1 profile cannot be read" in output) == (0, True)
    vk("--kernel", "columns", "--delete")
    assert "cannot be read" in vk()[1]
    vk("--stale", "--delete")
    assert "cannot be read" not in vk()[1]
    assert left() == identities(BESIDE)


def test_databases_without_profiles_have_none(run_vk, tmp_path):
    with Database.open(str(tmp_path / "b.sqlite")) as database:
        database.add(entry(1))
    with closing(sqlite3.connect(tmp_path / "b.sqlite")) as connection, connection:
        connection.execute("DROP TABLE vkernels_profiles")
    code, output, _ = run_vk("db", "profiles", "--db", str(tmp_path / "b.sqlite"))
    assert (code, "no profiles of calls" in output) == (0, True)
