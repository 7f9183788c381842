"""Strict reading of frozen dataclasses from what JSON or TOML gives: wrong kinds and unknown names are refused."""

from __future__ import annotations

import math
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields
from fractions import Fraction
from typing import Any, NoReturn, TypeVar

from vkernels.ir.errors import FileError

Record = TypeVar("Record")

MAX_NUMBER = 1 << 50
MAX_TEXT_CHARACTERS = 1000
MAY_BE_ZERO = {"barriers", "shared_reserved", "scalar_registers", "tensor_memory", "places"}
NOTHING: Mapping[str, object] = types.MappingProxyType({})
FRACTION = re.compile(r"([1-9][0-9]?)(?:/([1-9][0-9]?))?")


@dataclass(frozen=True)
class RecordPlace:
    """Where in a file a value stands, for messages: `FILE: ENTRY: FIELD`."""

    file: str
    entry: str = ""
    field: str = ""

    def of(self, field: str) -> RecordPlace:
        return RecordPlace(self.file, self.entry, f"{self.field}.{field}" if self.field else field)

    def refuse(self, message: str) -> NoReturn:
        raise FileError(": ".join(filter(None, (self.file, self.entry, self.field, message))))


def read_record(kind: type[Record], value: object, place: RecordPlace, ready: Mapping[str, object] = NOTHING) -> Record:
    """A dataclass from a mapping of its fields; those with a default may be absent, those in `ready` are read already.

    Raises `FileError` that says which field is wrong, missing or unknown.
    """
    if not isinstance(value, dict):
        place.refuse(f"expected a table of fields, got {_shown(value)}")
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    for name in value:
        if name not in known:
            place.refuse(f"there is no field {_shown(name)}; there are {', '.join(known)}")
    for name, field in known.items():
        if name not in value and name not in ready and _is_required(field):
            place.refuse(f"the field `{name}` is missing")
    hints = typing.get_type_hints(kind)
    read = {name: _read(hints[name], item, place.of(name), name) for name, item in value.items() if name not in ready}
    return kind(**read, **ready)


def _is_required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _read(kind: Any, value: object, place: RecordPlace, name: str) -> object:
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        (kind,) = (part for part in parts if part is not type(None))
        return _read(kind, value, place, name)
    if origin is typing.Literal:
        return value if value in parts else place.refuse(f"expected {' or '.join(parts)}, got {_shown(value)}")
    if origin is tuple:
        return _read_tuple(parts, value, place, name)
    if kind in READERS:
        return READERS[kind](value, place, name)
    return read_record(kind, value, place)


def _read_tuple(parts: tuple[Any, ...], value: object, place: RecordPlace, name: str) -> tuple[object, ...]:
    if not isinstance(value, list):
        place.refuse(f"expected a list, got {_shown(value)}")
    many = parts[-1] is Ellipsis
    if not many and len(value) != len(parts):
        place.refuse(f"expected {len(parts)} items, got {len(value)}")
    kinds = [parts[0]] * len(value) if many else parts
    items = zip(kinds, value, strict=True)
    return tuple(_read(kind, item, place.of(str(index)), name) for index, (kind, item) in enumerate(items))


def _read_integer(value: object, place: RecordPlace, name: str) -> int:
    least = 0 if name in MAY_BE_ZERO else 1
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MAX_NUMBER:
        place.refuse(f"expected a whole number from {least} to 2**50, got {_shown(value)}")
    return value


def _read_rate(value: object, place: RecordPlace, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_NUMBER:
        place.refuse(f"expected a number above 0, got {_shown(value)}")
    return float(value)


def _read_switch(value: object, place: RecordPlace, name: str) -> bool:
    return value if isinstance(value, bool) else place.refuse(f"expected true or false, got {_shown(value)}")


def _read_text(value: object, place: RecordPlace, name: str) -> str:
    if not isinstance(value, str) or not value or len(value) > MAX_TEXT_CHARACTERS or not value.isprintable():
        place.refuse(f"expected a printable text of at most {MAX_TEXT_CHARACTERS} characters, got {_shown(value)}")
    return value


def _read_share(value: object, place: RecordPlace, name: str) -> Fraction:
    found = FRACTION.fullmatch(value) if isinstance(value, str) else None
    share = Fraction(int(found[1]), int(found[2] or 1)) if found else None
    if share is None or share > 1:
        place.refuse(f'expected a share such as "1/8", got {_shown(value)}')
    return share


READERS = {int: _read_integer, float: _read_rate, bool: _read_switch, str: _read_text, Fraction: _read_share}


def read_names(value: object, place: RecordPlace) -> Mapping[str, tuple[str, ...]]:
    """A table of lists of texts."""
    if not isinstance(value, dict):
        place.refuse(f"expected a table, got {_shown(value)}")
    texts: dict[str, tuple[str, ...]] = {}
    for name, items in value.items():
        here = place.of(name if name.isprintable() else repr(name))
        texts[name] = tuple(map(str, _read_tuple((str, ...), items, here, name)))
    return texts


def _shown(value: object) -> str:
    """A value as it may be printed: short, and without a terminal's control characters."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 200:
        return "a number of more than 200 bits"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
