"""Refuse misspelt fields of what authors write: plans, pins, budgets, tunings."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any, Self

from .did_you_mean import did_you_mean
from .errors import OptionError


class KnownFields:
    """A base of dataclasses that raises `OptionError`, which names similar fields, for a field that does not exist."""

    __slots__ = ()

    def __new__(cls, *_: object, **given: object) -> Self:
        known = _names(cls)  # type: ignore[arg-type]  # mypy takes no class for hashable that may be a subclass
        if not given.keys() <= known.keys():  # plans are made often, and this is fast
            name = next(each for each in given if each not in known)
            raise OptionError(f"vk.{cls.__name__}: there is no field {name!r}; {did_you_mean(name, [*known])}")
        return super().__new__(cls)


@cache
def _names(dataclass: Any) -> dict[str, None]:
    """The fields of a dataclass, in order."""
    return dict.fromkeys(each.name for each in fields(dataclass))
