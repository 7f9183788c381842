"""Entries as one JSON document: what `vk db export` writes and `vk db import` takes, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from vkernels.ir.errors import FileError

from .entry import Entry
from .entry_json import entry_from_json, entry_to_json, parse

SCHEMA = 1
KIND = "vkernels tuning entries"
SCHEMA_FILE = Path(__file__).parent / "schema.json"
"""The JSON Schema of a document."""
MOST_BYTES = 1 << 28
MOST_ENTRIES = 1_000_000


def document_of(entries: Iterable[Entry]) -> dict[str, Any]:
    """Entries as one object."""
    return {"schema_version": SCHEMA, "kind": KIND, "entries": [entry_to_json(entry) for entry in entries]}


def entries_of(document: object, where: str = "the document") -> tuple[Entry, ...]:
    """The entries that `document_of` wrote. Raises `FileError` for the first that is not as it should be."""
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise FileError(f"{where}: holds no tuning entries: expected an object whose kind is {KIND!r}")
    version = document.get("schema_version")
    if type(version) is not int or version != SCHEMA:
        raise FileError(f"{where}: schema_version: this vkernels reads {SCHEMA}, not {str(version)[:20]}")
    if document.keys() != {"schema_version", "kind", "entries"} or not isinstance(document["entries"], list):
        raise FileError(f"{where}: expected schema_version, kind and a list of entries")
    if len(document["entries"]) > MOST_ENTRIES:
        raise FileError(f"{where}: holds more than {MOST_ENTRIES} entries")
    return tuple(entry_from_json(each, f"{where}: entry {n}") for n, each in enumerate(document["entries"]))


def read_entries(path: Path) -> tuple[Entry, ...]:
    """The entries in a file. Raises `FileError`."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > MOST_BYTES:
        raise FileError(f"{path}: holds more than {MOST_BYTES >> 20} MiB")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise FileError(f"{path}: is no text in UTF-8") from None
    return entries_of(parse(text, str(path)), str(path))
