"""Places of tensors that can be packed: where loads take elements at tile axes and one whole axis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.ir import SSAValue

from ..dialect import LoadOp, TensorArgumentType
from ..errors import PlanError
from ..facts import Facts
from .axes import known_value

PlaceIndex = tuple[str | int, ...]
"""An axis or a number for each dimension."""


@dataclass(frozen=True)
class PackablePlace:
    """Elements of a tensor that `loads` take, in any phases and loops, all at the same `index`.

    `tiles`: the tile axes in the order of their dimensions. `whole`: the one whole axis.
    """

    index: PlaceIndex
    tiles: tuple[str, ...]
    whole: str
    loads: tuple[LoadOp, ...]


def packable_places(name: str, tensor: SSAValue, is_tile: Callable[[str], bool]) -> tuple[PackablePlace, ...]:
    """The places at which a kernel reads a tensor, in the order of their indices. Each is packed by itself.

    Raises `PlanError` where the tensor is written, or one of its loads does not suit a pack: it has a mask, an index
    of more than axes and known numbers, or other axes than tile axes and one whole axis.
    """
    users = [use.operation for use in tensor.uses]
    loads = [user for user in users if isinstance(user, LoadOp)]
    if not isinstance(tensor.type, TensorArgumentType) or not loads or len(loads) < len(users):
        raise PlanError(f"{name} is not a tensor that is only loaded, never written: it cannot be packed", about=name)
    found: dict[PlaceIndex, tuple[LoadOp, ...]] = {}
    for load in loads:
        index = tuple(_plain(name, load, dimension) for dimension in range(len(load.index)))
        found[index] = (*found.get(index, ()), load)
    in_order = sorted(found, key=lambda index: tuple(map(str, index)))
    return tuple(_place(name, index, found[index], is_tile) for index in in_order)


def _plain(name: str, load: LoadOp, dimension: int) -> str | int:
    """The axis or number that alone indexes a dimension."""
    terms, offset = load.index.data[dimension].terms, load.offset_of(dimension)
    if offset is None and len(terms) == 1 and terms[0][1] == 1:
        return terms[0][0]
    number = 0 if offset is None else known_value(offset, Facts())
    if terms or number is None:
        raise PlanError(f"{name} is indexed by more than its axes: it cannot be packed", about=name)
    return number


def _place(name: str, index: PlaceIndex, loads: tuple[LoadOp, ...], is_tile: Callable[[str], bool]) -> PackablePlace:
    axes = [axis for axis in index if isinstance(axis, str)]
    tiles = tuple(axis for axis in axes if is_tile(axis))
    wholes = [axis for axis in axes if not is_tile(axis)]
    is_plain = all(load.mask is None and not load.within.data and not load.guarded_dimensions for load in loads)
    if not tiles or len(wholes) != 1 or len({*tiles}) < len(tiles) or not is_plain:
        raise PlanError(f"{name} is not loaded at tile axes and one whole axis: it cannot be packed", about=name)
    return PackablePlace(index, tiles, wholes[0], loads)
