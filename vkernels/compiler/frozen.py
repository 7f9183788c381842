"""Hashable keys of plans and facts."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any


def frozen(value: Any) -> Hashable:
    """A hashable key: dataclasses, mappings and sequences as tuples, mappings in sorted order."""
    if is_dataclass(value):
        return tuple(frozen(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, Mapping):
        return tuple(sorted((key, frozen(entry)) for key, entry in value.items()))
    if isinstance(value, list | tuple):
        return tuple(map(frozen, value))
    return value  # type: ignore[no-any-return]
