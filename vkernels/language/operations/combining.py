"""Reductions and inclusive scans with functions of one's own, along whole axes.

`f` combines two elements: a `@vk.function`, or an operation such as `vk.maximum`. It must be associative:
`f(f(a, b), c)` equals `f(a, f(b, c))`. It need not be commutative: elements combine in the order of their positions.
With a tuple of tiles an element is a tuple: `f` takes two tuples and gives one. It is made of elementwise operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from vkernels.ir.errors import TypeMismatchError

from ..dtypes import DType, bool_, int32
from ..operation import Mistake, operation
from ..values import Axis, Tile
from .current_builder import current_builder
from .elementwise import where

Function = Callable[[Any, Any], Any]


@operation
def reduce(f: Any, x: Any, axis: Any = None, identity: Any = None) -> Any:
    """The elements along an axis combined by `f`, a `@vk.function` of two elements: `vk.reduce(f, x, axis=j)`.

    `x`: a tile, or a tuple of tiles. `identity`: what an empty axis gives, with `f(identity, a) == a`; else 0.
    """
    builder = current_builder()
    elements = _Elements.of(x, axis)
    last = builder.compare("==", elements.along, _length(elements.along) - 1)
    is_empty = builder.compare("==", _length(elements.along), 0)
    found = []
    for tile, none in zip(elements.scanned(_function(f), identity), elements.identities(identity), strict=True):
        value = builder.convert(tile, int32) if tile.dtype is bool_ else tile
        least = float("-inf") if value.dtype.is_float else value.dtype.limits[0]
        value = builder.reduce("max", where(last, value, builder.tile(least, value.dtype)), elements.along)
        found.append(where(is_empty, none, builder.convert(value, tile.dtype)))
    return elements.given(found)


@operation
def scan(f: Any, x: Any, axis: Any = None, identity: Any = None) -> Any:
    """Each element combined by `f`, a `@vk.function` of two elements, with all before it: `vk.scan(f, (a, b), axis=j)`.

    `x`: a tile, or a tuple of tiles. `identity`: an element with `f(identity, a) == a`; else elements have a mark.
    """
    elements = _Elements.of(x, axis)
    return elements.given(elements.scanned(_function(f), identity))


def _function(f: Any) -> Function:
    if callable(f):
        return f  # type: ignore[no-any-return]
    raise Mistake(TypeMismatchError, "expected a function of two elements", "Such as `vk.maximum`.", f)


def _length(axis: Axis) -> Any:
    return axis.extent if isinstance(axis.extent, int) else axis.size


def _converted(tiles: Sequence[Tile], dtypes: Sequence[DType]) -> list[Tile]:
    builder = current_builder()
    return [builder.convert(tile, dtype) for tile, dtype in zip(tiles, dtypes, strict=True)]


class _Elements:
    """Tiles that have the same axes, whose elements along one axis are combined."""

    def __init__(self, tiles: Sequence[Tile], along: Axis, is_tuple: bool):
        self.tiles, self.along, self.is_tuple = tiles, along, is_tuple

    @staticmethod
    def of(x: Any, axis: Any) -> _Elements:
        builder = current_builder()
        given = x if isinstance(x, tuple) else (x,)
        if not given:
            raise Mistake(TypeMismatchError, "expected a tile or a tuple of tiles", culprit=x)
        tiles = builder.joined([builder.tile(one) for one in given])
        return _Elements(tiles, builder.whole_axis(tiles[0], axis, x), isinstance(x, tuple))

    def given(self, tiles: Sequence[Tile]) -> Any:
        """Results as the tiles were given: a tile or a tuple."""
        return tuple(tiles) if self.is_tuple else tiles[0]

    def identities(self, identity: Any) -> list[Tile]:
        """The identity as scalars of the tiles' dtypes: 0 where there is none."""
        builder = current_builder()
        given = identity if isinstance(identity, tuple) else (0 if identity is None else identity,) * len(self.tiles)
        if len(given) != len(self.tiles):
            raise Mistake(
                TypeMismatchError, f"expected {len(self.tiles)} identities, found {len(given)}", culprit=identity
            )
        return [builder.full(one, (), tile.dtype) for one, tile in zip(given, self.tiles, strict=True)]

    def scanned(self, f: Function, identity: Any) -> list[Tile]:
        """The scan of the tiles; bool as int32. Without an identity each element says whether it is the first."""
        builder = current_builder()
        dtypes = [tile.dtype for tile in self.tiles]
        kept = [int32 if dtype is bool_ else dtype for dtype in dtypes]
        tiles, initial = _converted(self.tiles, kept), _converted(self.identities(identity), kept)

        def combine(before: Sequence[Tile], after: Sequence[Tile]) -> Sequence[Tile]:
            two = [self.given(_converted(one, dtypes)) for one in (before, after)]
            return _converted(self.checked(f(*two), _converted(before, dtypes)), kept)

        def starting(before: Sequence[Tile], after: Sequence[Tile]) -> Sequence[Tile]:
            *values, begun = before
            *others, begins = after
            is_first = builder.compare("!=", begins, 0)
            made = combine(values, others)
            return [*(where(is_first, a, b) for a, b in zip(others, made, strict=True)), begun | begins]

        if identity is not None:
            return _converted(builder.scan_by(combine, tiles, initial, self.along), dtypes)
        is_first = builder.convert(builder.compare("==", self.along, 0), int32)
        tiles.append(builder.broadcast(is_first, tiles[0].axes))
        found = builder.scan_by(starting, tiles, [*initial, builder.tile(0, int32)], self.along)
        return _converted(found[:-1], dtypes)

    def checked(self, found: Any, before: Sequence[Tile]) -> list[Tile]:
        """What a function gives for two elements: as many values, of the elements' dtypes."""
        builder = current_builder()
        values = found if isinstance(found, tuple) else (found,)
        if len(values) != len(before):
            raise Mistake(
                TypeMismatchError,
                f"the function gives {len(values)} values for elements of {len(before)}",
                "It takes two elements, and gives one: with a tuple of tiles, each is a tuple.",
            )
        tiles = [builder.tile(value) for value in values]
        for tile, old in zip(tiles, before, strict=True):
            if not tile.weak and tile.dtype is not old.dtype:
                raise Mistake(
                    TypeMismatchError,
                    f"the function gives {tile.dtype.name} for elements of {old.dtype.name}",
                    f"Convert what it gives, `.to({old.dtype!r})`, or the elements.",
                )
            if tile.axes:
                raise Mistake(
                    TypeMismatchError,
                    f"the function gives a tile along `{tile.axes[0].name}`, which an element does not have",
                    "It may use its two arguments, scalars and numbers.",
                )
        return [builder.convert(tile, old.dtype) for tile, old in zip(tiles, before, strict=True)]
