"""Frozen dataclasses of plain values as bytes, and back: a JSON header, then raw bytes. Reading runs no code.

Fields are int, float, bool, str, bytes, string enumerations, dataclasses of such, and tuples of one kind of them.
"""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

_PREFIX = 4


def to_bytes(record: Any) -> bytes:
    """A record as bytes that `from_bytes` reads. Raises `TypeError` for a field of any other kind."""
    parts: list[bytes] = []
    values = _plain(record, parts)
    header = json.dumps([type(record).__name__, values, [len(part) for part in parts]]).encode()
    return b"".join((len(header).to_bytes(_PREFIX, "big"), header, *parts))


def from_bytes(data: bytes, *kinds: type[Any]) -> Any:
    """The record that `to_bytes` wrote, if it is one of `kinds`. Raises `ValueError` for anything else."""
    start = _PREFIX + int.from_bytes(data[:_PREFIX], "big")
    try:
        name, values, lengths = json.loads(data[_PREFIX:start])
        parts = _cut(data, start, lengths)
        return next(_read(kind, values, parts) for kind in kinds if kind.__name__ == name)
    except (ValueError, TypeError, KeyError, IndexError, RecursionError, StopIteration) as error:
        names = " or ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"these bytes are no {names}: {error!r}") from error


def _plain(value: Any, parts: list[bytes]) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name), parts) for field in fields(value)}
    if type(value) is bytes:
        parts.append(value)
        return len(parts) - 1
    if type(value) is tuple:
        return [_plain(each, parts) for each in value]
    if type(value) in (int, float, bool, str) or isinstance(value, StrEnum):
        return value
    raise TypeError(f"a {type(value).__name__} is no field of a record")


def _cut(data: bytes, start: int, lengths: list[int]) -> list[bytes]:
    parts = []
    for length in lengths:
        if type(length) is not int or not 0 <= length <= len(data) - start:
            raise ValueError(f"a part of {length!r} bytes")
        parts.append(data[start : start + length])
        start += length
    if start != len(data):
        raise ValueError("more bytes than parts")
    return parts


def _read(kind: Any, value: Any, parts: list[bytes]) -> Any:
    if isinstance(kind, type) and is_dataclass(kind):
        hints = _hints(kind)
        if not isinstance(value, dict) or value.keys() != hints.keys():
            raise ValueError("not its fields")
        return kind(**{name: _read(hint, value[name], parts) for name, hint in hints.items()})
    if get_origin(kind) is tuple and type(value) is list:
        return tuple(_read(get_args(kind)[0], each, parts) for each in value)
    if kind is bytes and type(value) is int and value >= 0:
        return parts[value]
    if isinstance(kind, type) and issubclass(kind, StrEnum) and type(value) is str:
        return kind(value)
    if kind is not bytes and type(value) is kind:
        return value
    raise ValueError(f"{type(value).__name__} where {kind} belongs")


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return get_type_hints(kind)
