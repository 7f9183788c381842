"""Entries as rows of the table, and the statements that write them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from .entry import Entry
from .entry_json import MAX_FAILURE_TEXT, entry_from_text, entry_to_text, harmless
from .tables import entries


def shape_text(shape: Mapping[str, int]) -> str:
    return json.dumps(dict(shape), sort_keys=True)


def rows_of(given: Iterable[Entry]) -> list[dict[str, Any]]:
    """Rows in the order of their identities, so that writers never wait for each other in a circle."""
    found: dict[str, Entry] = {}
    for entry in given:
        known = found.get(entry.identity)
        if known is None or entry.standing >= known.standing:
            found[entry.identity] = entry
    return [_row(found[identity]) for identity in sorted(found)]


def _row(entry: Entry) -> dict[str, Any]:
    """What is written; read back first, so that nothing comes in which would not come out. What a failure says may
    have been anything: it is cut and cleaned."""
    entry = replace(entry, text=harmless(entry.text[:MAX_FAILURE_TEXT]))
    document = entry_to_text(entry)
    entry_from_text(document)
    return {
        "identity": entry.identity, "question": entry.key.digest, "kernel": entry.kernel,
        "compilers": entry.key.compilers, "shape": shape_text(entry.shape), "standing": entry.standing,
        "rank": entry.rank, "created": entry.provenance.when, "document": document,
        "asked": entry.asked.digest if entry.first_hash else "",
    }  # fmt: skip


def insert(connection: Connection) -> Any:
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(entries)
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(entries)


def upsert(connection: Connection) -> Any:
    statement = insert(connection)
    new = statement.excluded
    columns = [column.name for column in entries.columns if column.name not in ("id", "identity")]
    return statement.on_conflict_do_update(
        index_elements=["identity"],
        set_={name: new[name] for name in columns},
        where=new.standing >= entries.c.standing,
    )
