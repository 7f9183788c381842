"""Operands that are copied, panel by panel, before a CPU reads them again and again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from ..space import PlanSearchSpace, StructuralChoices
from .decision import Alternatives, PlanDecision


def _alternatives(space: PlanSearchSpace) -> Iterable[Alternatives]:
    if space.limits.warp == 1:
        read_again = [name for name in space.needs.packable if space.needs.dots or _is_shared(space, name)]
        yield from (partial(_toggle, tensor) for tensor in read_again)
        if len(read_again) > 1:
            yield partial(_all, tuple(sorted(read_again)))


def _is_shared(space: PlanSearchSpace, tensor: str) -> bool:
    """Whether several programs read the same elements of a tensor, along tile axes that do not index it."""
    axes = {axis.name for axis in space.needs.axes if axis.is_tile}
    return any(axes.difference(tiles) for tiles, _ in space.needs.packable[tensor])


def _names(space: PlanSearchSpace) -> list[str]:
    return sorted(space.needs.packable)


def _toggle(tensor: str, choices: StructuralChoices) -> Iterator[StructuralChoices]:
    others = tuple(name for name in choices.packs if name != tensor)
    yield replace(choices, packs=others if tensor in choices.packs else tuple(sorted((*others, tensor))))


def _all(tensors: tuple[str, ...], choices: StructuralChoices) -> Iterator[StructuralChoices]:
    if not choices.packs:
        yield replace(choices, packs=tensors)


PACKS = PlanDecision(
    "packs", "tensor", "copied first, panel by panel, in the order in which it is read", _alternatives,
    title="packed tensors", entry="pack", names=_names, weight=1,
)  # fmt: skip
