"""Frozen dataclasses from what JSON made of them."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints


def read_as(kind: Any, value: Any) -> Any:
    """What `dataclasses.asdict` and JSON made of a value of this kind. Raises `ValueError` for anything else."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin is types.UnionType:
        (some,) = (part for part in parts if part is not type(None))
        return None if value is None else read_as(some, value)
    if origin is tuple and isinstance(value, list):
        return tuple(read_as(parts[0], each) for each in value)
    if origin is Mapping and isinstance(value, dict):
        return {name: read_as(parts[1], each) for name, each in value.items()}
    if isinstance(kind, type) and is_dataclass(kind) and isinstance(value, dict):
        hints = _hints(kind)
        if value.keys() <= hints.keys():
            return kind(**{name: read_as(hints[name], each) for name, each in value.items()})
    if kind is float and type(value) in (int, float):
        return float(value)
    if isinstance(kind, type) and type(value) is kind:
        return value
    raise ValueError(f"{type(value).__name__} where {kind} belongs")


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return get_type_hints(kind)
