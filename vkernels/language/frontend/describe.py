"""Descriptions of values for messages, in the author's terms."""

from __future__ import annotations

from typing import Any

from vkernels.ir.errors import TypeMismatchError

from ..dtypes import DTYPES, DType, complex64, complex128
from ..operation import Mistake
from ..values import (
    AddressableValue,
    Affine,
    Axis,
    ComplexScratch,
    ComplexTensor,
    ComplexTile,
    Operand,
    PackedTensor,
    Range,
    Scratch,
    SubscriptReference,
    Tensor,
    Tile,
)

_FORMS: dict[type, str] = {
    Axis: "the axis `{0.name}`",
    Affine: "an index expression",
    Tensor: "the tensor `{0.name}`",
    PackedTensor: "the tensor `{0.name}`",
    ComplexTensor: "the tensor `{0.name}`",
    Scratch: "the scratchpad `{0.name}`",
    ComplexScratch: "the scratchpad `{0.name}`",
    Range: "a range",
    SubscriptReference: "a place in `{0.memory.name}`",
    DType: "the dtype {0!r}",
    bool: "the bool {0!r}",
    int: "the int {0!r}",
    float: "the float {0!r}",
    str: "the string {0!r}",
    type(None): "None",
}
"""How values of each type are described, but tiles."""

PASS_IT = "Pass it to the kernel: an array needs a parameter."
"""Helps where an array is used that the kernel finds outside its text."""

_NAMED = {**DTYPES, complex64.name: complex64, complex128.name: complex128}


def describe(value: Any) -> str:
    """What a value is, with an article: "a tile of float32 along i, j", "the axis `i`", "a string"."""
    if isinstance(value, ComplexTile):
        along = ", ".join(value.names)
        return f"a tile of {value.dtype.name} along {along}" if along else f"a scalar {value.dtype.name}"
    if isinstance(value, Tile):
        return _describe_tile(value)
    kind = type(value).__name__
    if is_outside_array(value):
        return f"an array from outside the kernel ({kind})"
    if kind in ("type", "dtype"):
        return f"the {kind} {value.__name__ if isinstance(value, type) else value}"
    return _FORMS.get(type(value), f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}").format(value)


def is_outside_array(value: Any) -> bool:
    """Whether a value is an array of NumPy, torch or another library, which no parameter holds."""
    is_array = hasattr(type(value), "__array__") or hasattr(type(value), "__dlpack__")
    return is_array and not isinstance(value, Operand | AddressableValue)


def require_dtype(given: Any) -> None:
    """Raise a `Mistake` unless it is a dtype."""
    if isinstance(given, DType):
        return
    help = "Such as `vk.float32`, or `x.dtype`."
    if isinstance(given, Axis):
        help = "Several axes are a tuple: `(i, j)`."
    elif (named := _NAMED.get(getattr(given, "__name__", str(given)).removeprefix("torch."))) is not None:
        help = f"Did you mean `vk.{named.name}`?"
    what = "a dtype of vkernels" if type(given).__name__ in ("type", "dtype") else "a dtype"
    raise Mistake(TypeMismatchError, f"expected {what}, found {describe(given)}", help, given)


def _describe_tile(tile: Tile) -> str:
    if tile.axes:
        return f"a tile of {tile.dtype.name} along {', '.join(tile.names)}"
    if tile.weak:
        return {"bool": "a bool", "int": "an int", "float": "a float"}[tile.dtype.kind] + " scalar"
    return f"a scalar {tile.dtype.name}"


def declaration(memory: AddressableValue) -> str:
    """A tensor's or scratchpad's dimensions: their number and names."""
    names = ["_" if str(d).startswith("_") else str(d) for d in memory.dimensions] if isinstance(memory, Tensor) else []
    if isinstance(memory, Scratch | ComplexScratch):
        names = [axis.name for axis in memory.axes]
    count = "no dimension" if not names else "one dimension" if len(names) == 1 else f"{len(names)} dimensions"
    return f"`{memory.name}` has {count}" + (f": {', '.join(names)}" if names else "")
