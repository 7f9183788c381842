"""Values in the author's terms, for messages."""

from __future__ import annotations

from typing import Any

from ..dtypes import DType
from ..values import AddressableValue, Affine, Axis, Range, Scratch, SubscriptReference, Tensor, Tile


def describe(value: Any) -> str:
    """What a value is, with an article: "a tile of float32 along i, j", "the axis `i`", "a string"."""
    if isinstance(value, Tile):
        return _describe_tile(value)
    if isinstance(value, Axis):
        return f"the axis `{value.name}`"
    if isinstance(value, Affine):
        return "an index expression"
    if isinstance(value, Tensor):
        return f"the tensor `{value.name}`"
    if isinstance(value, Scratch):
        return f"the scratchpad `{value.name}`"
    if isinstance(value, Range):
        return "a range"
    if isinstance(value, SubscriptReference):
        return f"a place in `{value.memory.name}`"
    if isinstance(value, DType):
        return f"the dtype {value!r}"
    return _describe_python(value)


def _describe_tile(tile: Tile) -> str:
    if tile.axes:
        return f"a tile of {tile.dtype.name} along {', '.join(tile.names)}"
    if tile.weak:
        return {"bool": "a bool", "int": "an int", "float": "a float"}[tile.dtype.kind] + " scalar"
    return f"a scalar {tile.dtype.name}"


_PYTHON = {bool: "the bool", int: "the int", float: "the float", str: "the string"}


def _describe_python(value: Any) -> str:
    if value is None:
        return "None"
    if type(value) in _PYTHON:
        return f"{_PYTHON[type(value)]} {value!r}"
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def declaration(memory: AddressableValue) -> str:
    """How many dimensions a tensor or scratchpad has, and which."""
    names = ["_" if str(d).startswith("_") else str(d) for d in memory.dimensions] if isinstance(memory, Tensor) else []
    if isinstance(memory, Scratch):
        names = [axis.name for axis in memory.axes]
    count = "no dimension" if not names else "one dimension" if len(names) == 1 else f"{len(names)} dimensions"
    return f"`{memory.name}` has {count}" + (f": {', '.join(names)}" if names else "")
