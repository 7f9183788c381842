"""Scratchpads in two copies, which a loop swaps: reading the old one and writing the new one is one phase."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from ..space import PlanSearchSpace, StructuralChoices
from .decision import Alternatives, PlanDecision


def _alternatives(space: PlanSearchSpace) -> Iterable[Alternatives]:
    return [partial(_toggle, label) for label in _names(space)]


def _names(space: PlanSearchSpace) -> tuple[str, ...]:
    return tuple(scratchpad.label for scratchpad in space.needs.scratchpads if scratchpad.can_copy)


def _toggle(label: str, choices: StructuralChoices) -> Iterator[StructuralChoices]:
    others = tuple(each for each in choices.copies if each != label)
    yield replace(choices, copies=others if label in choices.copies else (*others, label))


COPIES = PlanDecision(
    "copies", "scratchpad", "kept twice: one copy is read while the other is written", _alternatives,
    entry="copy", names=_names, weight=1,
)  # fmt: skip
