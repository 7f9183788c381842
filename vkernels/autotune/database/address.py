"""Where a database is: a file of SQLite's, or a URL of PostgreSQL's. Passwords are never shown."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from vkernels.ir.errors import OptionError, SetupError

if TYPE_CHECKING:
    import sqlite3

    from sqlalchemy.engine import URL, Engine

FILE = "tuning.sqlite"
HIDDEN = "***"
SECRETS = ("password", "passfile", "sslpassword", "sslkey", "service", "options")
"""Parameters of a URL that are not shown."""
POSTGRESQL = ("postgresql", "postgres", "postgresql+psycopg")
MIN_CONNECT_SECONDS = 2
"""What PostgreSQL's client waits for a server, at least."""


@dataclass(frozen=True)
class Address:
    """`file`: of SQLite's; else `url`, of PostgreSQL's. `str()` gives it without passwords, and so does `hide`."""

    file: Path | None = None
    url: URL | None = field(default=None, repr=False)

    def __str__(self) -> str:
        if self.file is not None:
            return str(self.file)
        return "" if self.url is None else _shown(self.url)

    def hide(self, text: str) -> str:
        """A text, in which drivers may have put anything, without the address's secrets."""
        if self.url is None:
            return text
        secrets = [str(self.url.password or ""), *_texts(self.url.query, SECRETS)]
        raw = self.url.render_as_string(hide_password=False).partition("://")[2].rpartition("@")[0].partition(":")[2]
        for secret in sorted({*secrets, *map(unquote, secrets), raw, unquote(raw)}, key=len, reverse=True):
            text = text.replace(secret, HIDDEN) if secret else text
        return text

    def engine(self, seconds: float, read_only: bool, passing: bool = False) -> Engine:
        """What connects: anew for each use, so that processes may fork; nothing waits longer than `seconds`. `passing`:
        for a file of this process alone that nobody wants once it has ended: connections are kept, no disk is waited
        for.

        Raises `SetupError` where PostgreSQL's client is not installed.
        """
        from sqlalchemy import create_engine
        from sqlalchemy.pool import NullPool, QueuePool

        if self.url is None:
            uri = f"{self._path().as_uri()}?mode={_reading(self._path()) if read_only else 'rw'}"
            pool = QueuePool if passing else NullPool
            return create_engine("sqlite://", creator=lambda: _connect(uri, seconds, not passing), poolclass=pool)
        try:
            import psycopg  # noqa: F401
        except ImportError as error:
            raise SetupError(
                f"PostgreSQL's client is not installed ({error}): pip install 'vkernels[postgresql]'"
            ) from None
        limit = f"-c statement_timeout={round(1000 * seconds)} -c lock_timeout={round(1000 * seconds)}"
        limit += " -c default_transaction_read_only=on" if read_only else ""
        given: dict[str, Any] = {
            "connect_timeout": max(MIN_CONNECT_SECONDS, round(seconds)),
            "application_name": "vkernels", "options": limit,
            "tcp_user_timeout": round(1000 * max(MIN_CONNECT_SECONDS, seconds)),
        }  # fmt: skip
        given = {name: value for name, value in given.items() if name not in self.url.query}
        return create_engine(self.url, connect_args=given, poolclass=NullPool, hide_parameters=True)

    def _path(self) -> Path:
        if self.file is None:
            raise ValueError("no file")
        return self.file.absolute()


def address_of(text: str | None) -> Address:
    """The address in an option: a path, `sqlite:///PATH`, `postgresql://…`; the user's own file where there is none.

    Raises `OptionError` for other kinds of databases, `SetupError` for a user without a home.
    """
    if text is None:
        return Address(default_file())
    kind, separator, rest = text.partition("://")
    if not separator:
        if not text or "\0" in text:
            raise OptionError("--db: expected a path or a URL")
        return Address(Path(text))
    if kind == "sqlite":
        if not rest.startswith("/") or len(rest) < 2 or "\0" in rest:
            raise OptionError("--db: expected sqlite:///PATH, of a database that is a file")
        return Address(Path(unquote(rest[1:])))
    if kind not in POSTGRESQL:
        raise OptionError(f"--db: expected a path, sqlite:///PATH or postgresql://…, got {kind[:20]!r}://…")
    return Address(url=_url(f"postgresql+psycopg://{rest}"))


def default_file() -> Path:
    """In this user's folder for data. Raises `SetupError` for a user without a home."""
    import platformdirs

    folder = platformdirs.user_data_path("vkernels")
    if not folder.is_absolute():
        raise SetupError("this user has no home for a tuning database; --db says where there is one")
    return folder / FILE


def _reading(path: Path) -> str:
    """How to open a file that is only read: where nobody may write beside it, nobody writes into it either, and SQLite
    would look in vain for what it keeps there."""
    alone = not os.access(path.parent, os.W_OK) and not path.with_name(f"{path.name}-wal").exists()
    return "ro&immutable=1" if alone else "ro"


def _url(text: str) -> URL:
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        return make_url(text)
    except (ArgumentError, ValueError):  # whose text may hold the password
        raise OptionError("--db: expected postgresql://USER@HOST:PORT/NAME; this URL cannot be read") from None


def _shown(url: URL) -> str:
    query = {name: HIDDEN if name in SECRETS else value for name, value in url.query.items()}
    plain = url.set(drivername="postgresql", query=query)
    return plain.render_as_string(hide_password=True).replace(quote(HIDDEN), HIDDEN)


def _texts(query: Mapping[str, Any], names: tuple[str, ...]) -> list[str]:
    found = [query[name] for name in names if name in query]
    return [text for each in found for text in ([each] if isinstance(each, str) else each)]


def _connect(uri: str, seconds: float, lasting: bool) -> sqlite3.Connection:
    import sqlite3

    connection = sqlite3.connect(uri, uri=True, timeout=seconds, isolation_level=None, check_same_thread=False)
    connection.text_factory = lambda data: data.decode(errors="replace")  # damaged text is one entry's matter
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute(f"PRAGMA synchronous = {'FULL' if lasting else 'OFF'}")
    return connection
