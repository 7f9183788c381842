"""Launches take what was tuned, where it fits; a database in trouble is one warning and costs no call."""

from __future__ import annotations

import errno
import logging
import os
import socket
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

import vkernels as vk
from vkernels.autotune.database import Database, Entry, key_of
from vkernels.autotune.database import launches as asking
from vkernels.compiler.default_session import default_session
from vkernels.compiler.protocols import Signature
from vkernels.compiler.specialise import kernel_in
from vkernels.inspect.explain.analyze import Question, find
from vkernels.ir.budget import within
from vkernels.ir.plan_json import plan_to_json
from vkernels.library.rows import softmax_rows
from vkernels.runtime.present_target import present_target

from .making import DEVICE

DTYPES = {"x": "float32", "out": "float32"}
SIZES = {"M": 24, "N": 1000}


@pytest.fixture(autouse=True)
def asked_anew(monkeypatch):
    """The user's own database, which is not there, when a test begins and after it."""
    monkeypatch.setattr(asking, "_source", asking._Source())
    default_session().forget_tuned_plans()
    yield
    default_session().forget_tuned_plans()


def built(kernel=softmax_rows):
    return kernel_in(kernel.build(Signature(tuple(DTYPES.items()))))


def limits(kernel=softmax_rows):
    return within(present_target("cpu").limits, kernel.budget)


def chosen(kernel=softmax_rows, sizes=SIZES):
    plans = default_session().plans_for(kernel, built(kernel), sizes, DTYPES, limits(kernel))
    return plans.author_plan() or plans.tuned or next(plans.ranked()).plan


def another(plan):
    """A plan that is not the chosen one, and fits as well."""
    return replace(plan, tiles={"i": 1}, chunks={"j": 16 if plan.chunks["j"] != 16 else 8})


def put(path, plan, kernel=softmax_rows, sizes=SIZES, seconds=1.0, **more):
    key = key_of(built(kernel), sizes, DTYPES, limits(kernel))
    entry = Entry(key, "softmax_rows", sizes, limits(kernel), plan, DEVICE, seconds=seconds, low=seconds, high=seconds)
    with Database.open(str(path)) as database:
        database.add(replace(entry, **more))


def launched(kernel=softmax_rows, sizes=SIZES):
    """The plan of a call, whose result is right."""
    random = np.random.default_rng(0)
    x = random.standard_normal((sizes["M"], sizes["N"])).astype(np.float32)
    out = np.full_like(x, np.nan)
    events = []
    with vk.on_launch(events.append):
        kernel(x, out)
    wide = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(out, wide / wide.sum(1, keepdims=True), rtol=1e-5, atol=1e-9)
    return events[-1].plan


def test_a_launch_takes_the_tuned_plan(tmp_path):
    plan = another(chosen())
    put(tmp_path / "a.sqlite", plan)
    before = launched()
    vk.use_database(str(tmp_path / "a.sqlite"))
    assert launched() == plan != before
    assert default_session().plans_for(softmax_rows, built(), SIZES, DTYPES, limits()).tuned == plan
    vk.use_database(None)
    assert launched() == before


def test_the_users_own_database_is_asked_unasked(tmp_path, monkeypatch):
    plan = another(chosen())
    (tmp_path / "vkernels").mkdir()
    put(tmp_path / "vkernels" / "tuning.sqlite", plan)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    default_session().forget_tuned_plans()
    assert launched() == plan


def test_a_shape_of_the_same_class_takes_it_and_one_of_another_does_not(tmp_path):
    plan = another(chosen())
    put(tmp_path / "a.sqlite", plan)
    vk.use_database(str(tmp_path / "a.sqlite"))
    assert launched(sizes={"M": 24, "N": 1001}) == plan
    assert launched(sizes={"M": 24, "N": 3000}) != plan


@pytest.mark.parametrize(
    "absurd",
    [{"tiles": {"i": 1 << 40}}, {"tiles": {"nobody": 4}}, {"chunks": {"j": 1 << 61}},
     {"homes": {"nothing": vk.Home.SHARED}}, {"lanes": "k"}, {"splits": {"j": 1 << 30}}, {"order": ("k", "l")},
     {"launches": ("nowhere",)}],
    ids=str,
)  # fmt: skip
def test_a_plan_that_does_not_fit_or_apply_is_passed_over(tmp_path, absurd):
    expected = chosen()
    plan = another(expected)
    put(tmp_path / "a.sqlite", replace(expected, **absurd), seconds=0.1)
    vk.use_database(str(tmp_path / "a.sqlite"))
    assert launched() == expected
    put(tmp_path / "a.sqlite", plan)
    vk.use_database(str(tmp_path / "a.sqlite"))
    assert launched() == plan


def test_entries_that_cannot_be_read_are_one_warning(tmp_path, caplog):
    expected = chosen()
    put(tmp_path / "a.sqlite", another(expected))
    with sqlite3.connect(tmp_path / "a.sqlite") as connection:
        connection.execute("UPDATE vkernels_entries SET document = replace(document, '\"warps\": 1', '\"warps\": -1')")
    connection.close()
    vk.use_database(str(tmp_path / "a.sqlite"))
    with caplog.at_level(logging.WARNING):
        assert launched() == expected
        default_session().forget_tuned_plans()
        assert launched() == expected
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert "cannot be read and are not used" in said[0]
    assert "warps" in said[0]


def test_plans_for_other_constants_and_failures_are_no_answers(tmp_path):
    expected = chosen()
    plan = another(expected)
    put(tmp_path / "a.sqlite", plan, constants={"block": 8})
    put(tmp_path / "a.sqlite", replace(plan, tiles={"i": 5}), seconds=None, low=None, high=None, failure="crash")
    vk.use_database(str(tmp_path / "a.sqlite"))
    assert launched() == expected


def test_what_the_author_pinned_goes_before(tmp_path):
    pinned = vk.kernel(plan=vk.Pin(tiles={"i": 2}))(softmax_rows.function)
    plan = chosen(pinned)
    put(tmp_path / "a.sqlite", another(plan), pinned, seconds=0.1)
    put(tmp_path / "a.sqlite", replace(plan, chunks={"j": 8}), pinned)
    vk.use_database(str(tmp_path / "a.sqlite"))
    assert launched(pinned) == replace(plan, chunks={"j": 8})


def test_the_authors_own_plan_goes_before(tmp_path):
    own = vk.kernel(softmax_rows.function)
    plan = another(chosen())
    own.plan(lambda sizes, dtypes, limits: replace(plan, tiles={"i": 7}))
    put(tmp_path / "a.sqlite", plan, own)
    vk.use_database(str(tmp_path / "a.sqlite"))
    assert launched(own).tiles == {"i": 7}


def test_explain_tells_where_the_plan_comes_from(tmp_path):
    asked = Question(softmax_rows, SIZES, DTYPES, {}, {}, limits())
    assert find(asked).origin == "chosen"
    plan = another(chosen())
    put(tmp_path / "a.sqlite", plan)
    vk.use_database(str(tmp_path / "a.sqlite"))
    found = find(asked)
    assert (found.origin, found.plan) == ("tuned", plan_to_json(plan))
    assert not found.proposal.is_taken


def test_a_question_is_asked_once(tmp_path, monkeypatch):
    put(tmp_path / "a.sqlite", another(chosen()))
    vk.use_database(str(tmp_path / "a.sqlite"))
    asked = []
    provider = default_session().tuned_plans.provider
    plans = provider.plans
    monkeypatch.setattr(provider, "plans", lambda query: asked.append(query) or plans(query))
    for _ in range(3):
        launched()
        vk.set_threads(vk.get_threads())
    assert len(asked) == 1


def damaged(path):
    path.write_bytes(b"no database at all\n" * 100)
    return str(path)


def silent(path):
    """The URL of a server that takes calls and never says anything."""
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen(16)
    _servers.append(server)
    return f"postgresql://u:hunter2@127.0.0.1:{server.getsockname()[1]}/d"


def closed(path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"postgresql://u:hunter2@127.0.0.1:{free.getsockname()[1]}/d"


_servers: list[socket.socket] = []


@pytest.mark.parametrize("trouble", [damaged, silent, closed])
def test_a_database_in_trouble_is_one_warning_and_the_chosen_plan(tmp_path, trouble, caplog):
    if trouble is not damaged:
        pytest.importorskip("psycopg")
    expected = chosen()
    url = trouble(tmp_path / "a.sqlite")
    vk.use_database(url)
    with caplog.at_level(logging.WARNING):
        assert launched() == expected
        assert launched(sizes={"M": 3, "N": 7})
        assert launched(sizes={"M": 5, "N": 9})
    said = [record.getMessage() for record in caplog.records if "database" in record.getMessage()]
    assert len(said) == 1
    assert "hunter2" not in said[0]


def test_what_hangs_is_waited_for_once(tmp_path, monkeypatch, caplog):
    asked = []

    def never(*args, **kwargs):
        asked.append(args)
        time.sleep(60)

    monkeypatch.setattr(asking, "SECONDS", 0.2)
    monkeypatch.setattr(Database, "open", staticmethod(never))
    (tmp_path / "a.sqlite").touch()
    vk.use_database(str(tmp_path / "a.sqlite"))
    launched(sizes={"M": 3, "N": 7})
    launched(sizes={"M": 5, "N": 9})
    assert len(asked) == 1
    assert "does not answer" in caplog.text


def test_a_folder_that_may_not_be_looked_into_is_named(tmp_path, monkeypatch, caplog):
    """As of another user's home: root may look into any, so this is made up."""

    def refused(*args, **kwargs):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    (tmp_path / "a.sqlite").touch()
    vk.use_database(str(tmp_path / "a.sqlite"))
    monkeypatch.setattr(asking, "_in_file", refused)
    launched(sizes={"M": 3, "N": 7})
    (said,) = [record.getMessage() for record in caplog.records]
    assert "a.sqlite: the tuning database cannot be read: Permission denied; plans" in said


CALL = """
import os, sys
import numpy as np
import vkernels as vk
from vkernels.ir.plan_json import plan_to_json
from vkernels.library.rows import softmax_rows
x = np.ones((4, 8), np.float32)
softmax_rows(x, np.empty_like(x))
print([name for name in ("sqlalchemy", "sqlite3", "psycopg") if name in sys.modules])
print(os.listdir(os.environ["XDG_DATA_HOME"]))
"""


@pytest.mark.slow
def test_a_first_call_without_a_database_makes_none_and_imports_nothing_of_it(tmp_path):
    environment = {"XDG_DATA_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": os.defpath}
    (tmp_path / "cache").mkdir()
    done = subprocess.run([sys.executable, "-c", CALL], env=environment, capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "[]\n['cache']", done.stderr
