"""Entries as one JSON document: what `vk db export` writes and `vk db import` takes, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from vkernels.ir.errors import FileError

from .entry import Entry
from .entry_json import DOCUMENT_KIND, MAX_ENTRIES, SCHEMA_VERSION, entry_from_json, entry_to_json, parse

SCHEMA_FILE = Path(__file__).parent / "schema.json"
"""The JSON Schema of a document, as `document_schema` generates it."""
MAX_FILE_BYTES = 1 << 28


def document_of(entries: Iterable[Entry]) -> dict[str, Any]:
    """Entries as one object."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": DOCUMENT_KIND,
        "entries": [entry_to_json(entry) for entry in entries],
    }


def entries_of(document: object, where: str = "the document") -> tuple[Entry, ...]:
    """The entries that `document_of` wrote. Raises `FileError` for the first that is not as it should be."""
    if not isinstance(document, dict) or document.get("kind") != DOCUMENT_KIND:
        raise FileError(f"{where}: holds no tuning entries: expected an object whose kind is {DOCUMENT_KIND!r}")
    version = document.get("schema_version")
    if type(version) is not int or version != SCHEMA_VERSION:
        raise FileError(f"{where}: schema_version: this vkernels reads {SCHEMA_VERSION}, not {str(version)[:20]}")
    if document.keys() != {"schema_version", "kind", "entries"} or not isinstance(document["entries"], list):
        raise FileError(f"{where}: expected schema_version, kind and a list of entries")
    if len(document["entries"]) > MAX_ENTRIES:
        raise FileError(f"{where}: holds more than {MAX_ENTRIES} entries")
    return tuple(entry_from_json(each, f"{where}: entry {n}") for n, each in enumerate(document["entries"]))


def read_entries(path: Path) -> tuple[Entry, ...]:
    """The entries in a file. Raises `FileError`."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > MAX_FILE_BYTES:
        raise FileError(f"{path}: holds more than {MAX_FILE_BYTES >> 20} MiB")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise FileError(f"{path}: is no text in UTF-8") from None
    return entries_of(parse(text, str(path)), str(path))
