"""Sorting, the positions of a sort, and the largest or smallest elements."""

from __future__ import annotations

from dataclasses import replace

from vkernels.language.operations.ordering import argsort, sort, topk

from .authored import authored
from .steps import pick, wholes
from .values import Kernel, Value


def ordered(kernel: Kernel, depth: int) -> Value | None:
    """A value in order along a whole axis, or the positions of that order, or its first elements along another.

    Rounding may swap elements, and then their positions: inexact values are sorted, and their positions not seen.
    """
    choose = kernel.random
    if not wholes(kernel):
        return None
    along = choose.choice(wholes(kernel))
    value = pick(kernel, axis=along.name)
    if value.element == "i1" or along.name not in value.axes:
        return None
    unsigned, turned = choose.random() < 0.3, choose.random() < 0.5
    others = [axis for axis in wholes(kernel) if axis.name not in value.axes and axis.extent <= along.extent]
    kind = choose.choice(["sort", "argsort", *(["topk"] * 2 if others else [])])
    with authored(kernel) as author:
        tile, axis = author.tile(value, unsigned), author.axis(along.name)
        if kind == "topk":
            first = choose.choice(others).name
            found, places = topk(tile, author.axis(first), axis, largest=turned)
            kept = replace(value, ssa=found.ssa, axes=found.names)
            if not value.is_exact:
                return kept
            kernel.live.append(kept)
            return Value(places.ssa, places.names, "i64")
        if kind == "sort" or not value.is_exact:
            return replace(value, ssa=sort(tile, axis, descending=turned).ssa)
        return Value(argsort(tile, axis, descending=turned).ssa, value.axes, "i64")
