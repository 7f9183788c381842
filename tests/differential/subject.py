"""What the tester knows of a function: how its arguments are drawn, and what must come of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .drawing import Draw
from .formats import Array
from .numbers import Number

Given = Mapping[str, Any]
"""Arguments by name: floats as `Number`, integers as arrays of NumPy, None where there is none."""


@dataclass(frozen=True)
class Expected:
    """A result: a `Number`, to be rounded to `dtype`, or integers that must be equal."""

    value: Number | Array
    dtype: str


@dataclass(frozen=True)
class Between:
    """Integers that must lie between two others."""

    low: Array
    high: Array
    dtype: str = "int64"


Results = list[Expected | Between | None]
Contents = dict[str, Array]


def _nothing(given: Contents, options: Mapping[str, Any], random: np.random.Generator) -> None:
    """Leaves what was drawn."""


@dataclass(frozen=True)
class Subject:
    """`draw`: adds arguments, returns options. `expect`: the results, None for what must be None. `prepare`: changes
    what arrays will hold. `without`: kinds of values that say nothing here. `indexed`: wrong indices are to be refused.
    `in_place`: an `out` that is an argument must give the right results, not only be refused."""

    name: str
    draw: Callable[[Draw], dict[str, Any]]
    expect: Callable[[Given, Mapping[str, Any]], Results]
    prepare: Callable[[Contents, Mapping[str, Any], np.random.Generator], None] = _nothing
    without: tuple[str, ...] = ()
    indexed: bool = True
    in_place: bool = False


FINITE = ("specials", "infinities", "nan")
"""Kinds of values that have what is no finite number."""


def like(value: Number | Array, dtype: str) -> Expected:
    return Expected(value, dtype)
