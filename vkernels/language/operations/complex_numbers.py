"""Complex numbers and their parts. `+ - * / ==`, whole powers, `vk.abs`, sums, means and dots take them, too."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..operation import operation
from ..values import ComplexTile, Tile
from .current_builder import current_builder


def by_parts(function: Callable[..., Tile]) -> Callable[..., Any]:
    """A function of a tile that takes complex ones, too: it is applied to both parts."""

    @functools.wraps(function)
    def of_both(x: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(x, ComplexTile):
            return function(x, *args, **kwargs)
        return current_builder().by_parts(lambda part: function(part, *args, **kwargs), x)

    return of_both


@operation
def complex(real: Any, imag: Any) -> ComplexTile:
    """real + i · imag, complex64; complex128 if one of them is float64."""
    return current_builder().complex(real, imag)


@operation
def real(x: Any) -> Tile:
    """The real part, as `x.real`; real numbers are unchanged."""
    return current_builder().tile(x.real if isinstance(x, ComplexTile) else x)


@operation
def imag(x: Any) -> Tile:
    """The imaginary part, as `x.imag`; of real numbers 0."""
    builder = current_builder()
    if isinstance(x, ComplexTile):
        return builder.tiles(x)[1]
    tile = builder.tile(x)
    return builder.full(0, tile.axes, tile.dtype)  # type: ignore[no-any-return]


@operation
def conj(x: Any) -> Any:
    """The complex conjugate; real numbers are unchanged."""
    return current_builder().conjugate(x)
