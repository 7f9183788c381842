"""Read untrusted JSON files into msgspec structs, within bounds; errors name the line."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import msgspec
from msgspec import Meta, Struct

from vkernels.ir.errors import FileError
from vkernels.ir.write_file import write_file

MAX_FILE_BYTES = 1 << 29
"""Bytes of text, after decompression."""
Name = Annotated[str, Meta(max_length=1000)]
Whole = Annotated[int, Meta(ge=0, le=1 << 60)]
Number = Annotated[float, Meta(ge=0, le=1e30)]
T = TypeVar("T")
At = tuple[str | int, ...]


class Record(Struct, frozen=True, forbid_unknown_fields=True):
    """An object of a file. Constraints of its fields hold for files; code that makes a record is not checked."""


@dataclass(frozen=True)
class Document:
    """A JSON file's text and data."""

    path: Path
    text: str
    data: Any

    def convert(self, kind: type[T], format: str = "", version: int = 1, older: tuple[int, ...] = ()) -> T:
        """Return the data as a struct. Raises `FileError` with the line of what does not match.

        `format`, `version`: what the fields `format` and `schema_version` must say, where the file has them; `older`:
        versions that are read as well.
        """
        for name, expected, others in (("format", format, ()), ("schema_version", version, older)) if format else ():
            found = self.data.get(name, expected) if isinstance(self.data, dict) else expected
            if type(found) is not type(expected) or found not in (expected, *others):
                self.refuse((name,), f"expected {expected!r}, got {str(found)[:60]}")
        try:
            return msgspec.convert(self.data, kind)
        except msgspec.ValidationError as error:
            message, _, where = str(error).partition(" - at `$")
        parts = re.findall(r"\.(\w+)|\[(\d+)]", where)
        self.refuse(tuple(int(index) if index else name for name, index in parts), message)

    def refuse(self, at: At, message: str) -> NoReturn:
        """Raise `FileError` with the file, the line, the path in the document and the message."""
        where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in at).lstrip(".")
        line = self.text.count("\n", 0, _position(self.text, at)) + 1
        raise FileError(f"{self.path}:{line}: {where + ': ' if where else ''}{message}")


def read_json(path: Path | str) -> Document:
    """Read a `.json` or `.json.gz` file.

    Raises `FileError`, with the line where there is one: missing, too large, not JSON, a repeated field, or text with
    control characters.
    """
    path = Path(path)
    text = read_text(path)
    try:
        data = json.loads(text, parse_int=_int, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise FileError(f"{path}:{error.lineno}: not JSON: {error.msg} (column {error.colno})") from None
    except RecursionError:
        raise FileError(f"{path}: not JSON: nested too deeply") from None
    document = Document(path, text, data)
    pending: list[tuple[At, Any]] = [((), data)]
    while pending:
        at, value = pending.pop()
        if isinstance(value, _RepeatedField):
            document.refuse(at, f"the field {value.name!r} stands twice")
        if isinstance(value, str) and not value.isprintable():
            document.refuse(at, f"expected a printable text, got {value[:60]!r}")
        if isinstance(value, dict):
            pending += [(at, name) for name in value]
            pending += [((*at, name), part) for name, part in value.items()]
        elif isinstance(value, list):
            pending += [((*at, index), part) for index, part in enumerate(value)]
    return document


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


def write_lines(path: Path | str, head: Mapping[str, object], **lists: Iterable[object]) -> None:
    """Write an object to a `.json` or `.json.gz` file, with a line for each element of its `lists`.

    Raises as `write_file`.
    """
    parts = [json.dumps(head)[1:-1]]
    parts += [f'"{name}": [\n' + ",\n".join(map(json.dumps, items)) + "\n]" for name, items in lists.items()]
    text = "{" + ",\n".join(parts) + "}\n"
    write_file(path, gzip.compress(text.encode(), mtime=0) if Path(path).suffix == ".gz" else text)


@dataclass(frozen=True)
class _RepeatedField:
    name: str


def _int(digits: str) -> int | float:
    return int(digits) if len(digits) <= 30 else float(digits)  # no field accepts the large ones


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | _RepeatedField:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            return _RepeatedField(name)
        found[name] = value
    return found


def _position(text: str, at: At) -> int:
    """Where in a JSON text the part `at` begins, or its nearest parent that exists."""
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
