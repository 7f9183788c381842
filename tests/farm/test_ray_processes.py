"""What `vk farm join` does with what Ray says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from vkernels.autotune.measure.lock import BusyError
from vkernels.farm import ray_processes
from vkernels.farm.ray_processes import STARTED, WRONG_TOKEN, join
from vkernels.ir.errors import FileError, OptionError, SetupError


class Ended:
    """`ray start` that has ended."""

    has_ended = True

    def stop(self) -> None:
        pass


class Running(Ended):
    """`ray start` that ends when it was looked at several times."""

    looks = 0

    @property
    def has_ended(self) -> bool:
        self.looks += 1
        return self.looks > 3


@pytest.fixture
def token(tmp_path) -> Path:
    (tmp_path / "token").write_text("0" * 64)
    return tmp_path / "token"


@pytest.fixture
def ray(monkeypatch):
    """Let Ray's processes be as given, and say this to the log."""

    def given(process: Callable[[], Ended], text: str) -> None:
        def start(arguments, variables, log):
            with log.open("a") as file:
                file.write(text)
            return process()

        monkeypatch.setattr(ray_processes.RayProcess, "start", start)
        monkeypatch.setattr(ray_processes, "REJOIN_PAUSE", 0.0)

    return given


def test_a_wrong_token_is_said_at_once(ray, token, tmp_path):
    ray(Ended, f"RPC error: {WRONG_TOKEN}: ...\n")
    said: list[str] = []
    with pytest.raises(SetupError, match="refuses the token"):
        join("10.0.0.5:1", token, [], tmp_path / "new" / "node.log", 1e6, said.append)
    assert said == []


def test_an_earlier_refusal_does_not_count(ray, token, tmp_path):
    log = tmp_path / "node.log"
    log.write_text(f"RPC error: {WRONG_TOKEN}\n")
    ray(Ended, "connection refused\n")
    said: list[str] = []
    with pytest.raises(SetupError, match="no farm answered"):
        join("10.0.0.5:1", token, [], log, 0.0, said.append)
    assert set(said) == {"10.0.0.5:1 does not answer"}


def test_a_machine_has_joined_when_ray_says_so(ray, token, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_processes, "_settle", lambda started: None)
    ray(Running, f"{STARTED}.\n")
    said: list[str] = []
    with pytest.raises(SetupError, match="no farm answered"):
        join("10.0.0.5:1", token, [], tmp_path / "node.log", 0.0, said.append)
    assert set(said) == {"joined 10.0.0.5:1"}


def test_what_else_starts_is_named(ray, token, tmp_path, monkeypatch):
    def busy(*arguments):
        raise BusyError("others have measured")

    monkeypatch.setattr(ray_processes, "locked", busy)
    with pytest.raises(SetupError, match="were starting here for 2 s"):
        join("10.0.0.5:1", token, [], tmp_path / "node.log", 2.0)


def test_what_is_needed_to_join(token, tmp_path):
    with pytest.raises(OptionError, match="HOST:PORT"):
        join("10.0.0.5", token, [], tmp_path / "node.log", 1.0)
    with pytest.raises(FileError, match="no such file"):
        join("10.0.0.5:1", tmp_path / "absent", [], tmp_path / "node.log", 1.0)
