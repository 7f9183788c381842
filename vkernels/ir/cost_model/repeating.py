"""The loops around a touch that go through the same elements again."""

from __future__ import annotations

from functools import lru_cache

from .loops import Axes

GROUP = "programs of a group"
"""The loop over the programs of one group along the second-fastest tile axis, where a plan has groups."""


@lru_cache(maxsize=4096)
def repeating(
    around: Axes, programs: int, own: Axes, scattered: Axes, inside_programs: frozenset[str], grouped: str | None
) -> list[tuple[int, str, frozenset[str]]]:
    """The loops that repeat a touch, by place, with the axes that a trip of each goes through: of those `around` it,
    outermost first and those over `programs` first, the ones that do not decide by its `own` axes what it takes."""
    found: list[tuple[int, str, frozenset[str]]] = []
    for place, axis in enumerate(around):
        if (grouped if axis == GROUP else axis) in own or axis in around[:place]:
            continue
        if place < programs:
            inner = frozenset(around[place + 1 : programs]) | inside_programs | frozenset(scattered)
        else:  # a program has one position of each tile axis, whatever it finds by it
            inner = frozenset(around[place + 1 :]) | frozenset(scattered).difference(around[:programs])
        found.append((place, axis, inner))
    return found
