"""Devices of one's own, from a TOML file."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vkernels.ir.errors import FileError, OptionError

from .entries import NOT_GIVEN, RecordPlace, read_target
from .table import known_targets, parsed
from .target import Target

NOT_INHERITED = {"key", "slices", "note", "sources", "unverified", "like"}


def load_targets(path: Path | str) -> dict[str, Target]:
    """The devices of a TOML file by key: a table each, named by its key, with the fields of `Target`.

    With `like = "KEY"` of a known device, or `like = "KEY:SLICE"` of a slice of one or of this machine's CPU, a table
    needs only the fields that differ; slices, note, sources and unverified fields are not taken over. `FileError` names
    the file, the table and the field that is wrong.
    """
    path = Path(path)
    tables = parsed(path, "TOML", tomllib.loads)
    if not tables:
        raise FileError(f"{path}: describes no device")
    return {
        key: _own(key, fields, RecordPlace(str(path), key if key.isprintable() else repr(key)))
        for key, fields in tables.items()
    }


def _own(key: str, fields: object, place: RecordPlace) -> Target:
    if not isinstance(fields, dict):
        place.refuse("expected a table of fields, `[my-device]`")
    if "key" in fields:
        place.of("key").refuse("the name of the table is the key")
    if key in known_targets():
        place.refuse("is the key of a known device; choose another, and say `like` to start from that one")
    like = fields.get("like")
    if like is None:
        return read_target({**fields, "key": key}, place)
    known = _known(like, place.of("like"))
    target = read_target({**_changed(_as_fields(known), fields), "key": key}, place)
    return dataclasses.replace(target, core=known.core)


def _known(like: object, place: RecordPlace) -> Target:
    """The device that `like` names: a known one, a slice of one, or of this machine's CPU."""
    if isinstance(like, str) and ":" in like:
        from .present import present_cpu
        from .slices import target_or_slice

        try:
            return target_or_slice(like, {**known_targets(), "cpu": present_cpu()})
        except OptionError as error:
            place.refuse(str(error))
    if not isinstance(like, str) or like not in known_targets():
        place.refuse(f"expected the key of a known device: {', '.join(known_targets())}")
    return known_targets()[like]


def _as_fields(target: Target) -> dict[str, Any]:
    fields = {
        each.name: getattr(target, each.name) for each in dataclasses.fields(target) if each.name not in NOT_GIVEN
    }
    for name in ("sizes", "rates", "green_contexts"):
        if fields[name] is not None:
            plain = {n: part for n, part in dataclasses.asdict(fields[name]).items() if part is not None}
            fields[name] = {n: list(part) if isinstance(part, tuple) else part for n, part in plain.items()}
    return {n: value for n, value in fields.items() if n not in NOT_INHERITED and value not in (None, "")}


def _changed(base: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """`base`, with `fields` in place of its own; tables are merged field by field."""
    merged = dict(base)
    for name, value in fields.items():
        both = isinstance(value, dict) and isinstance(base.get(name), dict)
        merged[name] = {**base[name], **value} if both else value
    return merged
