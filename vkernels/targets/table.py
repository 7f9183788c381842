"""The project's table of devices, `devices.json`, and the reading of such a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

from vkernels.ir.errors import FileError, OptionError

from .entries import RecordPlace, read_target
from .target import Target

TABLE = Path(__file__).parent / "devices.json"
SCHEMA = 1
MAX_TABLE_BYTES = 4 << 20


@cache
def known_targets() -> Mapping[str, Target]:
    """The devices of the project's table by key, in its order."""
    return MappingProxyType(read_table(TABLE))


@cache
def known_sources() -> Mapping[str, str]:
    """Where the figures of the project's table come from, by the names that `Target.sources` gives."""
    return MappingProxyType({name: source["where"] for name, source in _parsed_json(TABLE)["sources"].items()})


def target_named(key: str, targets: Mapping[str, Target] | None = None) -> Target:
    """A device by its key, of the project's table unless others are given; `OptionError` lists them."""
    targets = known_targets() if targets is None else targets
    if key not in targets:
        raise OptionError(f"there is no target {key!r}; there are {', '.join(targets)}")
    return targets[key]


def read_table(path: Path) -> dict[str, Target]:
    """The devices of a file like the project's table. `FileError` names the file, the entry and the field."""
    place = RecordPlace(str(path))
    table = _parsed_json(path)
    if not isinstance(table, dict) or table.get("schema_version") != SCHEMA:
        place.of("schema_version").refuse(f"expected {SCHEMA}")
    sources, devices = table.get("sources"), table.get("devices")
    if not isinstance(sources, dict):
        place.of("sources").refuse("expected a table")
    if not isinstance(devices, list):
        place.of("devices").refuse("expected a list")
    targets: dict[str, Target] = {}
    for number, entry in enumerate(devices):
        target = _read_entry(entry, number, place, sources)
        if target.key in targets:
            RecordPlace(str(path), target.key).refuse("is there twice")
        targets[target.key] = target
    return targets


def _read_entry(entry: object, number: int, place: RecordPlace, sources: Mapping[str, object]) -> Target:
    if not isinstance(entry, dict):
        place.of(f"devices.{number}").refuse("expected a table of fields")
    key = entry.get("key")
    here = RecordPlace(place.file, key if isinstance(key, str) and key.isprintable() else f"devices.{number}")
    target = read_target(entry, here)
    for name in chain(*target.sources.values(), *(slice.sources for slice in target.slices)):
        if name not in sources:
            here.of("sources").refuse(f"there is no source {name!r}")
    return target


def _parsed_json(path: Path) -> Any:
    return parsed(path, "JSON", partial(json.loads, object_pairs_hook=_without_doubles))


def parsed(path: Path, language: str, parse: Callable[[str], Any]) -> Any:
    """The data of a small file in a language; `FileError` where it cannot be had."""
    try:
        return parse(read_small(path))
    except (ValueError, RecursionError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else str(error)
        raise FileError(f"{path}: is no {language}: {reason}") from error


def _without_doubles(pairs: list[tuple[str, object]]) -> dict[str, object]:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is there twice")
    return dict(pairs)


def read_small(path: Path) -> str:
    """The text of a file of at most 4 MiB; `FileError` where it cannot be had."""
    try:
        if not path.is_file():
            raise FileError(f"{path}: is no file")
        with path.open("rb") as file:
            data = file.read(MAX_TABLE_BYTES + 1)
        if len(data) > MAX_TABLE_BYTES:
            raise FileError(f"{path}: is larger than {MAX_TABLE_BYTES} bytes")
        return data.decode()
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise FileError(f"{path}: is no text in UTF-8") from error
