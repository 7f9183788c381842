"""Loads and stores of tensors of 4-bit integers: of their bytes, with shifts, masks and a choice by the position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Block

from vkernels.compiler.protocols import bytes_name
from vkernels.ir.dialect import arith
from vkernels.ir.errors import AxisError, TypeMismatchError, UnsupportedError

from ..dtypes import int64, uint8
from ..operation import Mistake
from ..values import Affine, Axis, Extent, PackedTensor, SubscriptReference, Tile
from .access import axes_of_value, declared, stays_within
from .builder import KernelBuilder


@dataclass(frozen=True)
class _Half:
    """Where a value lies. `byte`: the index of its byte; `is_upper`: whether it is in the upper half; `exists`: whether
    the tensor has it, None where that needs no test."""

    byte: Any
    is_upper: bool | Tile
    exists: Tile | None


class PackedBuilder(KernelBuilder):
    """Builds kernels whose tensors may be of 4-bit integers. `only_in_bytes`: sizes that only such tensors have, twice
    their bytes."""

    def __init__(self, top: Block, sizes: Sequence[str], only_in_bytes: frozenset[str]):
        super().__init__(top, sizes)
        self._only_in_bytes = only_in_bytes

    def size(self, name: str) -> Tile:
        """A size of the call, by name."""
        if name in self._only_in_bytes and name not in self._sizes:
            count = super().size(bytes_name(name))
            value = self.insert_at_top(arith.MuliOp(count.ssa, self.constant_at_top(2))).results[0]
            self._sizes[name] = Tile(value, int64, weak=True, size=name)
        return super().size(name)

    def load(self, reference: SubscriptReference, mask: Any = None, inside: bool = False) -> Tile:
        """Load the tile at a subscript; 4-bit integers are extended to 8 bits, by their sign or by zeros."""
        memory = reference.memory
        if not isinstance(memory, PackedTensor):
            return super().load(reference, mask, inside)
        half = self._half(memory, reference)
        if half.exists is not None and half.exists.axes:
            mask = half.exists if mask is None else self.where(mask, half.exists, False)
        place = SubscriptReference(memory.storage, (*reference.index[:-1], half.byte))
        byte = super().load(place, mask, inside)
        value = self._extended(memory, self._chosen(byte, half.is_upper))
        return value if half.exists is None else self.where(half.exists, value, 0)

    def _half(self, memory: PackedTensor, reference: SubscriptReference) -> _Half:
        if len(reference.index) != memory.ndim:
            count = len(reference.index)
            raise Mistake(
                AxisError, f"{count} {'index is' if count == 1 else 'indices are'} given", declared(reference)
            )
        index, extent = reference.index[-1], memory.extents[-1]
        place = self.index_expression(memory, memory.ndim - 1, index)
        if place.offset is None and all(coefficient % 2 == 0 for _, coefficient in place.terms):
            byte = Affine(tuple((axis, coefficient // 2) for axis, coefficient in place.terms), place.constant // 2)
            is_full = (extent % 2 == 0) if isinstance(extent, int) else extent in self._only_in_bytes
            needs_test = place.constant % 2 == 1 and not is_full and not stays_within(index, place, extent)
            return _Half(byte, place.constant % 2 == 1, self._is_within(index, extent) if needs_test else None)
        position = self.tile(index)
        is_upper = self.compare("!=", self.binary("&", position, 1), 0)
        exists = None if stays_within(index, place, extent) else self._is_within(position, extent)
        return _Half(self.binary("//", position, 2), is_upper, exists)

    def _is_within(self, index: Any, extent: Extent) -> Tile:
        """Whether a dimension has the positions."""
        count = self.size(extent) if isinstance(extent, str) else extent
        below = self.compare("<", index, count)
        return self.binary("&", self.compare(">=", index, 0), below)  # type: ignore[no-any-return]

    def _chosen(self, byte: Tile, is_upper: bool | Tile) -> Tile:
        """The half of each byte, as an integer from 0 to 15."""
        if is_upper is True:
            return self.binary(">>", byte, 4)  # type: ignore[no-any-return]
        lower = self.binary("&", byte, 15)
        return self.where(is_upper, self.binary(">>", byte, 4), lower) if isinstance(is_upper, Tile) else lower

    def _extended(self, memory: PackedTensor, bits: Tile) -> Tile:
        if memory.dtype.is_uint:
            return bits
        return self.binary("-", self.binary("^", self.convert(bits, memory.dtype), 8), 8)  # type: ignore[no-any-return]

    def store(self, reference: SubscriptReference, value: Any, atomic: str | None = None, mask: Any = None) -> None:
        """Store a value at a subscript; 4-bit integers keep the low bits, and whole rows of them are stored at once.

        They pass through scratchpad, from which each byte gets its two.
        """
        memory = reference.memory
        if not isinstance(memory, PackedTensor):
            super().store(reference, value, atomic, mask)
            return
        if atomic is not None:
            raise _no_atomic(memory)
        axis = self._stored_axis(memory, reference, mask)
        access = self.access(reference)
        tile = self.convert(self.stored_tile(memory, access, value), uint8)
        through = self.unnamed_scratch(access.axes, uint8, "packed")
        through[access.axes] = tile
        self.boundary(None)
        extent = memory.storage.extents[-1]
        pair = self.unnamed_axis("whole", extent, f"{axis.name}_bytes")
        lower, upper = (
            through[tuple(2 * pair + half if each is axis else each for each in access.axes)] for half in (0, 1)
        )
        packed = self.binary("|", self.binary("&", lower, 15), self.binary("<<", upper, 4))
        super().store(SubscriptReference(memory.storage, (*reference.index[:-1], pair)), packed)
        self.boundary(None)  # the scratchpad may be written again, in a loop

    def _stored_axis(self, memory: PackedTensor, reference: SubscriptReference, mask: Any) -> Axis:
        """The whole axis along which a store fills all bytes of the place, each by itself."""
        if mask is not None:
            raise Mistake(
                UnsupportedError,
                f"`{memory.name}` holds two values in each byte: a store cannot leave some out",
                "Choose what to store with `vk.where`.",
                mask,
            )
        index, extent = reference.index[-1], memory.extents[-1]
        if (
            isinstance(index, Axis)
            and index.kind == "whole"
            and index.extent == extent
            and all(index not in axes_of_value(each) for each in reference.index[:-1])
        ):
            return index
        count = f'"{extent}"' if isinstance(extent, str) else extent
        raise Mistake(
            UnsupportedError,
            f"`{memory.name}` holds two values in each byte: stores that fill bytes by halves would lose values",
            f"Store the whole last dimension at once: `k = vk.whole({count})`, then `{memory.name}[…, k] = …`. Or "
            "declare its bytes, as `UInt8`, and store `low | high << 4`.",
            index,
        )

    def fetch(
        self, reference: SubscriptReference, value: Any, kind: str, expected: Any = None, mask: Any = None
    ) -> Tile:
        """Update places atomically; what was there before."""
        if isinstance(reference.memory, PackedTensor):
            raise _no_atomic(reference.memory)
        return super().fetch(reference, value, kind, expected, mask)


def _no_atomic(memory: PackedTensor) -> Mistake:
    return Mistake(
        TypeMismatchError,
        f"`{memory.name}` holds two values in each byte, which no atomic updates by halves",
        "Update a tensor of int32 or float32.",
    )
