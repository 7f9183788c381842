"""Calls find in an SQLite file what `Database` finds, without SQLAlchemy; odd files are left to `Database`."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import vkernels as vk
from vkernels.autotune.database import Database
from vkernels.autotune.database.entry import CACHES
from vkernels.autotune.database.lookup import documents_in
from vkernels.autotune.database.ranking import is_variant, ordered

from .making import LIMITS, SHAPE, entry, key
from .test_launches import another, chosen, put


def test_a_file_and_a_database_give_the_same_entries_in_the_same_order(tmp_path: Path):
    seed = random.SystemRandom().randrange(1 << 31)
    print(f"seed = {seed}")
    choose, path = random.Random(seed), tmp_path / "a.sqlite"
    given = []
    for number in range(1, 150):
        shape = choose.choice([SHAPE, {"M": 64, "N": 1001}, {"M": 63, "N": 999}])
        more = {"failure": "crash"} if choose.random() < 0.2 else {"final": choose.random() < 0.2}
        if "failure" not in more and not more["final"] and choose.random() < 0.2:
            more["origin"] = "modelled"
        made = entry(number, choose.uniform(1, 2), shape, kernel=choose.choice("ab"), **more)
        when = replace(made.provenance, when=choose.random())
        made = replace(made, caches=choose.choice(CACHES), provenance=when)
        if choose.random() < 0.5:
            made = replace(made, constants={"times": 2}, first_hash=choose.choice("ab") * 64)
        given.append(made)
    with Database.open(str(path)) as database:
        database.add(*given)
        for kernel in "abc":
            asked = key(kernel=kernel)
            plain = documents_in(path, "question", asked, SHAPE)
            found = ordered(plain, lambda each, asked=asked: each.key == asked, SHAPE, LIMITS, str(path))
            assert found == database.candidates(asked, SHAPE, LIMITS)
            variants = documents_in(path, "asked", asked, SHAPE)
            found = ordered(variants, lambda each, asked=asked: is_variant(each, asked), SHAPE, LIMITS, str(path))
            assert found == database.versions(asked, SHAPE, LIMITS)


def test_what_is_no_database_of_ours_is_left_to_others(tmp_path: Path):
    absent, empty, text, others = (tmp_path / name for name in ("absent", "empty", "text", "others"))
    empty.touch()
    text.write_bytes(b"no database at all\n" * 100)
    with sqlite3.connect(others) as connection:
        connection.execute("CREATE TABLE vkernels_about (name TEXT, value TEXT)")
    for path in (absent, empty, text, others):
        assert documents_in(path, "question", key(), SHAPE) is None
    assert not absent.exists()


def test_another_version_and_a_busy_file_are_left_to_others(tmp_path: Path, monkeypatch):
    path = tmp_path / "a.sqlite"
    with Database.open(str(path)) as database:
        database.add(entry())
    assert len(documents_in(path, "question", key(), SHAPE)) == 1
    connection = sqlite3.connect(path)
    connection.execute("UPDATE vkernels_about SET value = '2' WHERE name = 'schema'")
    connection.commit()
    assert documents_in(path, "question", key(), SHAPE) is None
    connection.execute("UPDATE vkernels_about SET value = '1' WHERE name = 'schema'")
    connection.execute("ALTER TABLE vkernels_entries RENAME COLUMN asked TO other")
    connection.commit()
    assert documents_in(path, "asked", key(), SHAPE) is None
    connection.close()


CALL = """
import sys
import numpy as np
import vkernels as vk
from vkernels.ir.plan_json import plan_to_json
from vkernels.library.rows import softmax_rows
vk.use_database(sys.argv[1])
vk.set_threads(int(sys.argv[2]))
events = []
x = np.ones((24, 1000), np.float32)
with vk.on_launch(events.append):
    softmax_rows(x, np.empty_like(x))
print(events[-1].plan.chunks["j"])
print([name for name in ("sqlalchemy", "psycopg") if name in sys.modules])
"""


def test_a_first_call_takes_its_tuned_plan_without_sqlalchemy(tmp_path: Path):
    plan, path = another(chosen()), tmp_path / "a.sqlite"
    put(path, plan)
    environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path)}
    command = [sys.executable, "-c", CALL, str(path), str(vk.get_threads())]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.stdout.split("\n")[:2] == [str(plan.chunks["j"]), "[]"], done.stderr
