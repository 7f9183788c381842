"""Operands that are copied, panel by panel, before a CPU reads them again and again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from ..space import PlanSearchSpace, StructuralChoices
from .decision import Alternatives, PlanDecision


def _alternatives(space: PlanSearchSpace) -> Iterable[Alternatives]:
    if space.limits.warp == 1:
        yield from (partial(_toggle, tensor) for tensor in space.needs.packable)
        if len(space.needs.packable) > 1:
            yield partial(_all, space)


def _names(space: PlanSearchSpace) -> list[str]:
    return sorted(space.needs.packable)


def _toggle(tensor: str, choices: StructuralChoices) -> Iterator[StructuralChoices]:
    others = tuple(name for name in choices.packs if name != tensor)
    yield replace(choices, packs=others if tensor in choices.packs else tuple(sorted((*others, tensor))))


def _all(space: PlanSearchSpace, choices: StructuralChoices) -> Iterator[StructuralChoices]:
    if not choices.packs:
        yield replace(choices, packs=tuple(_names(space)))


PACKS = PlanDecision(
    "packs", "tensor", "copied first, panel by panel, in the order in which it is read", _alternatives,
    title="packed tensors", entry="pack", names=_names, weight=1,
)  # fmt: skip
