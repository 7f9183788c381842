"""The check of a farm whose machines are killed sees entries that are gone and plans that were measured twice."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from tests.autotune.database.making import entry
from vkernels.autotune.database.database import Database

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from farm_kills import Seen


def test_what_is_gone_and_what_was_measured_twice_is_seen(tmp_path):
    path = str(tmp_path / "tuning.sqlite")
    seen = Seen(path)
    first, second = (
        replace(entry(number), provenance=replace(entry(number).provenance, run="turn0", trial=number))
        for number in (1, 2)
    )
    with Database.open(path) as database:
        database.add(first, second)
        assert (seen.look(), seen.gone, seen.again) == (2, 0, [])
        database.add(replace(first, provenance=replace(first.provenance, run="turn1")))
        assert (seen.look(), seen.gone, seen.again) == (2, 0, [first.identity])
    (tmp_path / "tuning.sqlite").unlink()
    with Database.open(path) as database:
        database.add(second)
    assert (seen.look(), seen.gone) == (1, 1)
