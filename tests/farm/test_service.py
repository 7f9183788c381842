"""What a farm's head needs before its process starts."""

from __future__ import annotations

import subprocess

import pytest

from vkernels.autotune.database.address import default_file
from vkernels.farm import service
from vkernels.farm.service import SETTINGS, Settings, start
from vkernels.ir.errors import FileError, OptionError


class StartedError(Exception):
    """The process would start now."""


@pytest.fixture(autouse=True)
def without_ray(monkeypatch):
    def popen(*arguments, **named):
        raise StartedError

    monkeypatch.setattr(service, "check_ray", lambda: None)
    monkeypatch.setattr(subprocess, "Popen", popen)


def test_the_folder_of_this_users_database_is_made(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert not default_file().parent.exists()
    with pytest.raises(StartedError):
        start(tmp_path / "farm", Settings(str(default_file())))
    assert default_file().parent.is_dir()


def test_a_database_in_no_folder_is_refused(tmp_path):
    with pytest.raises(FileError, match="there is no folder"):
        start(tmp_path / "farm", Settings(str(tmp_path / "absent" / "tuning.sqlite")))
    with pytest.raises(OptionError, match="other machines cannot write"):
        start(tmp_path / "farm", Settings(str(tmp_path / "tuning.sqlite"), host="10.0.0.5"))
    assert not (tmp_path / "farm").exists()


def test_only_the_owner_reads_the_address_of_the_database(tmp_path):
    (tmp_path / SETTINGS).touch(mode=0o644)  # in a folder that others may read
    with pytest.raises(StartedError):
        start(tmp_path, Settings("postgresql://farm:secret@127.0.0.1/tuning"))
    assert "secret" in (tmp_path / SETTINGS).read_text()
    assert (tmp_path / SETTINGS).stat().st_mode & 0o077 == 0
