"""The tables, and whether a database is one of ours: nothing is written into one that is not."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sql

from vkernels.ir.errors import FileError

SCHEMA = 1
APPLICATION = 0x766B7475
"""What SQLite's files of ours are marked with: `vktu`."""
LOCK = 0x766B7475
"""PostgreSQL's advisory lock under which tables are made."""

metadata = sql.MetaData()

about = sql.Table(
    "vkernels_about",
    metadata,
    sql.Column("name", sql.String(40), primary_key=True),
    sql.Column("value", sql.String(200), nullable=False),
)

entries = sql.Table(
    "vkernels_entries",
    metadata,
    sql.Column("id", sql.BigInteger().with_variant(sql.Integer, "sqlite"), primary_key=True, autoincrement=True),
    sql.Column("identity", sql.String(64), nullable=False, unique=True),
    sql.Column("question", sql.String(64), nullable=False),
    sql.Column("kernel", sql.Text, nullable=False),
    sql.Column("compilers", sql.Text, nullable=False),
    sql.Column("shape", sql.Text, nullable=False),
    sql.Column("standing", sql.SmallInteger, nullable=False),
    sql.Column("rank", sql.Float, nullable=False),
    sql.Column("created", sql.Float, nullable=False),
    sql.Column("document", sql.Text, nullable=False),
    sql.Column("asked", sql.String(64), nullable=False, server_default=""),
    sql.Index("vkernels_entries_asked", "question", "standing", "rank"),
    sql.Index("vkernels_entries_kernel", "kernel"),
    sql.Index("vkernels_entries_versions", "asked", "standing", "rank"),
)
"""`document`: the entry as JSON, which alone counts; the rest is there to find it by. `asked`: `Entry.asked` where that
is another question, of a kernel with tunable constants; databases of before had no such column, and get it."""


def check_ours(connection: sql.Connection, where: str) -> bool:
    """Whether our tables are there; False of an empty database. Raises `FileError` for one that is another's."""
    names = set(sql.inspect(connection).get_table_names())
    ours = {table.name for table in metadata.sorted_tables}
    marked = _mark(connection)
    if not names & ours:
        if connection.dialect.name == "sqlite" and (names or marked):
            raise FileError(f"{where}: is a database of something else; nothing was changed")
        return False
    if not ours <= names or marked not in (None, APPLICATION):
        raise FileError(f"{where}: is no tuning database, or a damaged one; nothing was changed")
    found = connection.execute(sql.select(about.c.value).where(about.c.name == "schema")).scalar()
    if found != str(SCHEMA):
        raise FileError(
            f"{where}: its tables are of version {str(found)[:20]!r}, which this vkernels does not know (it knows "
            f"{SCHEMA}); nothing was changed"
        )
    return True


def make_tables(connection: sql.Connection, where: str) -> None:
    """Make our tables where there are none, within a transaction that nobody else is in. Raises as `check_ours`."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK})")
    if check_ours(connection, where):
        if not has_versions(connection):
            connection.exec_driver_sql(f"ALTER TABLE {entries.name} ADD COLUMN asked VARCHAR(64) NOT NULL DEFAULT ''")
            next(index for index in entries.indexes if "asked" in index.columns).create(connection)
        return
    metadata.create_all(connection)
    connection.execute(sql.insert(about), [{"name": "product", "value": "vkernels"}, {"name": "schema", "value": "1"}])
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION}")


def prove_writable(connection: sql.Connection) -> None:
    """Write a row as it is."""
    connection.execute(sql.update(about).where(about.c.name == "product").values(value=about.c.value))


def has_versions(connection: sql.Connection) -> bool:
    """Whether entries can be found by what calls ask that leave tunable constants open."""
    return any(column["name"] == "asked" for column in sql.inspect(connection).get_columns(entries.name))


def _mark(connection: sql.Connection) -> Any:
    if connection.dialect.name != "sqlite":
        return None
    return connection.exec_driver_sql("PRAGMA application_id").scalar()
