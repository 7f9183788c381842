"""What all tests share: golden files, rewritten with `pytest --update-goldens`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine is no failure; a failure tells how to see it again.
settings.register_profile("vkernels", deadline=None, print_blob=True)
settings.load_profile("vkernels")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-goldens", action="store_true", help="rewrite the golden files with what is found")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compare a text with a file, or write the file with `--update-goldens`."""
    update = request.config.getoption("--update-goldens")

    def compare(path: Path, text: str) -> None:
        if update:
            path.write_text(text)
        assert path.exists(), f"{path} does not exist; write it with `pytest --update-goldens`"
        assert text == path.read_text()

    return compare


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """First calls wait for the plan that they would get in the end, however busy the machine is, and choose it: nothing
    that this user has tuned, nor what was found before."""
    monkeypatch.setenv("XDG_DATA_HOME", os.devnull)
    monkeypatch.setattr("vkernels.runtime.way.PATIENCE", 600.0)
    monkeypatch.setattr("vkernels.runtime.remembered._cache", lambda: None)
    monkeypatch.setattr("vkernels.runtime.remembered._known", {})
    monkeypatch.setattr("vkernels.runtime.compile.kept.cache_on_disk", lambda: None)
