"""The processes that turns run in: what they share, and what they can import."""

from __future__ import annotations

import json
import os
import sys

import pytest

from vkernels.autotune.measure.measuring_worker import MeasuringWorker
from vkernels.farm import ray_worker
from vkernels.farm.ray_worker import PATH, SliceActor, surroundings
from vkernels.farm.records import Answer, TurnRequest, encoded

MINE = {"mine.py": "one = 1\n"}
SHOW = """
import json, os, sys
def serve(send, cores):
    return lambda request: json.dumps({"path": sys.path, "names": sorted(os.environ)}).encode()
"""


class Fake:
    """A process that answers at once."""

    alive = True

    def __init__(self, *arguments: object):
        self.killed = False

    def ask(self, *arguments: object):
        return json.loads(encoded(Answer(1.0)))

    def kill(self) -> None:
        self.killed = True


def request(by: str, files: dict[str, str] | None = None) -> str:
    return encoded(TurnRequest("t", by, {}, "cpu:cores=1", [0], 1.0, "", files=files or {}))


@pytest.mark.parametrize(
    ("second", "is_shared"),
    [
        (request("ann, job 2", MINE), True),
        (request("ben, job 1", MINE), False),
        (request("ann, job 2", {"mine.py": "one = 2\n"}), False),
        (request("ann, job 1, job 1", MINE), False),
        (request("ann, job 2"), False),
    ],
    ids=["the same", "another user", "other files", "a name like a job's", "the library"],
)
def test_who_shares_a_process(second, is_shared, monkeypatch):
    monkeypatch.setattr(ray_worker, "MeasuringWorker", Fake)
    actor = SliceActor([0])
    actor.run(request("ann, job 1", MINE))
    first = actor._process
    actor.run(second)
    assert (actor._process is first) == is_shared
    assert first.killed != is_shared


def test_turns_import_what_the_machine_has_and_nothing_of_the_head(tmp_path, monkeypatch):
    head, here = tmp_path / "head", tmp_path / "here"
    for folder in (head, here):
        folder.mkdir()
    (here / "show.py").write_text(SHOW)
    monkeypatch.setattr(sys, "path", [str(head), *sys.path])  # as Ray does
    variables = {**os.environ, "RAY_AUTH_TOKEN_PATH": "t", PATH: json.dumps([str(here), *sys.path[1:]])}
    worker = MeasuringWorker([0], "show:serve", *surroundings(variables))
    try:
        found = worker.ask({}, 60, 60, 1 << 40)
    finally:
        worker.kill()
    assert str(here) in found["path"]
    assert str(head) not in found["path"]
    assert not [name for name in found["names"] if name.startswith(("RAY_", "VKERNELS_FARM_"))]
    assert surroundings({"HOME": "/h"}) == ({"HOME": "/h"}, None)
