"""What one argument may be: rules made of its annotation, each with the text that messages give."""

from __future__ import annotations

import math
import operator
import sys
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_args, get_origin

import numpy as np

from vkernels.ir.errors import ArgumentError
from vkernels.language.dtypes import DTYPES
from vkernels.runtime.arrays import is_torch
from vkernels.runtime.bind_arguments import as_scalar

from .annotations import NumberRange, OneOf, Written
from .sizes import DeclaredShape

Accept = Callable[[Any], Any]
Said = TypeVar("Said")

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_LARGEST = sys.float_info.max


class MismatchError(Exception):
    """A value is not what a rule takes."""


@dataclass(frozen=True)
class TensorRule:
    """A tensor of some dtypes and a shape. `written`: whether, and as what, the function writes it."""

    shape: DeclaredShape
    dtypes: tuple[str, ...]
    written: Written | None = None


@dataclass(frozen=True)
class ValueRule:
    """Anything but a tensor. `accept` gives the value as the function gets it, or raises `MismatchError`."""

    expected: str
    accept: Accept
    plain: tuple[type, float, float] | None = None


@dataclass(frozen=True)
class Rules:
    """All that an argument may be."""

    tensors: tuple[TensorRule, ...]
    values: tuple[ValueRule, ...]

    @property
    def expected(self) -> str:
        tensor = ("a torch tensor or a NumPy array",) if self.tensors else ()
        return " or ".join((*tensor, *(rule.expected for rule in self.values)))

    @property
    def plain(self) -> tuple[type, float, float] | None:
        """Kind and range of numbers that are taken as they are; None where it is not that simple."""
        return self.values[0].plain if len(self.values) == 1 else None

    def accept(self, value: Any) -> Any:
        """A value that is no tensor as the function gets it. Raises `MismatchError`."""
        for rule in self.values:
            try:
                return rule.accept(value)
            except MismatchError:
                continue
        raise MismatchError


def rules_of(annotation: Any) -> Rules:
    """The rules that an annotation stands for. Raises `TypeError` for one that declares nothing."""
    tensors: list[TensorRule] = []
    values: list[ValueRule] = []
    for one, extra in _alternatives(annotation, ()):
        if hasattr(one, "dim_str"):
            dtypes = tuple(DTYPES) if not isinstance(one.dtypes, list | tuple) else one.dtypes
            shape, allowed = DeclaredShape.of(one.dim_str), tuple(dtype for dtype in DTYPES if dtype in dtypes)
            tensors.append(TensorRule(shape, allowed, _first(extra, Written)))
        else:
            values.append(_value_rule(one, _first(extra, NumberRange), _first(extra, OneOf)))
    return Rules(tuple(tensors), tuple(values))


def _alternatives(annotation: Any, extra: tuple[Any, ...]) -> list[tuple[Any, tuple[Any, ...]]]:
    if get_origin(annotation) is Annotated:
        return _alternatives(annotation.__origin__, (*extra, *annotation.__metadata__))
    if get_origin(annotation) in (typing.Union, types.UnionType):
        return [found for each in get_args(annotation) for found in _alternatives(each, extra)]
    return [(annotation, extra)]


def _first(extra: tuple[Any, ...], kind: type[Said]) -> Said | None:
    """What `Annotated` says of one kind."""
    return next((each for each in extra if isinstance(each, kind)), None)


def _value_rule(kind: Any, within: NumberRange | None, choice: OneOf | None) -> ValueRule:
    if kind is None or kind is type(None):
        return ValueRule("None", _none)
    if choice is not None:
        return _choice(choice.names)
    if get_origin(kind) is tuple:
        return _tuple(tuple(rules_of(each) for each in get_args(kind)))
    if kind is bool:
        return ValueRule("True or False", _bool)
    if kind is int:
        return _number("an integer", _int, within or NumberRange(_LEAST, _MOST))
    if kind is float:
        return _number("a finite number", _float, within)
    if isinstance(kind, type) and kind is not object:
        return ValueRule("text" if kind is str else f"a {kind.__name__}", _instance(kind))
    raise TypeError(f"{kind!r} declares no argument of the library")


def _none(value: Any) -> None:
    if value is not None:
        raise MismatchError


def _bool(value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise MismatchError
    return value if isinstance(value, bool) else bool(value)


def _int(value: Any) -> int:
    """An integer of any library; numbers of Python's stay the very same, as replays know them by identity."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, bool | np.bool_) or str(getattr(value, "dtype", "")).removeprefix("torch.") == "bool":
        raise MismatchError
    try:
        return operator.index(value)
    except Exception:  # what `__index__` of any value may raise
        raise MismatchError from None


def _float(value: Any) -> float:
    if not isinstance(value, float):
        if isinstance(value, bool | np.bool_):
            raise MismatchError
        try:
            number = as_scalar(value, "")
            value = float(number)
        except (ArgumentError, OverflowError):
            raise MismatchError from None
        if isinstance(number, bool):
            raise MismatchError
    if not math.isfinite(value):
        raise MismatchError
    return value  # type: ignore[no-any-return]


def _number(text: str, convert: Accept, within: NumberRange | None) -> ValueRule:
    def accept(value: Any) -> Any:
        number = convert(value)
        if within is not None and not (within.holds(number) and (convert is _float or _LEAST <= number <= _MOST)):
            raise MismatchError
        return number

    is_plain = within is None or (within.low, within.high) == (_LEAST, _MOST)
    bits = " of 64 bits" if convert is _int else ""
    low, high = (-_LARGEST, _LARGEST) if within is None else (within.low, min(within.high, _LARGEST))
    kind = float if convert is _float else int
    plain = None if within is not None and within.below else (kind, low, min(high, _MOST) if kind is int else high)
    return ValueRule(f"{text}{bits}" if is_plain else f"{text} {within}", accept, plain)


def _choice(allowed: tuple[Any, ...]) -> ValueRule:
    def accept(value: Any) -> Any:
        if not isinstance(value, str) or value not in allowed:
            raise MismatchError
        return value

    return ValueRule(f"one of {', '.join(allowed)}", accept)


def _tuple(parts: tuple[Rules, ...]) -> ValueRule:
    def accept(value: Any) -> Any:
        if not isinstance(value, tuple | list) or len(value) != len(parts):
            raise MismatchError
        found = tuple(rules.accept(each) for rules, each in zip(parts, value, strict=True))
        return value if all(a is b for a, b in zip(found, value, strict=True)) and type(value) is tuple else found

    return ValueRule(f"({', '.join(rules.expected for rules in parts)})", accept)


def _instance(kind: type) -> Accept:
    def accept(value: Any) -> Any:
        if not isinstance(value, kind):
            raise MismatchError
        return value

    return accept


def is_tensor(value: Any) -> bool:
    """Whether a value is of a kind that tensor rules look at."""
    return isinstance(value, np.ndarray) or is_torch(value)
