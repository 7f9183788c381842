"""Sizes that annotations name, bound and compared: `"*B N"`, `"R+1"`, `"C//groups"`."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

Known = Mapping[str, int]

_FORWARD: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


@dataclass(frozen=True)
class DeclaredShape:
    """A declared shape. `sizes`: one expression a dimension, `_` for any; `rest`: the place of `*B`, and its name."""

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
        """Whether a tensor of so many dimensions can have this shape."""
        return rank == len(self.sizes) if self.rest is None else rank >= len(self.sizes)

    def split(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """A tensor's sizes that have expressions, and those that `*` stands for."""
        if self.rest is None:
            return shape, ()
        end = len(shape) - (len(self.sizes) - self.rest)
        return (*shape[: self.rest], *shape[end:]), shape[self.rest : end]

    @property
    def dimensions(self) -> str:
        """How many dimensions that is, for messages."""
        count, named = len(self.sizes), f": {self.text.replace(' ', ' × ')}" if self.text else ""
        least = "at least " if self.rest is not None else ""
        return f"{least}{count} {'dimension' if count == 1 else 'dimensions'}{named}"


@dataclass
class Sizes:
    """Sizes by name, as tensors and whole numbers give them."""

    known: dict[str, int]
    rests: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def bind(self, shape: DeclaredShape, actual: tuple[int, ...]) -> bool:
        """Learn what a tensor's sizes tell: of a sum or product the one name that is not known. Names come first.

        False where they contradict what is known.
        """
        sizes, rest = shape.split(actual)
        if shape.rest is not None and self.rests.setdefault(shape.rest_name, rest) != rest:
            return False
        pairs = sorted(zip(shape.sizes, sizes, strict=True), key=lambda pair: not pair[0].isidentifier())
        return all(text == "_" or _solve(_parsed(text), length, self.known) for text, length in pairs)

    def expected(self, shape: DeclaredShape) -> str:
        """What a shape must be, for messages: numbers as far as they are known."""
        found = self.shape(shape)
        if found is not None:
            return str(found)
        return re.sub(r"[A-Za-z_]\w*", lambda name: str(self.known.get(name[0], name[0])), shape.text).replace(
            " ", " × "
        )

    def shape(self, shape: DeclaredShape) -> tuple[int, ...] | None:
        """The sizes that a shape must have; None where they are not all known."""
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
    """What an expression is; None where a name in it is not known, or it divides by 0."""
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
    """Make an expression a length by learning the one name in it that is not known; False where it cannot be."""
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
