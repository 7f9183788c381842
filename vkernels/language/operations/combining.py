"""Reductions and inclusive scans with functions of one's own, along whole axes.

`f` combines two elements: a `@vk.function`, or an operation such as `vk.maximum`. It must be associative:
`f(f(a, b), c)` equals `f(a, f(b, c))`. It need not be commutative: elements combine in the order of their positions.
With a tuple of tiles an element is a tuple: `f` takes two tuples and gives one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from vkernels.ir.errors import TypeMismatchError

from ..dtypes import computed
from ..operation import Mistake, operation
from ..values import Axis, Scratch, Tile
from .current_builder import current_builder

Function = Callable[[Any, Any], Any]


@operation
def reduce(f: Any, x: Any, axis: Any = None, identity: Any = None) -> Any:
    """The elements along an axis combined by `f`, a `@vk.function` of two elements: `vk.reduce(f, x, axis=j)`.

    `x`: a tile, or a tuple of tiles. `identity`: what an empty axis gives, with `f(identity, a) == a`; else 0.
    """
    elements = _Elements.of(x, axis)
    return elements.given(elements.combined(_function(f), identity))


@operation
def scan(f: Any, x: Any, axis: Any = None) -> Any:
    """Each element combined by `f`, a `@vk.function` of two elements, with all before it: `vk.scan(f, (a, b), axis=j)`.

    `x`: a tile, or a tuple of tiles.
    """
    elements = _Elements.of(x, axis)
    results = [elements.memory(f"scanned{number}", tile) for number, tile in enumerate(elements.tiles)]
    elements.combined(_function(f), None, results)
    current_builder().boundary(None)
    loaded = [memory[(elements.along, *elements.rest)] for memory in results]
    return elements.given([elements.ordered(new, old) for new, old in zip(loaded, elements.tiles, strict=True)])


def _function(f: Any) -> Function:
    if callable(f):
        return f  # type: ignore[no-any-return]
    raise Mistake(TypeMismatchError, "expected a function of two elements", "Such as `vk.maximum`.", f)


class _Elements:
    """Tiles that have the same axes, whose elements along one axis are combined."""

    def __init__(self, tiles: Sequence[Tile], along: Axis, is_tuple: bool):
        self.tiles, self.along, self.is_tuple = tiles, along, is_tuple
        self.rest = tuple(axis for axis in tiles[0].axes if axis is not along)

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

    def memory(self, name: str, tile: Tile) -> Scratch:
        """Scratchpad for a tile, whose first dimension is the axis: a step's elements lie side by side."""
        return current_builder().unnamed_scratch((self.along, *self.rest), computed(tile.dtype), name)

    def ordered(self, new: Tile, old: Tile) -> Tile:
        """A tile read from scratchpad with the dtype and the order of axes that it had."""
        builder = current_builder()
        return builder.broadcast(builder.convert(new, old.dtype), old.axes)

    def combined(self, f: Function, identity: Any, results: Sequence[Scratch] = ()) -> tuple[Tile, ...]:
        """All elements combined in order; what each step has combined is stored into `results`."""
        builder = current_builder()
        kept = [self.memory(f"element{number}", tile) for number, tile in enumerate(self.tiles)]
        for memory, tile in zip(kept, self.tiles, strict=True):
            memory[(self.along, *self.rest)] = tile
        builder.boundary(None)

        def step(position: Tile, before: Sequence[Tile]) -> Sequence[Tile]:
            place = (position, *self.rest)
            loaded = [memory[place] for memory in kept]
            here = [builder.convert(new, tile.dtype) for new, tile in zip(loaded, self.tiles, strict=True)]
            after = self.checked(f(self.given(before), self.given(here)), before)
            if identity is None:
                first = builder.compare("==", position, 0)
                after = [builder.where(first, h, a) for h, a in zip(here, after, strict=True)]
            after = [self.like(new, old) for new, old in zip(after, before, strict=True)]
            for memory, tile in zip(results, after, strict=False):
                memory[place] = tile
            return after

        return builder.repeat(self.along, self.initial(identity), step)

    def initial(self, identity: Any) -> list[Tile]:
        """What is combined before the first element: the identity, or 0, which the first element replaces."""
        builder = current_builder()
        given = identity if isinstance(identity, tuple) else (0 if identity is None else identity,) * len(self.tiles)
        if len(given) != len(self.tiles):
            raise Mistake(
                TypeMismatchError, f"expected {len(self.tiles)} identities, found {len(given)}", culprit=identity
            )
        tiles = zip(given, self.tiles, strict=True)
        return [builder.broadcast(builder.convert(builder.operand(one), tile.dtype), self.rest) for one, tile in tiles]

    def checked(self, found: Any, before: Sequence[Tile]) -> Sequence[Tile]:
        """What a function gives for two elements: as many tiles, of axes that elements have."""
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
            if extra := [axis.name for axis in tile.axes if axis not in self.rest]:
                raise Mistake(
                    TypeMismatchError,
                    f"the function gives a tile along `{extra[0]}`, which the elements do not have",
                    "It may use its two arguments, scalars and numbers.",
                )
        return tiles

    def like(self, new: Tile, old: Tile) -> Tile:
        """A tile with the dtype and all axes of another."""
        builder = current_builder()
        return builder.broadcast(builder.convert(new, old.dtype), old.axes)
