"""Read untrusted JSON files within bounds; errors name the line."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from vkernels.ir.errors import FileError

MAX_FILE_BYTES = 1 << 29
"""Bytes of text, unpacked."""
MAX_NAME_CHARACTERS = 1000
"""Characters of a name."""
At = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """A JSON file's text and data; `refuse` finds the line of each part."""

    path: Path
    text: str
    data: Any

    def refuse(self, at: At, message: str) -> NoReturn:
        """Raises `FileError` with the file, the line, the place in the document and the message."""
        where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in at).lstrip(".")
        line = self.text.count("\n", 0, _position(self.text, at)) + 1
        raise FileError(f"{self.path}:{line}: {where + ': ' if where else ''}{message}")

    def fields(self, data: object, at: At, must: Collection[str], may: Collection[str] = ()) -> Mapping[str, Any]:
        """Check for an object with all fields of `must`, and no others but those of `may`."""
        if isinstance(data, _Twice):
            self.refuse(at, f"the field {shown(data.field)} stands twice")
        if not isinstance(data, dict):
            self.refuse(at, f"expected an object, got {shown(data)}")
        for name in must:
            if name not in data:
                self.refuse(at, f"the field {name} is missing")
        for name in data:
            if name not in must and name not in may:
                self.refuse((*at, name), f"there is no such field; there are {', '.join((*must, *may))}")
        return data

    def items(self, data: object, at: At) -> list[Any]:
        """A list."""
        return data if isinstance(data, list) else self.refuse(at, f"expected a list, got {shown(data)}")

    def whole(self, data: object, at: At, most: int = 1 << 60) -> int:
        """Check for a whole number from 0 to `most`."""
        if type(data) is int and 0 <= data <= most:
            return data
        self.refuse(at, f"expected a whole number from 0 to {most}, got {shown(data)}")

    def number(self, data: object, at: At) -> float:
        """A number from 0 to 1e30."""
        if type(data) in (int, float) and 0 <= data <= 1e30:  # type: ignore[operator]
            return float(data)  # type: ignore[arg-type]
        self.refuse(at, f"expected a number from 0, got {shown(data)}")

    def truth(self, data: object, at: At) -> bool:
        """true or false."""
        return data if type(data) is bool else self.refuse(at, f"expected true or false, got {shown(data)}")

    def name(self, data: object, at: At) -> str:
        """Check for a printable text."""
        if type(data) is str and len(data) <= MAX_NAME_CHARACTERS and data.isprintable():
            return data
        self.refuse(at, f"expected a printable text of at most {MAX_NAME_CHARACTERS} characters, got {shown(data)}")


def read_json(path: Path | str) -> Document:
    """Read a `.json` or `.json.gz` file. Raises `FileError` with the line: missing, too large, or not JSON."""
    path = Path(path)
    text = read_text(path)
    try:
        data = json.loads(text, parse_int=_int, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise FileError(f"{path}:{error.lineno}: not JSON: {error.msg} (column {error.colno})") from None
    except RecursionError:
        raise FileError(f"{path}: not JSON as it should be: nested too deeply") from None
    return Document(path, text, data)


def read_text(path: Path) -> str:
    """Read a text file, decompressed if its name ends in `.gz`. Raises `FileError`."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise FileError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MAX_FILE_BYTES:
        raise FileError(f"{path}: more than {MAX_FILE_BYTES} bytes of text")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FileError(f"{path}:{line}: not UTF-8 text") from None


def shown(value: object) -> str:
    """Format a value for a message: short, without control characters."""
    if isinstance(value, dict | list | _Twice):
        return "a list" if isinstance(value, list) else "an object"
    if isinstance(value, int) and value.bit_length() > 200:
        return "a huge number"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


@dataclass(frozen=True)
class _Twice:
    """In the place of an object of which a field stands twice; `Document.fields` refuses it."""

    field: str


def _int(digits: str) -> int | float:
    return int(digits) if len(digits) <= 30 else float(digits)  # no place takes the large ones


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | _Twice:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    seen: set[str] = set()
    return next(_Twice(name) for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]


def _position(text: str, at: At) -> int:
    """Where in a JSON text the part `at` begins; of its nearest parent where there is no such part."""
    decoder, position = json.JSONDecoder(parse_int=len), _skip(text, 0)
    for part in at:
        found, key = _skip(text, position + 1), 0
        while text[found] not in "]}":
            name = None
            if text[position] == "{":
                name, found = decoder.raw_decode(text, found)
                found = _skip(text, _skip(text, found) + 1)  # past the colon
            if part in (name, key) and type(part) is (int if name is None else str):
                position = found
                break
            found = _skip(text, decoder.raw_decode(text, found)[1])
            found = _skip(text, found + 1) if text[found] == "," else found
            key += 1
        else:
            return position
    return position


def _skip(text: str, position: int) -> int:
    while text[position].isspace():
        position += 1
    return position
