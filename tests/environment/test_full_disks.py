"""A disk that is full is the environment's fault: exit code 3, one message, and no part of a file."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.autotune.database.making import entry
from tests.sparse_network import tsv_writers
from vkernels.autotune.database import Database
from vkernels.commands.bench import page as bench_page
from vkernels.commands.explain import page as explain_page
from vkernels.commands.memory import page as memory_page
from vkernels.commands.results import write_json
from vkernels.ir.errors import FileError, ResourceError, SetupError
from vkernels.ir.write_file import replacing, write_file
from vkernels.memory import calibration_file, schedule_file, trace_file
from vkernels.memory.record import record
from vkernels.memory.schedule import SwapSchedule

from .children import VK, run


def files(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_nothing_of_a_file_stays_on_a_full_disk(full):
    with pytest.raises(ResourceError, match="No space left"):
        write_file(full / "a", "x" * 5000)
    assert files(full) == ["filling"]


def test_the_file_that_was_there_stays_whole(tiny):
    write_file(tiny / "a", "before")
    with pytest.raises(ResourceError):
        write_file(tiny / "a", b"x" * (1 << 20))
    assert (tiny / "a").read_text() == "before"
    assert files(tiny) == ["a"]


def test_a_file_is_replaced_where_its_link_points_and_keeps_its_mode(tmp_path):
    (tmp_path / "a").write_text("before")
    (tmp_path / "a").chmod(0o640)
    (tmp_path / "link").symlink_to("a")
    write_file(tmp_path / "link", "after")
    assert (tmp_path / "a").read_text() == "after"
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("path", ["nowhere/a", "a/b", "."])
def test_what_is_no_place_for_a_file_is_the_callers_mistake(tmp_path, path):
    (tmp_path / "a").write_text("")
    with pytest.raises(FileError):
        write_file(tmp_path / path, "x")
    assert files(tmp_path) == ["a"]


def test_an_error_on_the_way_leaves_nothing(tmp_path):
    def half() -> None:
        with replacing(tmp_path / "a") as path:
            path.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half()
    assert files(tmp_path) == []


def test_pipes_and_devices_are_written_to():
    reading, writing = os.pipe()
    write_file(f"/dev/fd/{writing}", "x")
    os.close(writing)
    assert os.read(reading, 9) == b"x"
    os.close(reading)
    write_file(os.devnull, "x")
    with pytest.raises(ResourceError):
        write_file("/dev/full", "x")


LONG = "long " * 2000
WRITERS: dict[str, Callable[[Path], None]] = {
    "results": lambda path: write_json(path, {"a": LONG}),
    "a trace": lambda path: trace_file.save(record(lambda: torch.ones(8) + 1, LONG, 0), path),
    "a schedule": lambda path: schedule_file.save(SwapSchedule((), False), path),
    "categories": lambda path: tsv_writers.write_categories(path, np.arange(9000)),
    "images": lambda path: tsv_writers.write_image_table(path, np.ones((64, 64), np.float32)),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_writer_says_so_and_leaves_nothing(full, name):
    with pytest.raises(ResourceError):
        WRITERS[name](full / "found")
    assert files(full) == ["filling"]


@pytest.mark.parametrize("module", [explain_page, bench_page, memory_page], ids=lambda module: module.__name__)
def test_every_page_does(full, monkeypatch, module):
    monkeypatch.setattr(module, "page_of", lambda *subjects: LONG)
    subjects = [None] * (module.write_page.__code__.co_argcount - 1)
    with pytest.raises(ResourceError):
        module.write_page(full / "page.html", *subjects)
    assert files(full) == ["filling"]


def test_a_calibration_does(full, monkeypatch):
    monkeypatch.setattr(calibration_file, "to_json", lambda calibration: {"a": LONG})
    with pytest.raises(ResourceError):
        calibration_file.save(None, full / "c.json")
    assert files(full) == ["filling"]


def test_commands_exit_with_3_and_leave_no_file(full):
    done = run(VK, "targets", "--json", full / "targets.json")
    assert done.code == 3, done.errors
    assert "No space left" in done.errors
    assert "Traceback" not in done.errors
    assert files(full) == ["filling"]


@pytest.mark.parametrize("arguments", [["targets"], ["targets", "--json", "-"], ["--version"]])
def test_output_that_cannot_be_written_is_3(arguments):
    done = run(VK, *arguments, output="/dev/full")
    assert done.code == 3, done.errors
    assert "No space left" in done.errors
    assert "Traceback" not in done.errors


def test_a_file_beyond_the_limit_of_its_size_is_3(tmp_path):
    done = run(VK, "targets", "--json", tmp_path / "t.json", limits={resource.RLIMIT_FSIZE: 4096})
    assert done.code == 3, done.errors
    assert "File too large" in done.errors
    assert files(tmp_path) == []


@pytest.mark.slow
def test_a_database_on_a_full_disk_is_found_out_before_and_loses_nothing_without_a_word(tiny):
    path = tiny / "t.db"
    done = run(VK, "tune", "softmax_rows", "--shapes", "M=100,N=64", "--budget", "2", "--db", path)
    assert done.code == 3, done.errors
    assert "--db none" in done.errors


def test_what_could_not_be_kept_is_told_at_the_close(tmp_path, monkeypatch):
    database = Database.open(str(tmp_path / "t.db"))

    def refuse(*given):
        raise SetupError("database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(database, "add", refuse)
        database.keep(entry(1))
        database.keep(entry(2))
        with pytest.raises(SetupError, match="2 measurements could not be remembered"):
            database.close()


def test_what_could_not_be_kept_at_once_is_kept_at_the_close(tmp_path, monkeypatch):
    with Database.open(str(tmp_path / "t.db")) as database:
        with monkeypatch.context() as patched:
            patched.setattr(database, "add", lambda *given: (_ for _ in ()).throw(SetupError("busy")))
            database.keep(entry(1))
        database.keep(entry(2))
    with Database.open(str(tmp_path / "t.db")) as database:
        assert len(database.entries()) == 2


@pytest.mark.slow
def test_a_kernel_runs_though_nothing_can_be_cached(full):
    program = """
import numpy as np
from vkernels.library.rows import softmax_rows
x = np.ones((4, 8), np.float32)
out = np.full_like(x, np.nan)
softmax_rows(x, out)
print(out.sum())
"""
    done = run(program, environment={"XDG_CACHE_HOME": str(full)})
    assert (done.code, float(done.output)) == (0, 4.0), done.errors
    assert json.dumps(done.errors).count("not kept on disk") == 1
