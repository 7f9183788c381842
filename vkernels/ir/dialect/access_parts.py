"""The operands and properties that an access is built from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, StringAttr, i64
from xdsl.ir import Attribute, Operation, SSAValue

from .attributes import IndexAttr

Index = tuple[Sequence[tuple[str, int]], SSAValue | None]
"""One dimension's index when building: (axis, coefficient) terms, and the offset."""


def access_parts(
    base: SSAValue | Operation,
    indices: Iterable[Index],
    bounds: Mapping[str, SSAValue] | None,
    mask: SSAValue | None,
    guarded: Sequence[int],
) -> tuple[list[SSAValue | Operation | list[SSAValue]], dict[str, Attribute | None]]:
    """The operands of an access, but for a value that it stores, and its properties."""
    offsets: list[SSAValue] = []
    numbered = []
    for terms, offset in indices:
        numbered.append((tuple(terms), -1 if offset is None else len(offsets)))
        if offset is not None:
            offsets.append(offset)
    counts = bounds or {}
    operands = [base, offsets, list(counts.values()), [] if mask is None else [mask]]
    return operands, dict(_properties(tuple(numbered), tuple(counts), tuple(guarded)))


@lru_cache(maxsize=4096)  # accesses are built often, and few differ in these
def _properties(
    indices: tuple[tuple[tuple[tuple[str, int], ...], int], ...], bounded: tuple[str, ...], guarded: tuple[int, ...]
) -> Mapping[str, Attribute]:
    return {
        "index": ArrayAttr(IndexAttr(terms, offset) for terms, offset in indices),
        "within": ArrayAttr(StringAttr(axis) for axis in bounded),
        "guarded": DenseArrayBase.from_list(i64, guarded),
    }
