"""Schedules saved and loaded; files that nobody vouches for."""

from __future__ import annotations

import pytest

from vkernels.ir.errors import FileError
from vkernels.memory.schedule import SwapSchedule
from vkernels.memory.schedule_file import load, save
from vkernels.memory.strategies import search

from .steps import absent, machine_of, step_of


@pytest.mark.parametrize("ending", [".json", ".json.gz"])
@pytest.mark.parametrize("seed", range(10))
def test_what_is_loaded_is_what_was_saved(tmp_path, seed, ending):
    trace = step_of(seed)
    schedule = search(trace, machine_of(trace, seed), rounds=0, trials=0, others=())
    save(schedule, tmp_path / f"s{ending}")
    assert load(tmp_path / f"s{ending}") == schedule


GOOD = '{"tensor": 0, "tier": "host", "copy": -1, "leave": 0, "back": 3, "next": 3}'
HEAD = '{"format": "vkernels schedule", "schema_version": 1, "faults": false,\n"absences": [\n'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"host"', '"moon"', r":3: absences\[0\]\.tier: Invalid enum value 'moon'"),
        ('"host"', "{}", r":3: absences\[0\]\.tier: Expected `str`, got `object`"),
        ("-1", "1.5", r":3: absences\[0\]\.copy: Expected `int \| null`, got `float`"),
        ("-1", "-" + "9" * 25, r":3: absences\[0\]\.copy: Expected `int` >= -"),
        ('"leave": 0', '"leave": -1', r":3: absences\[0\]\.leave"),
        ('"leave": 0', '"leave": true', r":3: absences\[0\]\.leave"),
        ('"leave": 0, ', "", r":3: absences\[0\]: Object missing required field `leave`"),
        ('"tensor": 0', '"tensor": 0, "tensor": 1', r":3: absences\[0\]: the field \"?'?tensor"),
        ('"schema_version": 1', '"schema_version": 2', r":1: schema_version: expected 1, got 2"),
        ('"faults": false', '"faults": 0', r":1: faults: Expected `bool`, got `int`"),
        ("vkernels schedule", "vkernels trace", r":1: format: expected 'vkernels schedule', got vkernels trace"),
        ("]}", "]", "not JSON"),
    ],
)
def test_a_file_that_is_no_schedule_is_refused_with_the_line(tmp_path, old, new, message):
    path = tmp_path / "s.json"
    text = f"{HEAD}{GOOD}\n]}}\n"
    path.write_text(text)
    assert load(path) == SwapSchedule((absent(0, 0, 3, copy=-1),))
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(FileError, match=message):
        load(path)


def test_a_place_that_cannot_be_written_is_said(tmp_path):
    with pytest.raises(FileError, match="No such file"):
        save(SwapSchedule(), tmp_path / "nowhere" / "s.json")
