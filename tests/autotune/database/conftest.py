"""A PostgreSQL server for all tests that want one, and both kinds of databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .postgres import Server, serving


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One for all; where there is no PostgreSQL, what needs it is skipped with the reason."""
    pytest.importorskip("psycopg", reason="PostgreSQL's client is not installed")
    with serving() as found:
        yield found


@pytest.fixture
def postgresql(server: Server) -> Iterator[str]:
    """A URL of an empty database."""
    with server.empty() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of either kind."""
    if request.param == "sqlite":
        return str(tmp_path / "tuning.sqlite")
    found: str = request.getfixturevalue("postgresql")
    return found
