"""Files that are another's, damaged or cut off: refused with the reason, and left as they were."""

from __future__ import annotations

import json
import os
import pwd
import random
import shutil
import sqlite3
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest

from vkernels.autotune.database import Database
from vkernels.autotune.database.storage import APPLICATION
from vkernels.ir.errors import Error, FileError, OptionError

from .making import SHAPE, entry, key


def foreign(path):
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("CREATE TABLE cats (name TEXT)")
        other.execute("INSERT INTO cats VALUES ('Tom')")


def namesake(path):
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("CREATE TABLE vkernels_entries (name TEXT)")


def marked(path):
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("PRAGMA application_id = 12345")


def newer(path):
    ours(path)
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE vkernels_about SET value = '2' WHERE name = 'schema'")


def ours(path, count=3):
    with Database.open(str(path)) as database:
        database.add(*(entry(n) for n in range(1, count + 1)))


def no_header(path):
    ours(path)
    data = path.read_bytes()
    path.write_bytes(b"\0" * 100 + data[100:])


WRONG = {
    "text": lambda path: path.write_text("tuned: everything\n" * 100),
    "another program's": foreign,
    "one with a table of that name": namesake,
    "one marked as another's": marked,
    "a newer version's": newer,
    "one without its beginning": no_header,
}


@pytest.mark.parametrize("read_only", [False, True], ids=["write", "read"])
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_refused_and_stays_as_it_was(name, read_only, tmp_path):
    path = tmp_path / "tuning.sqlite"
    WRONG[name](path)
    before = path.read_bytes()
    with pytest.raises(FileError, match=r"tuning\.sqlite"):
        Database.open(str(path), read_only=read_only)
    assert path.read_bytes() == before


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
def test_a_file_that_was_cut_off_is_an_error_of_ours_or_has_entries_that_can_be_read(part, tmp_path):
    path = tmp_path / "tuning.sqlite"
    ours(path, 40)
    path.write_bytes(path.read_bytes()[: int(part * path.stat().st_size)])
    with suppress(Error), Database.open(str(path)) as database:
        known = {entry(n).identity for n in range(1, 41)}
        assert {each.identity for each in database.entries()} <= known


def test_a_file_with_any_bytes_changed_never_gives_what_was_not_put_in(tmp_path):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    path = tmp_path / "tuning.sqlite"
    ours(path, 20)
    whole = path.read_bytes()
    for _ in range(30):
        data = bytearray(whole)
        for _ in range(20):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(data)
        for rest in (tmp_path / "tuning.sqlite-wal", tmp_path / "tuning.sqlite-shm"):
            rest.unlink(missing_ok=True)
        with suppress(Error), Database.open(str(path), read_only=True, seconds=1) as database:
            found = database.candidates(key(), SHAPE)
            assert all(each.key == key() for each in found)


def test_rows_that_anybody_changed_are_left_out_and_can_be_removed(tmp_path, caplog):
    path = tmp_path / "tuning.sqlite"
    ours(path, 5)
    bad = ["", "{}", json.dumps({"plan": "x"}), "[" * 5000]
    with closing(sqlite3.connect(path)) as other, other:
        for number, text in enumerate(bad, 2):
            other.execute("UPDATE vkernels_entries SET document = ? WHERE id = ?", (text, number))
        other.execute("UPDATE vkernels_entries SET document = x'00ff' WHERE id = 4")
    with Database.open(str(path)) as database:
        assert len(database.candidates(key(), SHAPE)) == 1
        assert len(database.entries()) == 1
        assert "cannot be read" in caplog.text
        assert database.prune(damaged=True) == 4
        assert len(database.read().entries) == 1
        assert database.read().damaged == ()


def test_a_row_under_a_question_that_is_not_its_own_answers_none(tmp_path):
    path = tmp_path / "tuning.sqlite"
    ours(path, 1)
    other = key(kernel="b")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE vkernels_entries SET question = ?", (other.digest,))
    with Database.open(str(path)) as database:
        assert database.best(other, SHAPE) is None


def test_files_of_ours_are_marked(tmp_path):
    ours(tmp_path / "tuning.sqlite")
    with closing(sqlite3.connect(tmp_path / "tuning.sqlite")) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION,)


def test_no_folder_is_a_mistake(tmp_path):
    with pytest.raises(FileError, match="no folder"):
        Database.open(str(tmp_path / "none" / "tuning.sqlite"))


@pytest.mark.parametrize("url", ["", "sqlite://", "sqlite:///", "mysql://u:hunter2@h/d", "postgresql://u:hunter2@[::1",
                                 "postgresql://u:hunter2@h:port/d", "http://x", "a\0b"])  # fmt: skip
def test_what_is_no_address_is_a_mistake_that_tells_no_password(url):
    with pytest.raises(OptionError) as caught:
        Database.open(url)
    assert "hunter2" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who may not write")
def test_a_file_where_nobody_may_write_can_be_read():
    folder = Path(tempfile.mkdtemp(prefix="vk-read-"))
    try:
        ours(folder / "tuning.sqlite")
        (folder / "tuning.sqlite").chmod(0o644)
        folder.chmod(0o755)
        child = os.fork()  # whose user may read nothing else, but everything is loaded
        if child == 0:
            with suppress(BaseException):
                os.setuid(pwd.getpwnam("nobody").pw_uid)
                os._exit(len(Database.open(str(folder / "tuning.sqlite"), read_only=True).entries()))
            os._exit(100)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        assert [each.name for each in folder.iterdir()] == ["tuning.sqlite"]
    finally:
        shutil.rmtree(folder)


def test_readers_and_writers_do_not_stand_in_each_others_way(tmp_path):
    path = str(tmp_path / "tuning.sqlite")
    ours(path, 1)
    wrong, stop = [], threading.Event()

    def read():
        while not stop.is_set():
            try:
                with Database.open(path, read_only=True, seconds=5) as database:
                    assert database.best(key(), SHAPE) is not None
            except BaseException as error:
                wrong.append(error)
                return

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    with Database.open(path) as database:
        for number in range(2, 32):
            database.add(entry(number))
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == []


def test_a_temporary_database_keeps_what_threads_put_in_and_leaves_no_connection_behind(tmp_path):
    path = tmp_path / "temporary.db"
    with Database.open(str(path), temporary=True) as database, ThreadPoolExecutor(6) as pool:
        for _ in pool.map(lambda number: database.add(entry(number)), range(1, 61)):
            pass
        assert {each.plan.tiles["i"] for each in database.entries()} == set(range(1, 61))
    files = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert not [file for file in files if file.startswith(str(path))]
    with Database.open(str(path)) as database:
        assert len(database.entries()) == 60
