"""Rules for one argument, made of its annotation: dtypes, shapes and values, with their texts in messages.

Shapes name sizes, which are bound and compared: `"*B N"`, `"R+1"`, `"C//groups"`.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_origin

import numpy as np

from vkernels.ir.errors import ArgumentError
from vkernels.language.dtypes import DTYPES
from vkernels.runtime.arrays import is_torch
from vkernels.runtime.bind_arguments import as_scalar

from .annotations import NumberRange, OneOf, Written

Known = Mapping[str, int]

_FORWARD: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


@dataclass(frozen=True)
class DeclaredShape:
    """A declared shape. `sizes`: an expression per dimension, `_` for any; `rest`, `rest_name`: place, name of `*B`."""

    text: str
    sizes: tuple[str, ...]
    rest: int | None = None
    rest_name: str = ""

    @staticmethod
    def of(text: str) -> DeclaredShape:
        words = text.split()
        stars = [at for at, word in enumerate(words) if word.startswith("*")]
        if len(stars) > 1:
            raise TypeError(f"a shape has at most one `*`: {text!r}")
        if not stars:
            return DeclaredShape(text, tuple(words))
        return DeclaredShape(text, tuple(word for word in words if word[0] != "*"), stars[0], words[stars[0]][1:])

    def takes(self, rank: int) -> bool:
        """Whether a tensor of this rank can have the shape."""
        return rank == len(self.sizes) if self.rest is None else rank >= len(self.sizes)

    def split(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Split a tensor's sizes into those with expressions and those of `*`."""
        if self.rest is None:
            return shape, ()
        end = len(shape) - (len(self.sizes) - self.rest)
        return (*shape[: self.rest], *shape[end:]), shape[self.rest : end]

    @property
    def dimensions(self) -> str:
        """The number of dimensions, for messages."""
        count, named = len(self.sizes), f": {self.text.replace(' ', ' × ')}" if self.text else ""
        least = "at least " if self.rest is not None else ""
        return f"{least}{count} {'dimension' if count == 1 else 'dimensions'}{named}"


@dataclass
class Sizes:
    """Sizes by name, found from tensors and integer arguments."""

    known: dict[str, int]
    rests: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def bind(self, shape: DeclaredShape, actual: tuple[int, ...]) -> bool:
        """Learn names from a tensor's sizes; a sum or product gives its one unknown name. False on a contradiction."""
        sizes, rest = shape.split(actual)
        if shape.rest is not None and self.rests.setdefault(shape.rest_name, rest) != rest:
            return False
        pairs = sorted(zip(shape.sizes, sizes, strict=True), key=lambda pair: not pair[0].isidentifier())
        return all(text == "_" or _solve(_parsed(text), length, self.known) for text, length in pairs)

    def expected(self, shape: DeclaredShape) -> str:
        """The expected shape, for messages: known sizes as numbers."""
        found = self.shape(shape)
        if found is not None:
            return str(found)
        return re.sub(r"[A-Za-z_]\w*", lambda name: str(self.known.get(name[0], name[0])), shape.text).replace(
            " ", " × "
        )

    def shape(self, shape: DeclaredShape) -> tuple[int, ...] | None:
        """The sizes of a shape; None if they are not all known."""
        if shape.rest is not None and shape.rest_name not in self.rests:
            return None
        sizes = [None if text == "_" else _value(_parsed(text), self.known) for text in shape.sizes]
        found = tuple(size for size in sizes if size is not None)
        if len(found) < len(sizes):
            return None
        at = shape.rest
        return found if at is None else (*found[:at], *self.rests[shape.rest_name], *found[at:])


@cache
def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _value(node: ast.expr, known: Known) -> int | None:
    """The value of an expression; None if a name in it is unknown or it divides by 0."""
    if isinstance(node, ast.Constant):
        return int(node.value)  # type: ignore[arg-type]
    if isinstance(node, ast.Name):
        return known.get(node.id)
    assert isinstance(node, ast.BinOp), "sizes are names, integers, sums, differences, products and quotients"
    left, right = _value(node.left, known), _value(node.right, known)
    if left is None or right is None or (isinstance(node.op, ast.FloorDiv) and right == 0):
        return None
    return _FORWARD[type(node.op)](left, right)


def _solve(node: ast.expr, length: int, known: dict[str, int]) -> bool:
    """Set an expression to `length` by learning its one unknown name; False if that is impossible."""
    if isinstance(node, ast.Name):
        return known.setdefault(node.id, length) == length
    value = _value(node, known)
    if value is not None:
        return value == length
    if not isinstance(node, ast.BinOp):
        return False
    left, right = _value(node.left, known), _value(node.right, known)
    if left is None and right is None:
        return True  # nothing is known to compare with
    unknown, other = (node.left, right) if left is None else (node.right, left)
    if other is None:
        return True
    if isinstance(node.op, ast.Add):
        return length >= other and _solve(unknown, length - other, known)
    if isinstance(node.op, ast.Sub) and left is None:
        return _solve(unknown, length + other, known)
    if isinstance(node.op, ast.Mult):
        return length == 0 if other == 0 else length % other == 0 and _solve(unknown, length // other, known)
    return True


Accept = Callable[[Any], Any]
Said = TypeVar("Said")

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_LARGEST = sys.float_info.max


class MismatchError(Exception):
    """A value does not match a rule."""


@dataclass(frozen=True)
class TensorRule:
    """A tensor with a shape and one of some dtypes. `written`: None if the function only reads it."""

    shape: DeclaredShape
    dtypes: tuple[str, ...]
    written: Written | None = None


@dataclass(frozen=True)
class ValueRule:
    """A value that is no tensor. `accept` returns the value to pass to the function, or raises `MismatchError`."""

    expected: str
    accept: Accept
    plain: tuple[type, float, float] | None = None


@dataclass(frozen=True)
class Rules:
    """The alternatives that an argument allows."""

    tensors: tuple[TensorRule, ...]
    values: tuple[ValueRule, ...]

    @property
    def expected(self) -> str:
        tensor = ("a torch tensor or a NumPy array",) if self.tensors else ()
        return " or ".join((*tensor, *(rule.expected for rule in self.values)))

    @property
    def plain(self) -> tuple[type, float, float] | None:
        """Type and range of numbers that need no conversion; None if there are other alternatives."""
        return self.values[0].plain if len(self.values) == 1 else None

    def accept(self, value: Any) -> Any:
        """The value to pass to the function, for one that is no tensor. Raises `MismatchError`."""
        for rule in self.values:
            try:
                return rule.accept(value)
            except MismatchError:
                continue
        raise MismatchError


def rules_of(annotation: Any) -> Rules:
    """The rules that an annotation declares. Raises `TypeError` if it declares none."""
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
    """An integer of any library; Python integers are returned themselves, because replays identify them."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, bool | np.bool_) or str(getattr(value, "dtype", "")).removeprefix("torch.") == "bool":
        raise MismatchError
    try:
        return operator.index(value)
    except Exception:  # `__index__` may raise anything
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
    """Whether a value is a NumPy array or torch tensor."""
    return isinstance(value, np.ndarray) or is_torch(value)
