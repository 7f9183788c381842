"""What is PostgreSQL's own: passwords that nobody sees, servers that go away, databases that others use too."""

from __future__ import annotations

import pytest

from vkernels.autotune.database import Database
from vkernels.autotune.database.address import address_of
from vkernels.ir.errors import SetupError

from .making import SHAPE, entry, key
from .postgres import PASSWORD, QUOTED


def wrong(server, postgresql):
    return {
        "a wrong password": postgresql.replace(QUOTED, f"{QUOTED}x"),
        "no such user": postgresql.replace("tuner:", "nobody:"),
        "no such database": f"{server.url}/none",
        "no server": postgresql.replace(str(server.port), "1"),
        "no such port": postgresql.replace(str(server.port), "99999"),
        "an encryption that it has not": f"{postgresql}?sslmode=require",
        "a parameter that there is not": f"{postgresql}?colour=blue",
        "a password in a parameter": f"{server.url.replace(f':{QUOTED}', '')}/none?password={QUOTED}",
        "a host that is no name": postgresql.replace("127.0.0.1", "-"),
    }


def test_no_message_and_no_text_tells_a_password(server, postgresql):
    for name, url in wrong(server, postgresql).items():
        with pytest.raises(SetupError) as caught:
            Database.open(url, seconds=2)
        for secret in (PASSWORD, QUOTED):
            assert secret not in str(caught.value), name
            assert secret not in f"{address_of(url)} {address_of(url)!r}", name
        assert "***" in str(caught.value) or "nobody" in url, name


def test_a_database_that_others_use_too_keeps_theirs(postgresql):
    import psycopg

    with psycopg.connect(postgresql, autocommit=True) as connection:
        connection.execute("CREATE TABLE cats (name TEXT)")
        connection.execute("INSERT INTO cats VALUES ('Tom')")
    with Database.open(postgresql) as database:
        database.add(entry(1))
        database.prune()
        assert database.best(key(), SHAPE) is None
    with psycopg.connect(postgresql) as connection:
        assert connection.execute("SELECT name FROM cats").fetchall() == [("Tom",)]


def test_connections_that_the_server_ends_are_made_anew(postgresql):
    import psycopg

    with Database.open(postgresql) as database:
        database.add(entry(1))
        with psycopg.connect(postgresql, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'vkernels'"
            )
        database.add(entry(2))
        assert len(database.entries()) == 2


def test_reading_makes_no_tables(postgresql):
    import psycopg

    with pytest.raises(Exception, match="empty"):
        Database.open(postgresql, read_only=True)
    with psycopg.connect(postgresql) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE tablename LIKE 'vkernels%'").fetchone() == (0,)


def test_a_database_of_before_gets_what_versions_are_found_by(postgresql):
    import psycopg

    version = entry(1, constants={"times": 4}, first_hash="b" * 64)
    with Database.open(postgresql) as database:
        database.add(entry(2))
    with psycopg.connect(postgresql, autocommit=True) as connection:
        connection.execute("ALTER TABLE vkernels_entries DROP COLUMN asked")  # and its index
    with Database.open(postgresql, read_only=True) as database:
        assert database.versions(version.asked, SHAPE) == ()
        assert database.best(key(), SHAPE) == entry(2)
    with Database.open(postgresql) as database:
        database.add(version)
        assert database.versions(version.asked, SHAPE) == (version,)
        assert database.entries() == (entry(2), version)
