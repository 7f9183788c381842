"""Kinds of arguments of library functions that calls of one kind may differ in, or that have parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

from .captured_call import Place


class DynamicScalar(float):
    """A number that may differ between calls of one kind; only kernels receive it."""


class LiveInt(int):
    """An integer that may differ between calls of one kind."""


class Bundle:
    """A dataclass of tensors, None or numbers that is one argument; calls with it are told apart by its parts."""


def leaves(values: Sequence[Any]) -> Iterator[tuple[Place, Any]]:
    """The arguments of a call, and in place of one with parts these."""
    for position, value in enumerate(values):
        if isinstance(value, Bundle):
            yield from (((position, each.name), getattr(value, each.name)) for each in fields(value))  # type: ignore[arg-type]
        else:
            yield (position, None), value
