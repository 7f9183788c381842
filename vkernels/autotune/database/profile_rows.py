"""Profiles of calls in the database, in a table of their own. Everything read is validated."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import msgspec
import sqlalchemy as sql
from msgspec import Meta, Struct
from sqlalchemy import Connection

from vkernels.compiler.call_profiles import CallKey, CallProfile
from vkernels.ir.errors import FileError
from vkernels.ir.plan_json import plan_from_json, plan_to_json

from .entry_json import MAX_ENTRY_TEXT, MAX_NAMES, Count, LongText, Name, Number, Sha256, Text, Whole, parse
from .storage import insert, profiles

WHERE = "the profile"
MAX_GAPS = 1000
_OF_GPUS = {"gaps": (), "parts": 1}
"""Fields that are left out where they say nothing: earlier versions do not know them."""


class _Key(Struct, forbid_unknown_fields=True):
    kernel: Name
    kernel_hash: Sha256
    shape: Annotated[dict[Name, Whole], Meta(max_length=MAX_NAMES)]
    dtypes: LongText
    layouts: LongText
    slice: Name
    device: Text
    code: Sha256


class _Profile(Struct, forbid_unknown_fields=True):
    key: _Key
    plan: dict[str, Any]
    calls: Count
    shortest: Number
    lower: Number
    p50: Number
    upper: Number
    p99: Number
    longest: Number
    gap: Number | None
    short_gap: Number | None
    beside: Annotated[list[Name], Meta(max_length=MAX_NAMES)]
    when: Number
    gaps: Annotated[list[Number], Meta(max_length=MAX_GAPS)] = []
    parts: Count = 1


def profile_to_text(profile: CallProfile) -> str:
    """A profile as one line of JSON."""
    document = {**asdict(profile), "plan": plan_to_json(profile.plan)}
    document = {name: value for name, value in document.items() if name not in _OF_GPUS or value != _OF_GPUS[name]}
    return json.dumps(document, sort_keys=True, allow_nan=False)


def profile_from_text(text: str) -> CallProfile:
    """Parse a profile. Raises `FileError` for an invalid one."""
    if len(text) > MAX_ENTRY_TEXT:
        raise FileError(f"{WHERE}: has more than {MAX_ENTRY_TEXT} characters")
    try:
        found = msgspec.convert(parse(text, WHERE), _Profile)
    except msgspec.ValidationError as error:
        raise FileError(f"{WHERE}: {error}") from None
    times = found.shortest, found.lower, found.p50, found.upper, found.p99, found.longest
    if list(times) != sorted(times):
        raise FileError(f"{WHERE}: expected shortest ≤ lower ≤ p50 ≤ upper ≤ p99 ≤ longest")
    if found.gaps != sorted(found.gaps):
        raise FileError(f"{WHERE}: expected gaps in ascending order")
    return CallProfile(
        CallKey(**msgspec.structs.asdict(found.key)), plan_from_json(found.plan, f"{WHERE}: plan"), found.calls, *times,
        found.gap, found.short_gap, tuple(found.beside), found.when,
        tuple(found.gaps), found.parts,
    )  # fmt: skip


def add_profiles(connection: Connection, given: Sequence[CallProfile]) -> None:
    """Store profiles; each replaces one of the same identity."""
    for each in sorted(given, key=lambda profile: profile.identity):  # so that concurrent writers cannot deadlock
        document = profile_to_text(each)
        profile_from_text(document)  # only what can be read is stored
        row = {
            "identity": each.identity, "call": each.key.digest, "kernel": each.key.kernel, "created": each.when,
            "document": document,
        }  # fmt: skip
        statement = insert(connection, profiles)
        columns = {name: statement.excluded[name] for name in row if name != "identity"}
        connection.execute(statement.on_conflict_do_update(index_elements=["identity"], set_=columns), row)


@dataclass(frozen=True)
class StoredProfiles:
    """Profiles of a database; `damaged`: identities of those that are not readable."""

    profiles: tuple[CallProfile, ...]
    damaged: tuple[str, ...] = ()


def stored_in(connection: Connection, kernel: str | None, before: float | None) -> StoredProfiles:
    """All profiles, or those of a kernel, and those made before a time; none in a database of an earlier version."""
    if not sql.inspect(connection).has_table(profiles.name):
        return StoredProfiles(())
    columns = profiles.c
    statement = sql.select(columns.identity, columns.document).order_by(columns.kernel, columns.id)
    if kernel is not None:
        statement = statement.where(columns.kernel == kernel)
    if before is not None:
        statement = statement.where(columns.created < before)
    found: list[CallProfile] = []
    damaged: list[str] = []
    for row in connection.execute(statement):
        try:
            found.append(profile_from_text(row.document))
        except FileError:
            damaged.append(row.identity)
    return StoredProfiles(tuple(found), tuple(damaged))


def remove_profiles(connection: Connection, identities: Sequence[str]) -> int:
    """Delete profiles by their identities; returns how many there were."""
    statement = sql.delete(profiles).where(profiles.c.identity == sql.bindparam("one"))
    return sum(connection.execute(statement, {"one": each}).rowcount for each in identities)


def profiles_with(connection: Connection, key: CallKey) -> list[CallProfile]:
    """The profiles of calls with a key; none in a database of an earlier version. Unreadable ones are left out."""
    if not sql.inspect(connection).has_table(profiles.name):
        return []
    statement = sql.select(profiles.c.document).where(profiles.c.call == key.digest).order_by(profiles.c.identity)
    found = []
    for text in connection.execute(statement).scalars():
        try:
            profile = profile_from_text(text)
        except FileError:
            continue
        if profile.key == key:
            found.append(profile)
    return found
