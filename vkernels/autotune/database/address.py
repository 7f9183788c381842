"""The address of a database: an SQLite file or a PostgreSQL URL. Passwords are never shown."""

from __future__ import annotations

import os
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
POSTGRESQL = ("postgresql", "postgres", "postgresql+psycopg")
MIN_CONNECT_SECONDS = 2
"""Least time-out that PostgreSQL's client supports."""


@dataclass(frozen=True)
class Address:
    """An SQLite `file`, or else a PostgreSQL `url`. `str()` omits passwords."""

    file: Path | None = None
    url: URL | None = field(default=None, repr=False)

    def __str__(self) -> str:
        if self.file is not None:
            return str(self.file)
        return "" if self.url is None else _shown(self.url)

    def hide(self, text: str) -> str:
        """Remove the address's secrets from a text, for example from a driver's message."""
        if self.url is None:
            return text
        values = [self.url.query[name] for name in SECRETS if name in self.url.query]
        secrets = [str(self.url.password or ""), *(text for v in values for text in ([v] if isinstance(v, str) else v))]
        raw = self.url.render_as_string(hide_password=False).partition("://")[2].rpartition("@")[0].partition(":")[2]
        for secret in sorted({*secrets, *map(unquote, secrets), raw, unquote(raw)}, key=len, reverse=True):
            text = text.replace(secret, HIDDEN) if secret else text
        return text

    def engine(self, seconds: float, read_only: bool, temporary: bool = False) -> Engine:
        """An engine that opens a connection for each use, so that processes may fork; it waits at most `seconds`.

        `temporary`: for a file of this process alone, whose content may be lost: connections are kept, and writes do
        not wait for the disk. Raises `SetupError` if PostgreSQL's client is not installed.
        """
        from sqlalchemy import create_engine
        from sqlalchemy.pool import NullPool, QueuePool

        if self.url is None:
            path = Path(str(self)).absolute()
            pool = QueuePool if temporary else NullPool
            return create_engine(
                "sqlite://", creator=lambda: connect_file(path, seconds, read_only, not temporary), poolclass=pool
            )
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


def address_of(text: str | None) -> Address:
    """Parse an address: a path, `sqlite:///PATH` or `postgresql://…`; None is the user's own file.

    Raises `OptionError` for other kinds of databases, and `SetupError` for a user without a home directory.
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
    """The file in the user's data folder. Raises `SetupError` for a user without a home directory."""
    import platformdirs

    folder = platformdirs.user_data_path("vkernels")
    if not folder.is_absolute():
        raise SetupError("this user has no home directory for a tuning database; name one with --db")
    return folder / FILE


def site_files() -> tuple[Path, ...]:
    """The site's databases that exist: `vkernels/tuning.sqlite` in the folders of `XDG_DATA_DIRS`, in their order."""
    import platformdirs

    folders = platformdirs.site_data_dir("vkernels", multipath=True).split(os.pathsep)
    files = dict.fromkeys(Path(folder) / FILE for folder in folders if Path(folder).is_absolute())
    return tuple(file for file in files if file.is_file())


def _read_mode(path: Path) -> str:
    # In a folder that is not writable, SQLite cannot create its auxiliary files.
    is_immutable = not os.access(path.parent, os.W_OK) and not path.with_name(f"{path.name}-wal").exists()
    return "ro&immutable=1" if is_immutable else "ro"


def _url(text: str) -> URL:
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        return make_url(text)
    except (ArgumentError, ValueError):  # whose message may contain the password
        raise OptionError("--db: expected postgresql://USER@HOST:PORT/NAME; this URL cannot be read") from None


def _shown(url: URL) -> str:
    query = {name: HIDDEN if name in SECRETS else value for name, value in url.query.items()}
    plain = url.set(drivername="postgresql", query=query)
    return plain.render_as_string(hide_password=True).replace(quote(HIDDEN), HIDDEN)


def connect_file(path: Path, seconds: float, read_only: bool, durable: bool = True) -> sqlite3.Connection:
    """Open an SQLite file, for any thread; it waits at most `seconds` for others. Raises `sqlite3.Error`."""
    import sqlite3

    path = path.absolute()
    uri = f"{path.as_uri()}?mode={_read_mode(path) if read_only else 'rw'}"
    connection = sqlite3.connect(uri, uri=True, timeout=seconds, isolation_level=None, check_same_thread=False)
    connection.text_factory = lambda data: data.decode(errors="replace")  # damaged text makes only its entry unreadable
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
    return connection
