"""Boxes: what an access takes of a tensor where each dimension has one axis at most, position by position."""

from __future__ import annotations

from collections.abc import Iterable

from .attributes import IndexAttr


def axes_of_box(index: Iterable[IndexAttr]) -> tuple[str | None, ...] | None:
    """The axis along each dimension, None where it has one position; None for all where the indices are of no box.

    Each axis is in one dimension, with coefficient 1. Offsets are not looked at.
    """
    terms = [each.terms for each in index]
    axes = tuple(each[0][0] if each else None for each in terms)
    named = [axis for axis in axes if axis is not None]
    is_plain = all(len(each) < 2 for each in terms) and all(step == 1 for each in terms for _, step in each)
    return axes if named and is_plain and len(set(named)) == len(named) else None
